package sqlite

import (
	"encoding/json"
	"fmt"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/store"
)

// A row binds the parameters of a statement in their order.
type row struct {
	s     *sqlite.Stmt
	n     int
	bound []value // what is bound already
}

// A value is what a parameter is bound to. A statement keeps its bindings, so
// that only what differs from its last use is bound anew: most of a row is the
// same for each record of a batch.
type value struct {
	is   kind
	n    int64
	text string
}

type kind uint8

const (
	unknown kind = iota
	null
	integer
	text
)

// keptText bounds the texts that are remembered as bound.
const keptText = 64

// next goes to the next parameter and answers what is bound to it.
func (r *row) next() *value {
	if r.n == len(r.bound) {
		r.bound = append(r.bound, value{})
	}
	r.n++
	return &r.bound[r.n-1]
}

func (r *row) int(v int64) {
	if was := r.next(); was.is != integer || was.n != v {
		*was = value{is: integer, n: v}
		r.s.BindInt64(r.n, v)
	}
}

func (r *row) ints(vs ...int64) {
	for _, v := range vs {
		r.int(v)
	}
}

func (r *row) bool(v bool) {
	n := int64(0)
	if v {
		n = 1
	}
	r.int(n)
}

func (r *row) text(v string) {
	was := r.next()
	if was.is == text && was.text == v {
		return
	}
	*was = value{}
	if len(v) <= keptText {
		*was = value{is: text, text: v}
	}
	r.s.BindText(r.n, v)
}

func (r *row) blob(v []byte) {
	r.next().is = unknown
	r.s.BindBytes(r.n, v)
}

// any binds an int64 or a string.
func (r *row) any(v any) {
	if n, ok := v.(int64); ok {
		r.int(n)
		return
	}
	r.text(v.(string))
}

// body binds text, NULL if it is nil.
func (r *row) body(v []byte) {
	if v != nil {
		r.text(string(v))
	} else if was := r.next(); was.is != null {
		*was = value{is: null}
		r.s.BindNull(r.n)
	}
}

// columns reads the columns of a result row in their order. A value that cannot
// be is kept as the first fault.
type columns struct {
	s     *sqlite.Stmt
	n     int
	fault error
}

// finish answers the fault of this row and forgets it.
func (c *columns) finish() error {
	err := c.fault
	c.fault = nil
	return err
}

func (c *columns) fail(what string, err error) {
	if c.fault == nil {
		c.fault = fmt.Errorf("column %d, %s: %w", c.n, what, err)
	}
}

func (c *columns) int() int64 {
	c.n++
	return c.s.ColumnInt64(c.n - 1)
}

func (c *columns) bool() bool { return c.int() != 0 }

func (c *columns) text() string {
	c.n++
	return c.s.ColumnText(c.n - 1)
}

func (c *columns) blob() []byte {
	c.n++
	b := make([]byte, c.s.ColumnLen(c.n-1))
	c.s.ColumnBytes(c.n-1, b)
	return b
}

// fixed reads a blob of exactly the length of into.
func (c *columns) fixed(into []byte) {
	c.n++
	if n := c.s.ColumnLen(c.n - 1); n != len(into) {
		c.fail("blob", fmt.Errorf("%d bytes, want %d", n, len(into)))
		return
	}
	c.s.ColumnBytes(c.n-1, into)
}

// body reads text, nil if it is NULL.
func (c *columns) body() []byte {
	if c.s.ColumnType(c.n) == sqlite.TypeNull {
		c.n++
		return nil
	}
	return c.blob()
}

func (c *columns) failure() *pawl.Failure {
	f, err := store.DecodeFailure(c.body())
	if err != nil {
		c.fail("failure", err)
	}
	return f
}

func (c *columns) json(into any) {
	if err := json.Unmarshal(c.blob(), into); err != nil {
		c.fail("json", err)
	}
}

func (r *row) record(v *pawl.Record) {
	r.text(string(v.State))
	r.int(v.Seq)
	r.blob(v.Head[:])
	r.int(v.DueAt)
	r.text(string(v.DueEvent))
	r.int(v.UpdatedAt)
}

func (c *columns) record(v *pawl.Record) {
	v.State = machine.State(c.text())
	v.Seq = c.int()
	c.fixed(v.Head[:])
	v.DueAt = c.int()
	v.DueEvent = machine.Event(c.text())
	v.UpdatedAt = c.int()
}

func (r *row) jobFixed(j *pawl.Job) {
	r.int(j.Key())
	r.blob(j.ID[:])
	r.text(j.Workspace)
	r.text(j.Workflow)
	r.text(j.Description)
	r.ints(j.Parent, int64(j.ParentStep), j.Continues, j.Schedule, int64(j.Depth), j.Private, j.CreatedAt)
}

func (r *row) jobLive(j *pawl.Job) {
	r.record(&j.Record)
	r.ints(j.Definition, int64(j.Version), int64(j.WorkerCount), j.Route, int64(j.Priority), j.Rank, j.Pool, j.Quota)
	r.bool(j.Paused)
	r.int(int64(j.Mark))
	r.text(string(j.Ending))
	r.ints(int64(j.Hooks), int64(j.Open), int64(j.Blocked), int64(j.Active), j.StartedAt, j.CompletedAt)
}

