package engine_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

// sweepAll sweeps everything, and returns the number of waits whose cause had ended.
func (p *process) sweepAll() int {
	p.t.Helper()
	n, err := p.engine.SweepAll(context.Background())
	if err != nil {
		p.t.Errorf("sweep: %v", err)
	}
	return n
}

// sweeping sweeps continuously until stop is called, which returns the number found.
func (p *process) sweeping() (stop func() int) {
	ctx, cancel := context.WithCancel(p.t.Context())
	done := make(chan int)
	go func() {
		found := 0
		for ctx.Err() == nil {
			n, err := p.engine.SweepAll(ctx)
			if found += n; err != nil && ctx.Err() == nil && pawl.KindOf(err) != pawl.Unavailable {
				p.t.Errorf("sweep: %v", err)
			}
		}
		done <- found
	}()
	return func() int {
		cancel()
		return <-done
	}
}

// strands are ways to lose a wait: a mark that is removed by hand when no process
// evaluates, or a limit that is raised by hand.
var strands = map[string]struct {
	source string
	leaf   string                           // of a child job
	before func(p *process, id pawl.ID)     // ends the cause of the wait, while no process evaluates
	seen   func(*pawl.Job, *pawl.Step) bool // the wait; nil: that something is marked
	lose   string                           // SQL about the job %[1]d
	ends   machine.State
}{
	"what a step needs has ended": {
		source: "steps: [{id: a, handler: h}, {id: b, needs: [a], if: true, handler: h}]",
		lose:   "update step set mark = 0, mark_at = 0 where job = %[1]d and mark = 1",
	},
	"a mark has no time": {
		source: "steps: [{id: a, handler: h}, {id: b, needs: [a], if: true, handler: h}]",
		lose:   "update step set mark_at = 0 where job = %[1]d and mark = 1",
	},
	"the mark of a job has no time": {
		source: "steps: [{id: a, handler: h}]\noutput: {x: \"${{ steps.a.output }}\"}",
		lose:   "update job set mark_at = 0 where id = %[1]d",
	},
	"every step has ended": {
		source: "steps: [{id: a, handler: h}]\noutput: {x: \"${{ steps.a.output }}\"}",
		lose:   "update job set mark = 0, mark_at = 0 where id = %[1]d",
	},
	"all instances have ended": {
		source: "steps: [{id: a, matrix: {x: [1, 2, 3]}, handler: h}]",
		lose:   "update step set mark = 0, mark_at = 0 where job = %[1]d and mark = 1",
	},
	"a failure was not applied": {
		source: "steps: [{id: o, handler: h}, {id: a, needs: [o], handler: fail, retry: {max_attempts: 1}}, {id: b, needs: [o], handler: block}]",
		lose:   "update step set mark = 0, mark_at = 0 where job = %[1]d and mark = 1",
		ends:   lifecycle.JobFailed,
	},
	"a slot is free": {
		source: "workers: 1\nsteps: [{id: o, handler: h}, {id: a, needs: [o], handler: block}, {id: b, needs: [o], handler: h}]",
		seen:   func(_ *pawl.Job, s *pawl.Step) bool { return s.Mark == pawl.Waiting },
		lose:   "update job set worker_count = 2 where id = %[1]d",
	},
	"a child job has ended": {
		source: "steps: [{id: down, workflow: leaf}]", leaf: "steps: [{id: block, handler: block}]",
		before: func(*process, pawl.ID) {},
		lose:   "update step set mark = 0, mark_at = 0 where job = %[1]d and mark = 1",
	},
	"a signal has come": {
		source: "steps: [{id: told, event: {name: go_on}}, {id: other, event: {name: go_on, timeout: 1h}}]",
		before: func(p *process, id pawl.ID) {
			must(p.t, errorOf(p.engine.Signal(p.t.Context(), id, "go_on", nil, ann)))
			must(p.t, errorOf(p.engine.Signal(p.t.Context(), id, "go_on", nil, ann)))
		},
		lose: "update job set mark = 0, mark_at = 0 where id = %[1]d",
	},
}

