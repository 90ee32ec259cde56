package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// MoveJob lets an unfinished job continue with another version of the registered workflow
// of its name (J2, T12). Steps that have begun must be the same in both versions. Other
// steps may have been changed, added or removed; removed ones end as skipped. A dry run
// changes nothing, and returns the same result or error. The error is of kind Conflict with
// decide.Obstacles if the state of the job prevents the move.
func (e *Engine) MoveJob(ctx context.Context, id pawl.ID, version int, dryRun bool, c pawl.Change) (*workflow.Moved, error) {
	if err := checkChange(c); err != nil {
		return nil, err
	}
	if version < 1 {
		return nil, pawl.Errorf(pawl.Invalid, "version %d: want the number of a version, from 1", version)
	}
	j, err := store.FindJob(ctx, e.store, id)
	if err != nil {
		return nil, err
	}
	r, err := e.newRequest(c, j.Workspace, "POST /api/jobs/{id}/move", id, version)
	if err != nil {
		return nil, err
	}
	m := &move{e: e, id: id, dryRun: dryRun, note: noteOf(c)}
	if dryRun {
		r = nil
	}
	if done, err := r.replay(ctx, m); err != nil {
		return nil, err
	} else if done {
		return m.moved, nil
	}
	v, def, err := e.Lookup(ctx, pawl.WorkflowName{Workspace: j.Workspace, Name: j.Workflow}, version)
	if err != nil {
		return m.result(e.refuse(ctx, r, err, m))
	}
	m.version, m.next = v.Version, def
	return e.moveTo(ctx, id, m, r)
}

// maxMoveTries bounds how often a move is prepared again because the job has changed its
// definition in the meantime.
const maxMoveTries = 5

var (
	errDryRun  = errors.New("dry run")                            // undoes a move that was a dry run
	errOldMove = errors.New("the job has changed its definition") // since the move was prepared
)

func (e *Engine) moveTo(ctx context.Context, id pawl.ID, m *move, r *request) (*workflow.Moved, error) {
	for range maxMoveTries {
		if err := m.prepare(ctx); err != nil {
			return m.result(e.refuse(ctx, r, err, m))
		}
		switch err := e.execute(ctx, r, m, m); {
		case errors.Is(err, errOldMove):
			continue
		case errors.Is(err, errDryRun):
		case err != nil:
			return nil, err
		case m.replayed:
		default:
			e.jobs.put(&m.job, m.passage.To)
			if m.job.State == lifecycle.JobPending {
				e.evaluator.pending(id.JobKey())
				e.wake(manySteps, true, false)
			}
		}
		return m.moved, nil
	}
	return nil, pawl.Errorf(pawl.Conflict, "job %s is being moved by others", id.Public(pawl.JobPrefix))
}

// A move gives a job another version of its workflow.
type move struct {
	e       *Engine
	id      pawl.ID
	version int
	next    *workflow.Definition
	dryRun  bool
	note    decide.Note

	old     *pawl.Job // as it was when the move was prepared
	passage *workflow.Passage
	job     pawl.Job

	moved    *workflow.Moved
	replayed bool // moved is the result of an earlier execution
}

func (m *move) answer() (status int, body []byte) { return document{&m.moved}.answer() }

func (m *move) replay(body []byte) error {
	m.replayed = true
	return document{&m.moved}.replay(body)
}

// result returns what has moved, unless there is an error: then the commit may still be
// in progress.
func (m *move) result(err error) (*workflow.Moved, error) {
	if err != nil {
		return nil, err
	}
	return m.moved, nil
}

