package postgres

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// TestBeatsTellWhoIsAlone: the reply to a beat says whether another worker lives (T3). Workers
// that have ended do not count.
func TestBeatsTellWhoIsAlone(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	first := newWorkerIn(t, db, lifecycle.WorkerRunning)
	alone := func() bool {
		said, err := db.Beat(t.Context(), link.Pulse{Worker: first})
		if err != nil {
			t.Fatal(err)
		}
		return said.Alone
	}
	newWorkerIn(t, db, lifecycle.WorkerTerminated)
	if !alone() {
		t.Error("a worker beside one that has ended is not alone")
	}
	newWorkerIn(t, db, lifecycle.WorkerIdle)
	if alone() {
		t.Error("one of two living workers is alone")
	}
}

// TestBeatsTellThePlaceOfAWorker among the living ones that hear hints, are not paused and serve
// the same routes (T3).
func TestBeatsTellThePlaceOfAWorker(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	var workers []rowkey.Worker
	for _, state := range []machine.State{lifecycle.WorkerRunning, lifecycle.WorkerTerminated, lifecycle.WorkerIdle, lifecycle.WorkerPaused, lifecycle.WorkerIdle, lifecycle.WorkerRunning} {
		workers = append(workers, newWorkerIn(t, db, state))
	}
	execute(t, db, "update worker set routes = '[7]' where id = $1", int64(workers[2]))
	execute(t, db, "update worker set silence = 1 where id = $1", int64(workers[4]))
	places := func(want map[int][2]int) {
		t.Helper()
		for i, want := range want {
			said, err := db.Beat(t.Context(), link.Pulse{Worker: workers[i]})
			if err != nil {
				t.Fatal(err)
			}
			if got := [2]int{said.Place, said.Peers}; got != want {
				t.Errorf("worker %d has place %d of %d, want %d of %d", i, got[0], got[1], want[0], want[1])
			}
		}
	}
	places(map[int][2]int{0: {0, 2}, 2: {0, 1}, 3: {1, 2}, 4: {0, 0}, 5: {1, 2}})
	for n := 5; n < 100; n++ {
		workers = append(workers, newWorkerIn(t, db, lifecycle.WorkerIdle))
	}
	places(map[int][2]int{0: {0, 97}, 100: {96, 97}})
	newWorkerIn(t, db, lifecycle.WorkerIdle) // now they are a crowd
	places(map[int][2]int{0: {0, 0}, 2: {0, 0}})
}
