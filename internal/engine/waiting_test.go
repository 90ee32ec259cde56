package engine_test

import (
	"context"
	"flag"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

var manyWaiting = flag.Int("waiting", 20_000, "how many jobs wait while a new one runs")

// TestManyThatWaitDelayNothing: jobs that wait for their children, and jobs whose marks
// were put off, are not evaluated while a new one runs.
func TestManyThatWaitDelayNothing(t *testing.T) { // K8
	onShared(t, func(t *testing.T, db *database) {
		s, mint := db.open(), storetest.NewMint()
		for done := 0; done < *manyWaiting; done += 500 {
			must(t, s.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
				b := storetest.NewBatch(f.Now)
				for i := range 500 {
					j := &pawl.Job{ID: mint.ID(f.Now), Workspace: "w", Workflow: "flow", Definition: 7, WorkerCount: 1, Open: 1}
					step := &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(1, 0)}, Claims: 1}
					b.AddJob(j)
					b.MoveJob(j, lifecycle.JobValidate, lifecycle.JobAllocateResources)
					b.AddStep(j, step)
					b.MoveStep(j, step, lifecycle.StepEnqueue, lifecycle.StepClaim)
					if step.DueEvent = lifecycle.StepCancel; i%2 == 0 {
						step.Mark, step.MarkAt, step.MarkTries = pawl.Attention, f.Now+3600e6, 9
					}
				}
				return &b.Changes, nil
			}))
		}
		seen := &counted{Store: db.open()}
		p := startProcess(t, seen, nil)
		other := startPassive(t, db.open(), map[string]worker.Handler{"h": nop})
		id := other.submit(define(t, "name: new\nsteps: [{id: a, handler: h}, {id: b, needs: [a], if: true, handler: h}]\n"), "")
		if v := other.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the new job is %s", v.Status)
		}
		p.engine.Close()
		if n := seen.others(id.JobKey()); n != 0 {
			t.Errorf("%d jobs that wait were looked at", n)
		}
	})
}

// A counted store counts the evaluations of all jobs but one.
type counted struct {
	store.Store
	mu  sync.Mutex
	all []rowkey.Job
}

func (c *counted) Marked(ctx context.Context, job rowkey.Job) ([]*pawl.Step, error) {
	c.mu.Lock()
	c.all = append(c.all, job)
	c.mu.Unlock()
	return c.Store.Marked(ctx, job)
}

func (c *counted) others(job rowkey.Job) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range c.all {
		if key != job {
			n++
		}
	}
	return n
}

// A racing store calls a hook before each transaction.
type racing struct {
	store.Store
	before atomic.Pointer[func(*store.Query)]
}

func (r *racing) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	if f := r.before.Load(); f != nil {
		(*f)(q)
	}
	return r.Store.Do(ctx, q, decide)
}

// TestNoEndOfAChildIsMissed: a cancelled step waits for its child job, which another
// process ends: after it was seen to live and before the step waits, or while the step
// waits. The end of the child ends the step: nothing else evaluates it.
func TestNoEndOfAChildIsMissed(t *testing.T) { // J6, K8
	for name, early := range map[string]bool{"before it waits": true, "while it waits": false} {
		t.Run(name, func(t *testing.T) {
			onShared(t, func(t *testing.T, db *database) {
				g := newGate(true)
				defer g.release()
				s := &racing{Store: db.open()}
				p := startProcess(t, s, nil)
				other := startPassive(t, db.open(), map[string]worker.Handler{"block": g.run})
				p.register(define(t, "name: leaf\nsteps: [{id: block, handler: block}]\n"))
				id := p.submit(define(t, "name: parent\nsteps: [{id: down, workflow: leaf}]\n"), "")
				g.wait(t)
				child, err := pawl.ParseID(pawl.JobPrefix, p.job(id).ChildJobs[0])
				must(t, err)
				end := func() {
					g.release()
					until(t, "the child has ended", func() bool {
						j, err := other.store.Job(context.Background(), child.JobKey())
						return err == nil && lifecycle.Job.Ended(j.State)
					})
				}
				if early {
					var once sync.Once
					hook := func(q *store.Query) {
						if slices.Contains(q.Jobs, id.JobKey()) && slices.Contains(q.Jobs, child.JobKey()) {
							once.Do(end) // so that what was prepared is outdated
						}
					}
					s.before.Store(&hook)
				}
				must(t, errorOf(p.engine.Cancel(t.Context(), id, note("enough"))))
				if !early {
					until(t, "the step waits", func() bool {
						list, err := p.store.Steps(t.Context(), id.JobKey(), 0, 1)
						must(t, err)
						return list[0].Mark == pawl.Clear && list[0].DueEvent == lifecycle.StepCancel
					})
					end()
				}
				if v := p.wait(id); v.Status != lifecycle.JobCanceled {
					t.Errorf("the parent is %s", v.Status)
				}
				p.settledAll(id)
				verify(t, p.store)
			})
		})
	}
}
