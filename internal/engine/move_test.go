package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// addVersion makes a workflow the next version of its name.
func (p *process) addVersion(src string) *pawl.Version {
	p.t.Helper()
	v, _, err := p.engine.RegisterWorkflow(p.t.Context(), pawl.DefaultWorkspace, define(p.t, src).Canonical(), "/srv/flow", pawl.Change{Actor: "ann", Reason: "because"})
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

// submitVersion submits a registered workflow.
func (p *process) submitVersion(name string, version int) pawl.ID {
	p.t.Helper()
	v, def, err := p.engine.Lookup(p.t.Context(), pawl.WorkflowName{Workspace: pawl.DefaultWorkspace, Name: name}, version)
	if err != nil {
		p.t.Fatal(err)
	}
	inputs, err := def.BindInputs(nil)
	if err != nil {
		p.t.Fatal(err)
	}
	done, err := p.engine.Submit(p.t.Context(), pawl.Submission{Definition: def.Canonical(), Inputs: inputs, Version: v.Version, Dir: v.Dir, Actor: "test"})
	if err != nil || done[0].Err != nil {
		p.t.Fatal(err, done)
	}
	return done[0].ID
}

func (p *process) move(id pawl.ID, version int, dry bool) error {
	p.t.Helper()
	_, err := p.engine.MoveJob(p.t.Context(), id, version, dry, pawl.Change{Actor: "ann", Reason: "better"})
	return err
}

// T12: each content is a version of its own, and registering the same again makes none.
func TestRegisterWorkflow(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		const one, two = "name: flow\nsteps: [{id: a, handler: h}]\n", "name: flow\nsteps: [{id: b, handler: h}]\n"
		for i, c := range []struct {
			src     string
			version int
		}{{one, 1}, {one + "# the same\n", 1}, {two, 2}, {one, 3}} {
			if v := p.addVersion(c.src); v.Version != c.version || v.Dir != "/srv/flow" || v.Actor != "ann" || v.Reason != "because" {
				t.Errorf("%d: registered as %+v, want version %d", i, v, c.version)
			}
		}
		name := pawl.WorkflowName{Workspace: pawl.DefaultWorkspace, Name: "flow"}
		for version, want := range map[int]string{0: one, 1: one, 2: two, 3: one} {
			if _, def, err := p.engine.Lookup(t.Context(), name, version); err != nil || def.Hash() != define(t, want).Hash() {
				t.Errorf("version %d: %v, or not what was registered", version, err)
			}
		}
		for _, n := range []struct {
			name    string
			version int
		}{{"flow", 4}, {"folw", 0}} {
			if _, _, err := p.engine.Lookup(t.Context(), pawl.WorkflowName{Workspace: pawl.DefaultWorkspace, Name: n.name}, n.version); pawl.KindOf(err) != pawl.NotFound {
				t.Errorf("%v: error %v, want not found", n, err)
			}
		}
	})
}

const (
	moveOne = "name: flow\nsteps:\n  - {id: a, handler: gate}\n  - {id: b, needs: [a], handler: echo}\n"
	moveTwo = `
name: flow
workers: 1
inputs: {extra: {default: more}}
steps:
  - {id: x, needs: [z], handler: echo, with: "${{ inputs.extra }}"}
  - {id: z, handler: echo}
  - {id: a, handler: gate}
  - {id: y, needs: [x], handler: echo, if: "true"}
output: ${{ steps.x.output.inputs.extra }}
`
)

