// Package heap lets a process collect its garbage less often than Go does by
// itself, within bounds. It is for programs; a library leaves this to its host.
package heap

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A heap that is mostly garbage and a few MiB large is collected many times a second at
// Go's percentages, for a fifth of the processor's time. The collections cost, so the
// amount between two of them is fixed, and a large heap is not multiplied. The limit is
// for a heap that grows faster than the percentage is adjusted, and for giving back
// what a burst has taken: it follows what is in use, too, since a process that needs
// more than a fixed limit would collect without end. A ballast would show in all
// figures of the heap.
const (
	room  = 32 << 20  // of free heap in any case
	spare = 150 << 20 // up to which the heap may grow to twice what is in use
	most  = 800       // percent; with it, Go's first collection is at 32 MiB
)

// Govern adjusts GOGC and GOMEMLIMIT to what is in use after each collection. It does
// nothing if either is set in the environment.
func Govern() {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	afterNext(setting{}.set(most, spare))
}

// A setting is the current setting of the collector.
type setting struct{ percent, limit int64 }

// set applies what differs by more than a tenth, since each change stops the world.
func (s setting) set(percent, limit int64) setting {
	if differ(percent, s.percent) {
		s.percent = percent
		debug.SetGCPercent(int(percent))
	}
	if differ(limit, s.limit) {
		s.limit = limit
		debug.SetMemoryLimit(limit)
	}
	return s
}

func differ(a, b int64) bool { return a < b-b/10 || b < a-a/10 }

// afterNext schedules adjust for soon after the next collection.
func afterNext(s setting) {
	runtime.AddCleanup(new([64]byte), adjust, s)
}

func adjust(set setting) {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"}}
	metrics.Read(s)
	live, roots := int64(s[0].Value.Uint64()), int64(s[1].Value.Uint64()+s[2].Value.Uint64())
	afterNext(set.set(percent(live, roots), limit(live+roots)))
}

// percent returns GOGC for a heap with this much in use. Go applies it to stacks and
// globals, too.
func percent(live, roots int64) int64 {
	free := max(room, live/4, min(live, spare-live))
	return min(most, free*100/max(1, live+roots))
}

// limit returns GOMEMLIMIT for this much in use: far more than GOGC allows, fragmentation
// included.
func limit(live int64) int64 { return max(spare, 2*live+2*room) }
