package heap

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

// TestMain is a program as well: what a process sets, it sets for all of itself.
func TestMain(m *testing.M) {
	switch os.Getenv("HEAP_TEST") {
	case "":
		os.Exit(m.Run())
	case "cycles":
		Govern()
		fmt.Println(cycles())
	case "small":
		Govern()
		runtime.GC()
		fmt.Println(goal())
	case "goal":
		Govern()
		fmt.Println(goals())
	}
}

const mib = 1 << 20

var sink []byte

// cycles returns how often a process with nothing in use collects while it allocates
// half a GiB.
func cycles() uint32 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 512 * mib / (64 << 10) {
		sink = make([]byte, 64<<10)
	}
	runtime.ReadMemStats(&after)
	return after.NumGC - before.NumGC
}

// goals returns, for several heaps in use, when the next collection, or the limit, is not in
// proportion.
func goals() (faults []string) {
	for _, tt := range []struct{ live, least, most, limit int }{{8, 32, 48, 150}, {64, 120, 150, 192}, {128, 155, 180, 320}, {256, 300, 340, 576}, {4, 30, 48, 150}} {
		held := make([]byte, tt.live*mib)
		fits := func() bool {
			limit := int(debug.SetMemoryLimit(-1) / mib)
			return goal() >= tt.least && goal() <= tt.most && limit > tt.limit*8/10 && limit < tt.limit*12/10
		}
		runtime.GC()
		for try := 0; !fits() && try < 1000; try++ { // an adjustment follows its collection
			runtime.GC()
		}
		if !fits() {
			faults = append(faults, fmt.Sprintf("%d MiB in use: the next collection is at %d MiB, want %d to %d; the limit %d, want about %d",
				tt.live, goal(), tt.least, tt.most, debug.SetMemoryLimit(-1)/mib, tt.limit))
		}
		runtime.KeepAlive(held)
	}
	return faults
}

func goal() int {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.NextGC / mib)
}

func govern(t *testing.T, what string, env ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "GOGC=", "GOMEMLIMIT=", "HEAP_TEST="+what)
	cmd.Env = append(cmd.Env, env...)
	var faults bytes.Buffer
	cmd.Stderr = &faults
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, faults.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// TestASmallHeapIsCollectedSeldom: every 32 MiB and not every 4.
func TestASmallHeapIsCollectedSeldom(t *testing.T) {
	t.Parallel()
	if n := number(t, govern(t, "cycles")); n < 1 || n > 40 {
		t.Errorf("%d collections for 512 MiB, want 1 to 40", n)
	}
	if goal := number(t, govern(t, "small")); goal < 32 || goal > 48 {
		t.Errorf("with nothing in use the next collection is at %d MiB, want 32 to 48", goal)
	}
}

// TestTheUserIsObeyed: what is set in the environment stays.
func TestTheUserIsObeyed(t *testing.T) {
	t.Parallel()
	for _, env := range []string{"GOGC=100", "GOMEMLIMIT=1GiB"} {
		if goal := number(t, govern(t, "small", env)); goal > 8 {
			t.Errorf("%s, nothing in use: the next collection is at %d MiB, want 4", env, goal)
		}
	}
}

func number(t *testing.T, s string) (n int) {
	t.Helper()
	if _, err := fmt.Sscan(s, &n); err != nil {
		t.Fatalf("%q: %v", s, err)
	}
	return n
}

// TestALargeHeapIsNotMultiplied: the collections keep up with what is in use, and the limit
// is above it, and not far.
func TestALargeHeapIsNotMultiplied(t *testing.T) {
	t.Parallel()
	if faults := govern(t, "goal"); faults != "[]" {
		t.Error(faults)
	}
}

func TestPercent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		live, roots int64
		want        int64
	}{
		{0, 0, 800}, {2 * mib, mib, 800}, {6 * mib, 2 * mib, 400}, {32 * mib, 0, 100}, {60 * mib, 0, 100},
		{100 * mib, 0, 50}, {200 * mib, 0, 25}, {1000 * mib, 0, 25},
	} {
		if got := percent(tt.live, tt.roots); got != tt.want {
			t.Errorf("%d MiB in use, %d of roots: %d %%, want %d", tt.live/mib, tt.roots/mib, got, tt.want)
		}
	}
}