// prepare reads the job, and compares its definition with the new one.
func (m *move) prepare(ctx context.Context) (err error) {
	if m.old, err = store.FindJob(ctx, m.e.store, m.id); err != nil {
		return err
	}
	def, err := m.e.defs.Get(ctx, m.old.Definition)
	if err != nil {
		return err
	}
	if m.passage, err = def.Passage(m.next); err != nil {
		return err
	}
	if m.old.Version == m.version && m.passage.To.Hash() == def.Hash() {
		return pawl.Errorf(pawl.Conflict, "job %s has version %d already", m.id.Public(pawl.JobPrefix), m.version)
	}
	m.passage.To, err = m.e.defs.Load(m.passage.To.Canonical()) // also keeps it in memory for commands that follow
	return err
}

func (m *move) weight() int { return 1 + len(m.passage.To.Nodes)/heavyRows }

func (m *move) query(q *store.Query) {
	ask(q, m.id.JobKey(), parentOf(m.old), decide.MoveReads())
}

func (m *move) decide(t *tx) error {
	m.replayed = false // reset the result of an earlier try
	j := t.job(m.id.JobKey())
	if j == nil || j.ID != m.id {
		return store.NoJob(m.id)
	}
	if j.Definition != m.old.Definition || j.Version != m.old.Version {
		return errOldMove
	}
	d, err := m.e.decision(t, j.Key(), decide.Answers{})
	if err != nil {
		return err
	}
	m.moved = &workflow.Moved{JobID: m.id.Public(pawl.JobPrefix), DryRun: m.dryRun, Diff: m.passage.Diff,
		From: workflow.Pin{Version: j.Version, Hash: d.Definition.HashString()}, To: workflow.Pin{Version: m.version, Hash: m.passage.To.HashString()}}
	inputs, err := d.MoveTo(&decide.Move{Passage: m.passage, From: j.Version, Version: m.version, Inputs: m.old.Inputs}, m.note)
	if err != nil {
		return err
	}
	if err := m.pin(t, j, inputs); err != nil {
		return err
	}
	if err := d.Refill(); err != nil {
		return err
	}
	if m.dryRun {
		return errDryRun
	}
	m.job = *j
	return nil
}

// pin gives the job its new definition, and carries out the consequences.
func (m *move) pin(t *tx, j *pawl.Job, inputs json.RawMessage) (err error) {
	to := m.passage.To
	j.Definition, j.Version = definitions.KeyOf(to.Hash()), m.version
	if string(inputs) != string(m.old.Inputs) {
		j.Inputs = inputs
	}
	if j.Metadata, err = m.metadata(); err != nil {
		return err
	}
	if !m.e.defs.IsStored(j.Definition) {
		t.definitions = append(t.definitions, &pawl.Definition{Key: j.Definition, Hash: to.Hash(), Name: to.Name, Source: to.Canonical(), CreatedAt: t.now})
	}
	if j.State != lifecycle.JobPending {
		return nil // it keeps its slot under its old key until it ends
	}
	key, err := concurrencyKey(to, inputs)
	if err != nil {
		return err
	}
	if j.Pool = 0; to.Concurrency > 0 {
		j.Pool = concurrencyPool(j.Workspace, to, key)
	}
	j.Route = firstRoute(to, j)
	return nil
}

// metadata returns the metadata of a job that continues another, or nil. A step that is no
// longer the same is not reused from that job.
func (m *move) metadata() (json.RawMessage, error) {
	if m.old.Continues == 0 {
		return nil, nil
	}
	f, err := originOf(m.old.Metadata)
	if err != nil {
		return nil, err
	}
	for _, c := range m.passage.Diff.Steps {
		if c.Change != workflow.Removed && c.Hook == workflow.NoHook {
			f.Rerun = append(f.Rerun, c.Step)
		}
	}
	f.Rerun = append(f.Rerun, m.passage.Misses()...)
	slices.Sort(f.Rerun)
	f.Rerun = slices.Compact(f.Rerun)
	return f.json(), nil
}