// TestTheSweepFindsWhatIsStranded: each lost wait is found, continues, and is found no
// more.
func TestTheSweepFindsWhatIsStranded(t *testing.T) { // K8
	for name, strand := range strands {
		t.Run(name, func(t *testing.T) {
			onShared(t, func(t *testing.T, db *database) {
				g := newGate(false)
				defer g.release()
				fail := func(ctx context.Context, task *worker.Task) worker.Result {
					<-g.started // so that the other step is out of sight
					return fails(ctx, task)
				}
				handlers := map[string]worker.Handler{"h": nop, "fail": fail, "block": g.run}
				quiet := startPassive(t, db.open(), handlers)
				if strand.leaf != "" {
					quiet.register(define(t, "name: leaf\n"+strand.leaf+"\n"))
				}
				def := define(t, "name: stranded\n"+strand.source+"\n")
				id := quiet.submit(def, "")
				if strand.before != nil {
					begun := startProcess(t, db.open(), nil)
					if strand.leaf != "" {
						g.wait(t)
					} else {
						until(t, "the wait has begun", func() bool { return begun.job(id).StepCounts[lifecycle.StepInProgress] == len(def.Nodes) })
					}
					begun.stop()
					strand.before(quiet, id)
					g.release()
				}
				until(t, "the wait is there", func() bool { return quiet.sees(id, strand.seen) })
				db.sql(fmt.Sprintf(strand.lose, id.JobKey()))

				p := startProcess(t, db.open(), nil)
				p.wait(quiet.submit(define(t, "name: other\nsteps: [{id: a, handler: h, if: true}]\n"), ""))
				if v := p.job(id); v.Status != lifecycle.JobRunning {
					t.Fatalf("the job is %s without a sweep", v.Status)
				}
				if n := p.sweepAll(); n == 0 {
					t.Errorf("nothing was found\n%s", p.dump(id))
				}
				want := cmp.Or(strand.ends, lifecycle.JobCompleted)
				if want == lifecycle.JobCompleted {
					until(t, "what was stranded goes on", func() bool { return p.sweepAll() == 0 })
				}
				g.release()
				if v := p.wait(id); v.Status != want {
					t.Errorf("the job is %s; want %s", v.Status, want)
				}
				p.settled(id)
				verify(t, p.store)
			})
		})
	}
}

// sees reports whether f accepts a step or the job; nil: whether one is marked.
func (p *process) sees(id pawl.ID, f func(*pawl.Job, *pawl.Step) bool) bool {
	j, err := p.store.Job(p.t.Context(), id.JobKey())
	must(p.t, err)
	if f == nil {
		f = func(j *pawl.Job, s *pawl.Step) bool { return s.MarkAt != 0 || j.MarkAt != 0 }
	}
	steps, err := p.store.Steps(p.t.Context(), id.JobKey(), 0, 0)
	must(p.t, err)
	return slices.ContainsFunc(steps, func(s *pawl.Step) bool { return f(j, s) })
}