// T12: an engine that remembers a job as it was before another engine moved it does no
// harm: its reports are applied according to the new version, steps that wait for a slot
// get it, and new inputs are seen.
func TestMoveBehindTheBackOfAnotherEngine(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"gate": g.run, "echo": echo}})
		other := startProcess(t, open(), nil)
		p.addVersion(moveOne)
		p.addVersion(moveTwo)
		id := p.submitVersion("flow", 1)
		g.wait(t) // p has the job in memory, as version 1
		if err := other.move(id, 2, false); err != nil {
			t.Fatal(err)
		}
		if s := steps(p.job(id)); s["z"].Status != lifecycle.StepPending || s["b"].Status != lifecycle.StepSkipped {
			t.Errorf("z is %s and b %s; want z to wait for the only slot, and b skipped", s["z"].Status, s["b"].Status)
		}
		g.release()
		v := p.wait(id)
		if v.Status != lifecycle.JobCompleted || string(v.Output) != `"more"` || v.Version != 2 || v.WorkerCount != 1 {
			t.Errorf("%s with output %s, version %d, %d workers; want it COMPLETED as version 2", v.Status, v.Output, v.Version, v.WorkerCount)
		}
		for key, want := range map[string]pawl.StepView{"a": {Claims: 1}, "b": {}, "x": {Claims: 1}, "y": {Claims: 1}, "z": {Claims: 1}} {
			if s := steps(v)[key]; s.Claims != want.Claims {
				t.Errorf("step %s has %d claims, want %d", key, s.Claims, want.Claims)
			}
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// T12, K6: the trail records the versions that the job moved between, by whom and why, and
// the job is pinned to that very version where nothing is left behind.
func TestMoveIsAudited(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		p.addVersion("name: flow\nsteps: [{id: a, handler: h}]\n")
		p.addVersion("name: flow\nsteps: [{id: a, handler: echo}, {id: b, handler: echo}]\n")
		id := p.submitVersion("flow", 1)
		before := p.job(id)
		if err := p.move(id, 2, true); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, p.job(id)); diff != "" {
			t.Errorf("the dry run left something (-before +after):\n%s", diff)
		}
		if err := p.move(id, 2, false); err != nil {
			t.Fatal(err)
		}
		v := p.job(id)
		row := v.StateHistory[len(v.StateHistory)-1]
		_, def, err := p.engine.Lookup(t.Context(), pawl.WorkflowName{Workspace: pawl.DefaultWorkspace, Name: "flow"}, 2)
		if err != nil {
			t.Fatal(err)
		}
		want := `{"from":{"hash":"` + before.DefinitionHash + `","version":1},"to":{"hash":"` + def.HashString() + `","version":2}}`
		if row.Event != lifecycle.JobMove || row.Actor != "ann" || row.Reason != "better" || string(row.Metadata) != want || v.DefinitionHash != def.HashString() {
			t.Errorf("row %+v with %s, want a move by ann with %s", row, row.Metadata, want)
		}
		for version, kind := range map[int]pawl.Kind{2: pawl.Conflict, 3: pawl.NotFound, 0: pawl.Invalid} {
			if err := p.move(id, version, false); pawl.KindOf(err) != kind {
				t.Errorf("to version %d: error %v, want kind %d", version, err, kind)
			}
		}
		// The job waits for a worker of version 2 now: its route has moved as well.
		worker := startProcess(t, open(), map[string]worker.Handler{"echo": echo})
		if v := worker.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s", v.Status)
		}
		if err := p.move(id, 1, false); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("a job that has ended: error %v, want a conflict", err)
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// T12: a plan tells whether unfinished jobs can move to a definition, and changes nothing.
func TestPlanMoves(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"gate": g.run}})
		const one = "name: flow\nsteps: [{id: a, handler: gate}, {id: b, handler: late, needs: [a]}]\n"
		p.addVersion(one)
		id := p.submitVersion("flow", 1)
		g.wait(t)
		before := p.job(id)
		for src, want := range map[string]struct {
			version int
			is      bool
			lines   []string
			why     []string
		}{
			one: {1, true, nil, []string{"job " + before.ID + " has version 1 already"}},
			"name: flow\nsteps: [{id: a, handler: gate}, {id: c, handler: late, needs: [a]}]\n": {2, false, []string{"+ step c", "- step b"}, nil},
			"name: flow\nsteps: [{id: a, handler: late}]\n": {2, false, []string{"~ step a: handler", "- step b"},
				[]string{"step a has begun (it is in_progress), and is another one in the new version: handler"}},
		} {
			plans, err := p.engine.PlanMoves(t.Context(), pawl.DefaultWorkspace, define(t, src).Canonical())
			if err != nil || len(plans.Jobs) != 1 || plans.Version != want.version || plans.Registered != want.is {
				t.Fatalf("plans %+v, %v; want one of version %d", plans, err, want.version)
			}
			j := plans.Jobs[0]
			if j.JobID != before.ID || j.Pinned.Version != 1 || j.Pinned.Hash != before.DefinitionHash || j.Movable != (len(want.why) == 0) {
				t.Errorf("plan %+v", j)
			}
			if diff := cmp.Diff(want.lines, j.Diff.Lines()); diff != "" {
				t.Errorf("what differs (-want +got):\n%s", diff)
			}
			if len(want.why) > 0 && !cmp.Equal(want.why, j.Why) {
				t.Errorf("why not: %q, want %q", j.Why, want.why)
			}
		}
		if diff := cmp.Diff(before, p.job(id)); diff != "" {
			t.Errorf("the plan left something (-before +after):\n%s", diff)
		}
		none, err := p.engine.PlanMoves(t.Context(), "other", define(t, one).Canonical())
		if err != nil || len(none.Jobs) != 0 || none.Version != 1 || none.Registered {
			t.Errorf("of another workspace: %+v, %v", none, err)
		}
	})
}

