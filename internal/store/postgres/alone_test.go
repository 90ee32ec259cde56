package postgres

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
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
