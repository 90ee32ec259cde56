package postgres

import (
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/store"
)

// Each record is written and read in the order of its columns (columns.go).

func (r *rows) record(v *pawl.Record) {
	r.text(string(v.State))
	r.num(v.Seq)
	r.blob(v.Head[:])
	r.num(v.DueAt)
	r.text(string(v.DueEvent))
	r.num(v.UpdatedAt)
}

func (c *cursor) record(v *pawl.Record) {
	v.State = machine.State(c.word())
	v.Seq = c.num()
	c.fixed(v.Head[:])
	v.DueAt = c.num()
	v.DueEvent = machine.Event(c.text())
	v.UpdatedAt = c.num()
}

func (r *rows) jobFixed(j *pawl.Job) {
	r.num(j.Key())
	r.blob(j.ID[:])
	r.text(j.Workspace)
	r.text(j.Workflow)
	r.text(j.Description)
	r.num(j.Parent)
	r.num(int64(j.ParentStep))
	r.num(j.Continues)
	r.num(j.Schedule)
	r.num(int64(j.Depth))
	r.num(j.Private)
	r.num(j.CreatedAt)
}

func (r *rows) jobMoving(j *pawl.Job) {
	r.record(&j.Record)
	r.num(j.Definition)
	r.num(int64(j.Version))
	r.num(int64(j.WorkerCount))
	r.num(j.Route)
	r.num(int64(j.Priority))
	r.num(j.Rank)
	r.num(j.Pool)
	r.num(j.Quota)
	r.flag(j.Paused)
	r.num(int64(j.Mark))
	r.text(string(j.Ending))
	r.num(int64(j.Hooks))
	r.num(int64(j.Open))
	r.num(int64(j.Blocked))
	r.num(int64(j.Active))
	r.num(j.StartedAt)
	r.num(j.CompletedAt)
}

func (r *rows) jobBodies(j *pawl.Job) error {
	r.body(j.Inputs)
	r.body(j.Output)
	err := r.failure(j.Error)
	r.body(j.Metadata)
	return err
}

// job reads a job without bodies (jobPlain).
func (c *cursor) job() *pawl.Job {
	j := new(pawl.Job)
	c.fixed(j.ID[:])
	j.Workspace = c.text()
	j.Workflow = c.text()
	j.Description = c.text()
	j.Parent = c.num()
	j.ParentStep = pawl.Ord(c.num())
	j.Continues = c.num()
	j.Schedule = c.num()
	j.Depth = c.int()
	j.Private = c.num()
	j.CreatedAt = c.num()
	c.record(&j.Record)
	j.Definition = c.num()
	j.Version = c.int()
	j.WorkerCount = c.int()
	j.Route = c.num()
	j.Priority = c.int()
	j.Rank = c.num()
	j.Pool = c.num()
	j.Quota = c.num()
	j.Paused = c.flag()
	j.Mark = pawl.Mark(c.num())
	j.Ending = machine.State(c.word())
	j.Hooks = pawl.HookPhase(c.num())
	j.Open = c.int()
	j.Blocked = c.int()
	j.Active = c.int()
	j.StartedAt = c.num()
	j.CompletedAt = c.num()
	return j
}

func (c *cursor) jobBodies(j *pawl.Job) {
	j.Inputs = c.body()
	j.Output = c.body()
	j.Error = c.failure()
	j.Metadata = c.body()
}

func (r *rows) stepFixed(s *pawl.Step) {
	r.num(s.Job)
	r.num(int64(s.Ord))
	r.num(s.CreatedAt)
}

func (r *rows) stepMoving(s *pawl.Step) {
	r.record(&s.Record)
	r.num(int64(s.Mark))
	r.num(int64(s.Unmet))
	r.flag(s.Skipped)
	r.num(int64(s.Attempts))
	r.num(int64(s.Claims))
	r.num(int64(s.Losses))
	r.num(s.Worker)
	r.num(s.Route)
	r.num(int64(s.Priority))
	r.num(s.Rank)
	r.num(s.Pool)
	r.num(int64(s.Total))
	r.num(int64(s.Made))
	r.num(int64(s.Live))
	r.num(s.EnqueuedAt)
	r.num(s.StartedAt)
	r.num(s.CompletedAt)
}