func (c *columns) job() *pawl.Job {
	j := &pawl.Job{}
	c.id(&j.ID)
	j.Workspace, j.Workflow, j.Description = c.text(), c.text(), c.text()
	j.Parent, j.ParentStep = c.int(), pawl.Ord(c.int())
	j.Continues, j.Schedule = c.int(), c.int()
	j.Depth, j.Private = int(c.int()), c.int()
	j.CreatedAt = c.int()
	c.record(&j.Record)
	j.Definition, j.Version, j.WorkerCount = c.int(), int(c.int()), int(c.int())
	j.Route, j.Priority, j.Rank = c.int(), int(c.int()), c.int()
	j.Pool, j.Quota = c.int(), c.int()
	j.Paused = c.bool()
	j.Mark = pawl.Mark(c.int())
	j.Ending = machine.State(c.text())
	j.Hooks = pawl.HookPhase(c.int())
	j.Open, j.Blocked, j.Active = int(c.int()), int(c.int()), int(c.int())
	j.StartedAt, j.CompletedAt = c.int(), c.int()
	return j
}

// id reads a key and the public id, which has to be of that key.
func (c *columns) id(id *pawl.ID) {
	key := c.int()
	c.fixed(id[:])
	if c.fault == nil && id.Key() != key {
		c.fail("uuid", fmt.Errorf("of key %d", id.Key()))
	}
}

func (c *columns) jobBodies(j *pawl.Job) {
	j.Inputs = c.body()
	j.Output = c.body()
	j.Error = c.failure()
	j.Metadata = c.body()
}

func (r *row) stepFixed(s *pawl.Step) { r.ints(s.Job, int64(s.Ord), s.CreatedAt) }

// place answers whose the step is: of its worker while it is in progress, else
// of whoever serves its route.
func place(s *pawl.Step) int64 {
	if s.State == lifecycle.StepInProgress {
		return s.Worker
	}
	return s.Route
}

func (r *row) stepPlaced(s *pawl.Step) {
	r.record(&s.Record)
	r.ints(int64(s.Mark), int64(s.Unmet))
	r.bool(s.Skipped)
	r.ints(int64(s.Attempts), int64(s.Claims), int64(s.Losses), s.Worker, s.Route, int64(s.Priority),
		s.Rank, s.Pool, int64(s.Total), int64(s.Made), int64(s.Live), s.EnqueuedAt, s.StartedAt, s.CompletedAt, place(s))
}

func (c *columns) step() *pawl.Step {
	s := &pawl.Step{}
	s.StepKey = pawl.StepKey{Job: c.int(), Ord: pawl.Ord(c.int())}
	s.CreatedAt = c.int()
	c.record(&s.Record)
	s.Mark, s.Unmet = pawl.Mark(c.int()), int(c.int())
	s.Skipped = c.bool()
	s.Attempts, s.Claims, s.Losses = int(c.int()), int(c.int()), int(c.int())
	s.Worker, s.Route, s.Priority = c.int(), c.int(), int(c.int())
	s.Rank, s.Pool = c.int(), c.int()
	s.Total, s.Made, s.Live = int(c.int()), int(c.int()), int(c.int())
	s.EnqueuedAt, s.StartedAt, s.CompletedAt = c.int(), c.int(), c.int()
	return s
}

func (c *columns) stepBodies(s *pawl.Step) {
	s.Input = c.body()
	s.Output = c.body()
	s.Error = c.failure()
}

func (r *row) workerFixed(w *pawl.Worker) {
	r.int(w.Key())
	r.blob(w.ID[:])
	r.text(w.Workspace)
	r.int(w.CreatedAt)
}

// workerLive binds all that may change but the metadata.
func (r *row) workerLive(w *pawl.Worker) {
	r.record(&w.Record)
	r.text(w.Name)
	r.text(w.Host)
	r.ints(int64(w.PID), int64(w.Capacity))
	r.text(list(w.Routes))
	r.text(list(w.Handlers))
}

// list writes a list of numbers or strings, which cannot fail.
func list[T int64 | string](v []T) string {
	b, _ := json.Marshal(v)
	return string(b)
}

func (c *columns) worker() *pawl.Worker {
	w := &pawl.Worker{}
	c.id(&w.ID)
	w.Workspace = c.text()
	w.CreatedAt = c.int()
	c.record(&w.Record)
	w.Name, w.Host = c.text(), c.text()
	w.PID, w.Capacity = int(c.int()), int(c.int())
	c.json(&w.Routes)
	c.json(&w.Handlers)
	w.Metadata = c.body()
	return w
}

func (r *row) entry(e *audit.Entry) {
	r.int(e.Sequence)
	r.text(string(e.To))
	r.text(string(e.Event))
	r.text(e.Reason)
	r.text(e.Actor)
	r.text(e.RequestID)
	if len(e.Metadata) == 0 {
		r.body(nil)
	} else {
		r.body(e.Metadata)
	}
	r.int(e.At)
	r.blob(e.Hash[:])
}

// entry reads an entry; the caller knows its entity and where it came from.
func (c *columns) entry() audit.Entry {
	var e audit.Entry
	e.Sequence = c.int()
	e.To = machine.State(c.text())
	e.Event = machine.Event(c.text())
	e.Reason, e.Actor, e.RequestID = c.text(), c.text(), c.text()
	e.Metadata = c.body()
	e.At = c.int()
	c.fixed(e.Hash[:])
	return e
}

// entries hands what a row of the trail of jobs and steps holds to f.
func (c *columns) entries(f func(pawl.Ord, audit.Entry)) {
	ord, e := pawl.Ord(c.int()), c.entry()
	more := c.body()
	if c.fault != nil {
		return
	}
	f(ord, e)
	if err := store.Unpack(more, f); err != nil {
		c.fail("json", err)
	}
}
