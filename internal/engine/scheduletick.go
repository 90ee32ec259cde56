package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A mold holds what a schedule makes jobs from, as it was read.
type mold struct {
	e    *Engine
	seen *pawl.Schedule
	v    *pawl.Version
	def  *workflow.Definition
	why  error // why no job can be made
}

// mold reads what the schedule runs. If that is gone, it is not an error yet.
func (e *Engine) mold(ctx context.Context, s *pawl.Schedule) (mold, error) {
	m := mold{e: e, seen: s}
	name, version, err := workflow.ParseReference(s.Workflow)
	if err != nil {
		return m, err
	}
	m.v, m.def, err = e.Lookup(ctx, pawl.WorkflowName{Workspace: s.Workspace, Name: name}, version)
	if pawl.KindOf(err) == pawl.NotFound {
		m.why, err = err, nil
	}
	return m, err
}

// creation returns the job for a due time, or an error if none can be made.
func (m *mold) creation(s *pawl.Schedule, due int64) (*creation, error) {
	if m.why != nil {
		return nil, m.why
	}
	inputs, key, err := dueInputs(m.def, s.Inputs, due)
	if err != nil {
		return nil, err
	}
	return &creation{
		id: m.e.NewID(), def: m.def, workspace: s.Workspace, version: m.v.Version, inputs: inputs, priority: s.Priority, schedule: s.Key(), key: key,
		description: fmt.Sprintf("schedule %s, due %s", s.Name, rfc3339(due)),
		note:        decide.Note{Actor: "schedule " + s.Name},
	}, nil
}

// createJob makes a job of the schedule, which becomes its last job.
func (m *mold) createJob(t *tx, s *pawl.Schedule, b *creation, due int64, note decide.Note) error {
	if err := m.e.createJob(t, b); err != nil {
		return err
	}
	s.LastJob, s.Due = b.id.JobKey(), due
	note.Metadata, _ = json.Marshal(map[string]string{"due": rfc3339(due), "job": b.id.Public(pawl.JobPrefix)})
	return t.moveSchedule(s, lifecycle.ScheduleFire, note)
}

// A tick processes a schedule that is due. Of many processes that see it, the first one
// moves its deadline, and nothing is left to do for the others. A tick that meets other
// facts than it was prepared for does nothing, since the deadline still stands for the next
// scan.
type tick struct {
	mold
	due   store.Due
	cron  *schedule.Cron
	ended bool // its last job has ended; ignore the time
}

func (e *Engine) tick(ctx context.Context, due store.Due) (*tick, error) {
	s, err := e.store.Schedule(ctx, due.Schedule())
	if err != nil {
		return nil, err
	}
	cron, err := schedule.Parse(s.Cron, s.TimeZone)
	if err != nil {
		return nil, err
	}
	m, err := e.mold(ctx, s)
	return &tick{mold: m, due: due, cron: cron}, err
}

// lastEnded ticks a schedule whose last job has ended, if a time waits for that.
func (e *Engine) lastEnded(ctx context.Context, key rowkey.Schedule) error {
	s, err := e.store.Schedule(ctx, key)
	if errors.Is(err, store.ErrNotFound) || err == nil && s.Waiting == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	k, err := e.tick(ctx, store.Due{EntityKey: store.ScheduleEntity(key)})
	if err != nil {
		return err
	}
	k.ended = true
	return e.committer.one(ctx, k)
}

func (k *tick) weight() int {
	if k.def == nil {
		return 1
	}
	return 1 + len(k.def.Nodes)/heavyRows
}

func (k *tick) query(q *store.Query) {
	q.Schedules = append(q.Schedules, k.due.Schedule())
	if k.seen.LastJob == 0 {
		return
	}
	q.Jobs = append(q.Jobs, k.seen.LastJob)
	if k.seen.Overlap == schedule.CancelOld {
		ask(q, k.seen.LastJob, pawl.StepKey{}, decide.CancelReads()) // the job has no parent
	}
}

