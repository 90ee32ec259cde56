//go:build linux

package workload

import (
	"math"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// TestRing: the engine uring reads and writes what it should, buffered and direct, at a rate and as fast as it can, and
// counts it all (L9).
func TestRing(t *testing.T) {
	t.Parallel()
	for name, more := range map[string]string{
		"buffered": "verify: true",
		"direct":   "verify: true, direct: true",
		"a rate":   "rate: {operations: 4000, arrival: poisson}",
		"durable":  "sync: dsync",
		"shallow":  "depth: 1, verify: true",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !strings.Contains(more, "depth") {
				more += ", depth: 8"
			}
			job := newJob(t, "{name: ring, engine: uring, files: [{name: data, count: 4, size: 1MiB}], mix: [{operation: read, weight: 3}, {operation: write, block: {list: [{size: 4KiB, weight: 1}, {size: 64KiB, weight: 1}]}}, {operation: read, access: sequential, block: 128KiB}, {operation: read, access: zipf}], jobs: 2, count: 1000, "+more+"}")
			_, f := perform(t, job)
			if f.GetError() != nil {
				t.Fatal(f.GetError())
			}
			read, _, _ := total(t, f, "read")
			written, bytes, _ := total(t, f, "write")
			if read+written != 1000 || bytes < 4096*written || read == 0 || written == 0 {
				t.Errorf("%d read, %d written, %d bytes: want 1000 operations", read, written, bytes)
			}
			for _, o := range f.GetTotals() {
				if o.GetService().GetCount() != o.GetOperations() || strings.HasPrefix(more, "rate") != (o.GetResponse() != nil) {
					t.Errorf("latencies of %v", o)
				}
			}
		})
	}
}

// TestRingErrors: what a ring does not do is refused, and errors of operations are those of the system.
func TestRingErrors(t *testing.T) {
	t.Parallel()
	for config, subject := range map[string]string{
		"mix: [{operation: read}, {operation: stat}]": "mix[1].operation",
		"mix: [{operation: write}], sync: fsync":      "sync",
	} {
		job := newJob(t, "{name: ring, engine: uring, depth: 4, files: [{name: data, count: 1, size: 4KiB}], "+config+"}")
		if e := start(t, job).refused(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID || e.GetSubject() != subject || e.GetHint() == "" {
			t.Error(e)
		}
	}
	if err := ringFault(syscall.EPERM); !strings.Contains(err.Error(), "kernel.io_uring_disabled") {
		t.Error(err)
	}
	r, err := newRing(4)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	r.push(opRead, -1, make([]byte, 1), 0, 42)
	if errno := r.enter(math.MaxInt32); errno != 0 {
		t.Fatal(errno)
	}
	if user, result, ok := r.pop(); !ok || user != 42 || syscall.Errno(-result) != syscall.EBADF {
		t.Errorf("%d %d %t: want a bad descriptor", user, result, ok)
	}
	if _, _, ok := r.pop(); ok || r.queued != 0 {
		t.Error("one operation has completed twice")
	}
	if errno := r.enter(0); errno != 0 {
		t.Error("a wait that ends without completion is no error:", errno)
	}
}

// TestRingAllocatesNothing: neither does a ring (L9).
func TestRingAllocatesNothing(t *testing.T) { // not parallel: AllocsPerRun counts for the process
	runtime.LockOSThread() // to which the ring belongs
	defer runtime.UnlockOSThread()
	job := newJob(t, "{name: ring, engine: uring, depth: 8, verify: true, files: [{name: data, count: 4, size: 1MiB}], mix: [{operation: read}, {operation: write}]}")
	r := runHere(t, job)
	th := r.threads[0]
	var err error
	if th.flights, err = th.newFlights(); err != nil {
		t.Fatal(err)
	}
	defer th.flights.close()
	th.now, th.boundary, th.turn = th.clock.now(), math.MaxInt64, math.MaxInt64
	n := testing.AllocsPerRun(500, func() {
		th.fill()
		th.drain(th.now + turnEvery)
	})
	if n > 0 || r.errors > 0 || th.counted < 500 {
		t.Errorf("%v allocations, %v, %d operations", n, r.samples, th.counted)
	}
	for len(th.flights.free) < len(th.flights.all) {
		th.drain(th.now + turnEvery)
	}
}