func (r *rows) stepBodies(s *pawl.Step) error {
	r.body(s.Input)
	r.body(s.Output)
	return r.failure(s.Error)
}

// step reads a step without bodies (stepPlain).
func (c *cursor) step() *pawl.Step {
	s := new(pawl.Step)
	s.Job = c.num()
	s.Ord = pawl.Ord(c.num())
	s.CreatedAt = c.num()
	c.record(&s.Record)
	s.Mark = pawl.Mark(c.num())
	s.Unmet = c.int()
	s.Skipped = c.flag()
	s.Attempts = c.int()
	s.Claims = c.int()
	s.Losses = c.int()
	s.Worker = c.num()
	s.Route = c.num()
	s.Priority = c.int()
	s.Rank = c.num()
	s.Pool = c.num()
	s.Total = c.int()
	s.Made = c.int()
	s.Live = c.int()
	s.EnqueuedAt = c.num()
	s.StartedAt = c.num()
	s.CompletedAt = c.num()
	return s
}

func (c *cursor) stepBodies(s *pawl.Step) {
	s.Input = c.body()
	s.Output = c.body()
	s.Error = c.failure()
}

func (r *rows) workerFixed(w *pawl.Worker) {
	r.num(w.Key())
	r.blob(w.ID[:])
	r.text(w.Workspace)
	r.text(w.Name)
	r.text(w.Host)
	r.num(int64(w.PID))
	r.num(w.CreatedAt)
}

func (r *rows) workerMoving(w *pawl.Worker) error {
	r.record(&w.Record)
	r.num(int64(w.Capacity))
	if err := r.json(w.Routes); err != nil {
		return err
	}
	return r.json(w.Handlers)
}

// worker reads a worker without metadata (workerPlain).
func (c *cursor) worker() *pawl.Worker {
	w := new(pawl.Worker)
	c.fixed(w.ID[:])
	w.Workspace = c.text()
	w.Name = c.text()
	w.Host = c.text()
	w.PID = c.int()
	w.CreatedAt = c.num()
	c.record(&w.Record)
	w.Capacity = c.int()
	c.decode(&w.Routes)
	c.decode(&w.Handlers)
	return w
}

func (r *rows) entries(p store.Packed) {
	r.num(p.Job)
	r.num(int64(p.Ord))
	r.entryRest(p.Entry)
	if p.More == nil {
		r.null()
	} else {
		r.blob(p.More)
	}
}

// longEntry writes an entry of a worker or a schedule.
func (r *rows) longEntry(e *store.Entry) {
	r.num(e.Job)
	r.entryRest(e)
}

func (r *rows) entryRest(e *store.Entry) {
	r.num(e.Sequence)
	r.text(string(e.To))
	r.text(string(e.Event))
	r.text(e.Reason)
	r.text(e.Actor)
	r.text(e.RequestID)
	r.blob(e.Metadata)
	r.num(e.At)
	r.blob(e.Hash[:])
}

// entry reads an audit entry from its sequence on; Entity and From are the
// caller's to fill in.
func (c *cursor) entry() audit.Entry {
	var e audit.Entry
	e.Sequence = c.num()
	e.To = machine.State(c.word())
	e.Event = machine.Event(c.text())
	e.Reason = c.text()
	e.Actor = c.text()
	e.RequestID = c.text()
	e.Metadata = c.blob()
	e.At = c.num()
	c.fixed(e.Hash[:])
	return e
}

// entries reads what a row of the trail of jobs and steps holds, from its ord on.
func (c *cursor) entries(f func(pawl.Ord, audit.Entry)) {
	ord, e := pawl.Ord(c.num()), c.entry()
	more := c.next()
	if c.err != nil {
		return
	}
	f(ord, e)
	if err := store.Unpack(more, f); err != nil {
		c.fail("%w", err)
	}
}

func (r *rows) failure(f *pawl.Failure) error {
	if f == nil {
		r.null()
		return nil
	}
	return r.json(f)
}

func (c *cursor) failure() *pawl.Failure {
	f := new(pawl.Failure)
	if !c.decode(f) {
		return nil
	}
	return f
}

func (r *rows) json(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		r.null()
		return err
	}
	r.body(b)
	return nil
}
