package postgres

import (
	"testing"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestAFrozenProcessFreesItsLocks: one that stops between reading and writing,
// for good as far as anyone can tell, keeps nobody from the records that it has
// locked, and writes nothing when it goes on (T5, T10).
func TestAFrozenProcessFreesItsLocks(t *testing.T) {
	t.Parallel()
	frozen := fresh(t)
	other := open(t, frozen.cfg.URL)
	job := submit(t, frozen, 1, 1)[0].Key()
	q := &store.Query{Jobs: []rowkey.Job{job}}
	locked, thawed, over := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		over <- try(frozen, q, func(f *store.Facts, d *draft) {
			close(locked)
			<-thawed
			d.moveJob(f.Jobs[job], lifecycle.JobCanceled, lifecycle.JobCancel)
		})
	}()
	<-locked
	do(t, other, q, func(f *store.Facts, d *draft) {
		d.moveJob(f.Jobs[job], lifecycle.JobRunning, lifecycle.JobAllocateResources)
	})
	close(thawed)
	if err := <-over; err == nil {
		t.Error("what was decided before is committed")
	}
	if j, err := other.Job(t.Context(), job); err != nil || j.State != lifecycle.JobRunning {
		t.Errorf("the job is %v, %v; want what the other has written", j, err)
	}
}
