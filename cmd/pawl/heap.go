package main

import (
	"os"
	"runtime/debug"
)

// heapLimit is what this process takes at most without need: the garbage
// collector lets the heap double only as far as that. It is a soft limit; what a
// process has in hand beyond it, it takes. The caches of SQLite, at most 44 MiB,
// come on top.
const heapLimit = 150 << 20

// limitHeap sets the limit, unless the environment names another one.
func limitHeap() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(heapLimit)
	}
}
