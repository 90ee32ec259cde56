package engine_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// everything counts what is stored: a verb that acts again adds to it.
func (p *process) everything() map[string]int {
	p.t.Helper()
	n := map[string]int{}
	err := p.store.Trails(p.t.Context(), 0, func(t store.TrailOf) error {
		n[t.Kind]++
		n["entries"] += len(t.Entries)
		return nil
	})
	if err != nil {
		p.t.Fatal(err)
	}
	for _, name := range []string{"two", "ask"} {
		versions, err := p.store.Registered(p.t.Context(), pawl.WorkflowName{Workspace: pawl.DefaultWorkspace, Name: name}, 0, 0)
		if err != nil {
			p.t.Fatal(err)
		}
		n["versions"] += len(versions)
	}
	return n
}

// TestEachVerbActsOnce: every operator action with a request id is done once, and then
// returns the same result, in another process too; another request with that id is refused
// (J8).
func TestEachVerbActsOnce(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{})
		other := start(t, db.open(), setup{})
		ctx := t.Context()
		two := func(prompt string) *workflow.Definition {
			return define(t, "name: two\nsteps:\n- {id: a, approval: {prompt: "+prompt+"}}\n- {id: b, handler: nobody, needs: [a]}\n- {id: c, event: {name: go}}\n")
		}
		p.register(two("x"))
		p.register(define(t, "name: ask\nsteps:\n- {id: a, approval: {prompt: x}}\n"))
		v, err := p.store.RegisteredVersion(ctx, pawl.WorkflowName{Workspace: pawl.DefaultWorkspace, Name: "two"}, 1)
		if err != nil {
			t.Fatal(err)
		}
		submit := func() pawl.ID {
			t.Helper()
			answers, err := p.engine.Submit(ctx, pawl.Submission{Definition: two("x").Canonical(), Version: v.Version, Actor: "test"})
			if err == nil {
				err = answers[0].Err
			}
			if err != nil {
				t.Fatal(err)
			}
			return answers[0].ID
		}
		open := func() pawl.ID { // a waiting job
			t.Helper()
			id := submit()
			until(t, "the job waits", func() bool {
				s := steps(p.job(id))
				return s["a"].Status == lifecycle.StepInProgress && s["c"].Status == lifecycle.StepInProgress
			})
			return id
		}
		ended := func() pawl.ID {
			t.Helper()
			id := submit()
			if _, err := p.engine.Cancel(ctx, id, note("stop")); err != nil {
				t.Fatal(err)
			}
			p.wait(id)
			return id
		}
		named := pawl.ScheduleName{Workspace: pawl.DefaultWorkspace, Name: "s"}
		plan := pawl.SchedulePlan{Name: "s", Workflow: "ask", Cron: "0 0 1 1 *"}
		if _, err := p.engine.PutSchedule(ctx, plan, false, ann); err != nil {
			t.Fatal(err)
		}
		type act = func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error)
		onJob := func(make func() pawl.ID, do func(e *engine.Engine, id pawl.ID, c pawl.Change) (pawl.Receipt, error)) func() act {
			return func() act {
				id := make()
				return func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) { return do(e, id, c) }
			}
		}
		for name, prepare := range map[string]func() act{
			"retry": func() act {
				id := ended()
				return func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
					return e.RetryJob(ctx, id, pawl.Retry{}, c)
				}
			},
			"trigger": func() act {
				return func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
					return e.TriggerSchedule(ctx, named, c)
				}
			},
			"register": func() act {
				return func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) {
					v, made, err := e.RegisterWorkflow(ctx, pawl.DefaultWorkspace, two("y").Canonical(), "", c)
					return pawl.Receipt{ID: fmt.Sprint(v, made), Replayed: true}, err
				}
			},
			"update schedule": func() act {
				return func(e *engine.Engine, c pawl.Change) (pawl.Receipt, error) { return e.PutSchedule(ctx, plan, true, c) }
			},
			"pause": onJob(open, func(e *engine.Engine, id pawl.ID, c pawl.Change) (pawl.Receipt, error) { return e.PauseJob(ctx, id, c) }),
			"cancel": onJob(open, func(e *engine.Engine, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
				return e.Cancel(ctx, id, c)
			}),
			"signal": onJob(open, func(e *engine.Engine, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
				return e.Signal(ctx, id, "go", []byte("1"), c)
			}),
			"approve": onJob(open, func(e *engine.Engine, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
				return e.Approve(ctx, id, "a", nil, c)
			}),
			"reject": onJob(open, func(e *engine.Engine, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
				return e.Reject(ctx, id, "a", c)
			}),
			"skip": onJob(open, func(e *engine.Engine, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
				return e.SkipStep(ctx, id, "b", c)
			}),
			"resolve": onJob(open, func(e *engine.Engine, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
				return e.ResolveStep(ctx, id, "b", []byte("1"), c)
			}),
		} {
			c := ann
			c.RequestID, c.Reason = "request-"+strings.ReplaceAll(name, " ", "-"), "because"
			do := prepare()
			first, err := do(p.engine, c)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			settle(t, p)
			before := p.everything()
			for _, e := range []*engine.Engine{p.engine, other.engine} {
				again, err := do(e, c)
				want := first
				want.Replayed = true
				if diff := cmp.Diff(want, again); err != nil || diff != "" {
					t.Errorf("%s again: %v (-want +got)\n%s", name, err, diff)
				}
			}
			settle(t, p)
			if diff := cmp.Diff(before, p.everything()); diff != "" {
				t.Errorf("%s: the second one did something:\n%s", name, diff)
			}
			c.Reason = "another request"
			if _, err := do(p.engine, c); pawl.KindOf(err) != pawl.Invalid || !errors.Is(err, link.ErrKeyReused) || !strings.Contains(err.Error(), "was used for another request") {
				t.Errorf("%s: another request with that id: %v, want it refused", name, err)
			}
		}
		verify(t, p.store)
	})
}

