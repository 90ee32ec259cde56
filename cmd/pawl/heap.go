package main

import (
	"os"
	"runtime/debug"
)

// heapLimit is what this process takes at most without need: the garbage
// collector lets the heap grow only as far as that. It is a soft limit; what a
// process has in hand beyond it, it takes. The caches of SQLite, at most 44 MiB,
// come on top.
const heapLimit = 150 << 20

// heapGrowth is by how many percent the heap may grow between collections, below the
// limit. Little stays of what a job takes: to collect less often saves a tenth of
// the processor's time, and costs few MiB.
const heapGrowth = 200

// limitHeap sets both, unless the environment says otherwise.
func limitHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapLimit)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(heapGrowth)
	}
}