func (k *tick) decide(t *tx) error {
	s := t.schedule(k.due.Schedule())
	if s == nil || s.Seq != k.seen.Seq || s.State != lifecycle.ScheduleActive || !k.ended && !stands(&s.Record, k.due, t.now) {
		return nil
	}
	running := ""
	if s.LastJob != 0 {
		if last := t.job(s.LastJob); last != nil && !lifecycle.Job.Ended(last.State) { // nil if it was removed
			running = last.ID.Public(pawl.JobPrefix)
		}
	}
	d := schedule.Decide(s, k.cron, t.now, running)
	for _, act := range d.Acts {
		if err := k.act(t, s, act); err != nil {
			return err
		}
	}
	s.DueAt, s.Waiting = d.DueAt, d.Waiting
	t.schedules[s.Key()].dirty = true // if the time keeps waiting there is no audit row
	return nil
}

func (k *tick) act(t *tx, s *pawl.Schedule, act schedule.Act) error {
	if act.Event != lifecycle.ScheduleFire {
		return pass(t, s, act, decide.Note{Reason: act.Reason})
	}
	b, err := k.creation(s, act.Due)
	if err != nil {
		act.Event = lifecycle.ScheduleSkip
		f := &pawl.Failure{Class: "inputs", Message: "there can be no job: " + err.Error(), Permanent: true} // the error may hold payload
		return pass(t, s, act, decide.Note{Failure: f})
	}
	if act.CancelOld {
		if err := k.cancel(t, s, act.Due); err != nil {
			return err
		}
	}
	return k.createJob(t, s, b, act.Due, decide.Note{})
}

// pass records that a time makes no job, or none yet.
func pass(t *tx, s *pawl.Schedule, act schedule.Act, note decide.Note) error {
	note.Metadata, _ = json.Marshal(map[string]string{"due": rfc3339(act.Due)})
	return t.moveSchedule(s, act.Event, note)
}

// cancel ends the job of the previous time. A job that is already ending is left alone.
func (k *tick) cancel(t *tx, s *pawl.Schedule, due int64) error {
	d, err := k.e.decision(t, s.LastJob, decide.Answers{})
	if err != nil {
		return err
	}
	err = d.Cancel(decide.Note{Actor: "schedule " + s.Name, Reason: "the next time of its schedule has come: " + rfc3339(due)})
	if pawl.KindOf(err) == pawl.Conflict {
		return nil
	}
	return err
}

// TriggerSchedule makes a job of an active schedule now, in addition to its times and to
// running jobs, and returns its receipt. The job is due now and becomes the last job of the
// schedule: at the next time it counts as running if it still runs. The error tells why no
// job can be made.
func (e *Engine) TriggerSchedule(ctx context.Context, n pawl.ScheduleName, c pawl.Change) (pawl.Receipt, error) {
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	r, err := e.newRequest(c, n.Workspace, "POST /api/schedules/{name}/trigger", n.Name)
	if err != nil {
		return pawl.Receipt{}, err
	}
	if known, done, err := r.earlier(ctx); done || err != nil {
		return known, err
	}
	s, err := store.FindSchedule(ctx, e.store, n)
	if err != nil {
		return e.refuseAction(ctx, r, err)
	}
	cmd := &trigger{note: noteOf(c)}
	if cmd.mold, err = e.mold(ctx, s); err != nil {
		return pawl.Receipt{}, err
	}
	return e.act(ctx, r, cmd, c)
}

type trigger struct {
	mold
	note decide.Note

	made pawl.ID
}

func (g *trigger) subject() store.EntityKey { return store.JobEntity(g.made.JobKey()) }

func (g *trigger) query(q *store.Query) { q.Schedules = append(q.Schedules, g.seen.Key()) }

func (g *trigger) decide(t *tx) error {
	s := t.schedule(g.seen.Key())
	switch {
	case s == nil || s.State == lifecycle.ScheduleRemoved:
		return store.NoSchedule(g.seen.Name)
	case s.Workflow != g.seen.Workflow:
		return &passing{&pawl.Error{Kind: pawl.Conflict, Message: "schedule " + s.Name + " was changed at this moment", Hint: "try again"}}
	}
	b, err := g.creation(s, t.now)
	if err != nil {
		return err
	}
	b.note.Actor, b.note.Reason = g.note.Actor, g.note.Reason
	g.made = b.id
	return g.createJob(t, s, b, t.now, g.note)
}