// TestTheSweepLeavesWaitsAlone: nothing that waits for an event still to come is marked, or
// changed at all.
func TestTheSweepLeavesWaitsAlone(t *testing.T) { // K8
	onShared(t, func(t *testing.T, db *database) {
		g := newGate(false)
		defer g.release()
		later := func(context.Context, *worker.Task) worker.Result {
			return worker.Result{Failure: &pawl.Failure{Class: "test", Message: "not yet", Delay: pawl.Duration(time.Hour)}}
		}
		p := startProcess(t, db.open(), map[string]worker.Handler{"h": nop, "fail": fails, "later": later, "block": g.run})
		p.register(define(t, "name: leaf\nsteps: [{id: nap, sleep: 1h}]\n"))
		def := define(t, `
name: waits
workers: 2
on_error: drain
steps:
  - {id: nap, sleep: 1h}
  - {id: asked, approval: {prompt: Well?}}
  - {id: told, event: {name: go_on}}
  - {id: late, event: {name: go_on, timeout: 1h}}
  - {id: down, workflow: leaf}
  - {id: each, foreach: [1, 2], workflow: leaf}
  - {id: bad, handler: fail, retry: {max_attempts: 1}}
  - {id: behind, needs: [bad], handler: h}
  - {id: again, handler: later}
  - {id: block, handler: block}
  - {id: block2, handler: block}
  - {id: wide, foreach: [1, 2, 3, 4], handler: block}
  - {id: after, needs: [nap], handler: h}
  - {id: rest, needs: [nap], event: {name: later}}
hooks: {always: [{id: hook, handler: h}]}
`)
		id := p.submit(def, "")
		until(t, "all wait", func() bool {
			v := p.job(id)
			return v.StepCounts[lifecycle.StepPermanentError] == 1 && steps(v)["again"].Attempts == 1 && len(v.ChildJobs) == 3 && len(g.started) == 2
		})
		must(t, errorOf(p.engine.Signal(t.Context(), id, "later", nil, ann)))
		paused := p.submit(define(t, "name: paused\nsteps: [{id: a, handler: block}, {id: b, needs: [a], handler: h}]\n"), "")
		must(t, errorOf(p.engine.PauseJob(t.Context(), paused, pawl.Change{Actor: "ann", Reason: "for a while"})))
		until(t, "nothing is marked", func() bool { return !p.sees(id, nil) })
		before := p.rows(id)
		if n := p.sweepAll(); n != 0 {
			t.Errorf("%d waits were found, and none has an end", n)
		}
		if diff := gocmp.Diff(before, p.rows(id)); diff != "" {
			t.Errorf("the sweep changed something: %s", diff)
		}
	})
}

// rows returns the job and its steps as they are stored.
func (p *process) rows(id pawl.ID) (all []any) {
	j, err := p.store.Job(p.t.Context(), id.JobKey())
	must(p.t, err)
	steps, err := p.store.Steps(p.t.Context(), id.JobKey(), 0, 0)
	must(p.t, err)
	for _, s := range steps {
		all = append(all, *s)
	}
	return append(all, *j)
}

// TestServersSweepFromDifferentPlaces, and repeat.
func TestServersSweepFromDifferentPlaces(t *testing.T) { // K8
	onShared(t, func(t *testing.T, db *database) {
		s, mint := db.open(), storetest.NewMint()
		all := make(map[rowkey.Job]bool)
		for range 40 {
			must(t, s.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
				b := storetest.NewBatch(f.Now)
				j := &pawl.Job{ID: mint.ID(f.Now), Workspace: "w", Workflow: "flow", Definition: 7, WorkerCount: 1, Open: 1, Rank: f.Now, Route: 9}
				b.AddJob(j)
				b.MoveJob(j, lifecycle.JobValidate, lifecycle.JobAllocateResources)
				all[j.Key()] = true
				return &b.Changes, nil
			}))
		}
		firsts := make(map[rowkey.Job]bool)
		for node := range int64(8) {
			at, err := s.SpotAt(t.Context(), engine.StartOf(node+1))
			must(t, err)
			seen, first := make(map[rowkey.Job]bool), rowkey.Job(0)
			for _, from := range []store.Spot{at, {}} {
				for page := []store.Passed{{At: from}}; len(page) > 0; {
					page, err = s.Running(t.Context(), page[len(page)-1].At, 7)
					must(t, err)
					for _, p := range page {
						if first == 0 {
							first = p.Job.Key()
						}
						seen[p.Job.Key()] = true
					}
				}
			}
			firsts[first] = true
			if !maps.Equal(all, seen) {
				t.Errorf("server %d went through %d of %d jobs", node, len(seen), len(all))
			}
		}
		if len(firsts) < 4 {
			t.Errorf("8 servers begin at %d places", len(firsts))
		}
	})
}