// outdated reports whether a job of the transaction has a different definition or number of
// slots from those by which a command chose its query: the job has moved, or was started
// under a quota. outdated remembers the present facts, so that the command asks for the
// right records when it is tried again. If the definition is not in memory, it forgets the
// job, and the next use reads it.
func (e *Engine) outdated(t *tx, job rowkey.Job, by *jobFacts) bool {
	j := t.job(job)
	if j == nil || by.slots == j.WorkerCount && j.Definition == definitions.KeyOf(by.def.Hash()) {
		return false
	}
	if now := t.known.Of(j.Definition); now != nil {
		e.jobs.put(j, now)
	} else {
		e.jobs.forget(job)
	}
	return true
}

// current is recallID with the job's present definition.
func (e *Engine) current(ctx context.Context, id pawl.ID) (*jobFacts, error) {
	j, err := store.FindJob(ctx, e.store, id)
	if err != nil {
		return nil, err
	}
	def, err := e.defs.Get(ctx, j.Definition)
	if err != nil {
		return nil, err
	}
	e.jobs.put(j, def)
	return e.recallID(ctx, id)
}

// maxPlans is how many jobs PlanMoves considers.
const maxPlans = 1000

// PlanMoves tells, for the unfinished jobs of a workflow in a workspace, newest first and
// at most 1000, whether they can move to a definition that is a version of it or is going
// to be. It changes nothing.
func (e *Engine) PlanMoves(ctx context.Context, workspace string, canonical []byte) (*workflow.MovePlans, error) {
	def, err := e.defs.Load(canonical)
	if err != nil {
		return nil, err
	}
	version, is, err := e.wouldBe(ctx, pawl.WorkflowName{Workspace: workspace, Name: def.Name}, def)
	if err != nil {
		return nil, err
	}
	jobs, err := e.store.Jobs(ctx, store.JobFilter{Workspace: workspace, Workflow: def.Name, Limit: maxPlans, Bare: true,
		States: []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}})
	if err != nil {
		return nil, err
	}
	plans := &workflow.MovePlans{Workflow: def.Name, Hash: def.HashString(), Version: version, Registered: is, Jobs: make([]workflow.MovePlan, 0, len(jobs))}
	for _, j := range jobs {
		p, err := e.planMove(ctx, j, version, def)
		if err != nil {
			return nil, err
		}
		plans.Jobs = append(plans.Jobs, *p)
	}
	return plans, nil
}

// wouldBe returns the newest version that has this definition, or the version that it would
// become if it were registered.
func (e *Engine) wouldBe(ctx context.Context, n pawl.WorkflowName, def *workflow.Definition) (version int, is bool, err error) {
	newest, key := 0, definitions.KeyOf(def.Hash())
	err = e.Versions(ctx, n, func(v *pawl.Version) error {
		newest = max(newest, v.Version)
		if v.Definition == key && !is {
			version, is = v.Version, true
		}
		return nil
	})
	switch {
	case is || err != nil && pawl.KindOf(err) != pawl.NotFound:
		return version, is, err
	}
	return newest + 1, false, nil
}

func (e *Engine) planMove(ctx context.Context, j *pawl.Job, version int, def *workflow.Definition) (*workflow.MovePlan, error) {
	has, err := e.defs.Get(ctx, j.Definition)
	if err != nil {
		return nil, err
	}
	p := &workflow.MovePlan{JobID: j.ID.Public(pawl.JobPrefix), Status: j.State, Pinned: workflow.Pin{Version: j.Version, Hash: has.HashString()}, Diff: has.DiffTo(def), Why: []string{}}
	_, err = e.moveTo(ctx, j.ID, &move{e: e, id: j.ID, version: version, next: def, dryRun: true}, nil)
	var obstacles decide.Obstacles
	switch p.Movable = err == nil; {
	case errors.As(err, &obstacles):
		p.Why = obstacles
	case pawl.KindOf(err) == pawl.Conflict:
		p.Why = []string{err.Error()}
	case err != nil:
		return nil, fmt.Errorf("job %s: %w", p.JobID, err)
	}
	return p, nil
}