// settle waits until nothing changes by itself any more: nothing is marked, and nothing under
// way.
func settle(t *testing.T, p *process) {
	t.Helper()
	var last map[string]int
	same := 0
	until(t, "all is quiet", func() bool {
		agenda, err := p.store.Look(t.Context(), store.LookQuery{Limit: 10, MarkedUntil: math.MaxInt64})
		if err != nil {
			t.Fatal(err)
		}
		now := p.everything()
		if len(agenda.Marked) > 0 {
			now = nil
		}
		if same++; now == nil || !cmp.Equal(last, now) {
			last, same = now, 0
		}
		return same > 10
	})
}

// TestRetriesAtOnceMakeOneJob: many simultaneous copies of one request, to two processes,
// make one job (J8).
func TestRetriesAtOnceMakeOneJob(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p, other := start(t, db.open(), setup{}), start(t, db.open(), setup{})
		id := p.submit(define(t, "name: one\nsteps: [{id: a, handler: nobody}]\n"), "")
		if _, err := p.engine.Cancel(t.Context(), id, note("stop")); err != nil {
			t.Fatal(err)
		}
		p.wait(id)
		c := ann
		c.RequestID = "r"
		var all sync.WaitGroup
		var made sync.Map
		for i := range 20 {
			all.Go(func() {
				e := []*engine.Engine{p.engine, other.engine}[i%2]
				again, err := e.RetryJob(t.Context(), id, pawl.Retry{}, c)
				if err != nil && !errors.Is(err, store.ErrStale) {
					t.Error(err)
				}
				made.Store(again.ID, true)
			})
		}
		all.Wait()
		n := 0
		made.Range(func(any, any) bool { n++; return true })
		jobs, err := p.engine.Jobs(t.Context(), pawl.JobQuery{})
		if err != nil || n != 1 || len(jobs) != 2 {
			t.Errorf("%d answers, %d jobs, %v; want 1 and 2", n, len(jobs), err)
		}
	})
}