// T12: of many concurrent moves of a job, each is refused or done as a whole.
func TestMoveRaces(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		g := newGate(false)
		defer g.release()
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"gate": g.run, "echo": echo}})
		p.addVersion("name: flow\nsteps: [{id: a, handler: gate}]\n")
		for _, step := range []string{"b", "c", "d"} {
			p.addVersion("name: flow\nsteps: [{id: a, handler: gate}, {id: " + step + ", handler: echo, needs: [a]}]\n")
		}
		id := p.submitVersion("flow", 1)
		g.wait(t)
		errs := make(chan error, 3) // one of each
		for i := range 3 {
			go func() {
				_, err := p.engine.MoveJob(context.WithoutCancel(t.Context()), id, 2+i, false, pawl.Change{Actor: "ann"})
				errs <- err
			}()
		}
		moves := 0
		for range 3 {
			var why decide.Obstacles
			if err := <-errs; err == nil {
				moves++
			} else if pawl.KindOf(err) != pawl.Conflict || errors.As(err, &why) {
				t.Errorf("error %v", err)
			}
		}
		g.release()
		v := p.wait(id)
		rows := 0
		for _, r := range v.StateHistory {
			if r.Event == lifecycle.JobMove {
				rows++
			}
		}
		if v.Status != lifecycle.JobCompleted || rows != moves || moves == 0 || len(v.Steps) != 1+moves {
			t.Errorf("%s after %d moves with %d rows and %d steps", v.Status, moves, rows, len(v.Steps))
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// TestMoveOnceAfterAnother: a move with a request id that finds the job moved by others
// stores nothing, and moves it from there (J8, T12).
func TestMoveOnceAfterAnother(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p, sly := start(t, db.open(), setup{}), &slyStore{Store: db.open()}
		e := engine.New(engine.Config{Store: sly, Passive: true})
		t.Cleanup(e.Close)
		for n := range 3 {
			p.addVersion(fmt.Sprintf("name: flow\nsteps: [{id: a, event: {name: go}}, {id: b%d, event: {name: go}, needs: [a]}]\n", n))
		}
		id := p.submitVersion("flow", 1)
		p.waiting(id, "a")
		sly.then = func() { // the job is read for its workspace
			sly.then = func() { must(t, p.move(id, 2, false)) } // and to prepare the move
			sly.armed.Store(true)
		}
		sly.armed.Store(true)
		c := ann
		c.RequestID = "r"
		for _, e := range []*engine.Engine{e, p.engine} {
			m, err := e.MoveJob(t.Context(), id, 3, false, c)
			if err != nil || m == nil || m.From.Version != 2 || m.To.Version != 3 {
				t.Errorf("moved: %+v, %v; want it from version 2 to 3", m, err)
			}
		}
		if v := p.job(id); v.Version != 3 {
			t.Errorf("the job has version %d", v.Version)
		}
		verify(t, p.store)
	})
}
