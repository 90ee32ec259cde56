package engine

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// handedOver submits a job with inputs to a worker that offers a slot.
func handedOver(t *testing.T, w *offering) (pawl.ID, link.Assignment) {
	t.Helper()
	def, err := workflow.Parse("told.yaml", []byte("name: told\ninputs: {n: {type: integer}}\nsteps: [{id: a, handler: nobody}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	w.offer.Add(1)
	a, err := w.e.Submit(t.Context(), pawl.Submission{Definition: def.Canonical(), Inputs: []byte(`{"n": 7}`), Dir: "/somewhere", Actor: "test"})
	if err != nil || a[0].Err != nil || len(w.handed()) != 1 {
		t.Fatalf("%v, %v; %d jobs were handed over, want one", a, err, len(w.handed()))
	}
	return a[0].ID, w.handed()[0]
}

// TestWhoWaitsIsToldWhatIsStored: Wait returns the end of a job that this process works on
// and ends, without a read of the database, which would hold up the job.
func TestWhoWaitsIsToldWhatIsStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, s := interposedEngine(t)
		w := newOffering(t, e)
		id, step := handedOver(t, w)
		before := s.jobs.Load()
		told := make(chan *pawl.Job, 1)
		go func() {
			j, err := e.Wait(t.Context(), id)
			if err != nil {
				t.Error(err)
			}
			told <- j
		}()
		synctest.Wait()
		w.visit(t, link.Exchange{Reports: []link.Report{success(step, `"done"`)}, Free: 1, SkipQueue: true})
		got, reads := <-told, s.jobs.Load()-before
		stored, err := e.store.Job(t.Context(), id.JobKey())
		if err != nil || !reflect.DeepEqual(got, stored) || got.State != lifecycle.JobCompleted || len(got.Metadata) == 0 {
			t.Errorf("told %+v; stored is %+v, %v", got, stored, err)
		}
		if reads != 0 {
			t.Errorf("the job was read %d times", reads)
		}
	})
}

// TestWhoWaitsLooksSoon: a job that this process works on, and that another process has
// ended without a hint, is read soon, and one that is not known here at once.
func TestWhoWaitsLooksSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, s := interposedEngine(t)
		w := newOffering(t, e)
		id, step := handedOver(t, w)
		other := New(Config{Store: s.Store, Passive: true})
		defer other.Close()
		if _, err := other.recall(t.Context(), id.JobKey()); err != nil { // else it leaves the end to other processes
			t.Fatal(err)
		}
		if _, err := other.Exchange(t.Context(), link.Exchange{Worker: w.self, Reports: []link.Report{success(step, `"done"`)}}); err != nil {
			t.Fatal(err)
		}
		for _, x := range []struct {
			e    *Engine
			late time.Duration
		}{{e, endsSoon}, {other, 0}} {
			begun := time.Now()
			j, err := x.e.Wait(t.Context(), id)
			if late := time.Since(begun); err != nil || j.State != lifecycle.JobCompleted || late != x.late {
				t.Errorf("%+v, %v after %s; want it completed, after %s", j, err, late, x.late)
			}
		}
	})
}
