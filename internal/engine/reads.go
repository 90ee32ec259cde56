package engine

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// ask adds what a decision about a job must have in sight to a query. The parent is the
// step that waits for the job, if it is a child.
func ask(q *store.Query, job rowkey.Job, parent pawl.StepKey, r decide.ReadSet) {
	q.Jobs = append(q.Jobs, job)
	for _, ord := range r.Steps {
		q.Steps = append(q.Steps, pawl.StepKey{Job: job, Ord: ord})
	}
	if r.Parent && parent.Ord != 0 {
		q.Steps = append(q.Steps, parent)
	}
	if r.Nodes {
		q.Nodes = append(q.Nodes, job)
	}
	if r.Open {
		q.Open = append(q.Open, job)
	}
	if r.Waiting > 0 {
		q.Waiting = append(q.Waiting, store.JobLimit{Job: job, Limit: r.Waiting})
	}
	if r.Signals {
		q.Signals = append(q.Signals, job)
	}
}

// askSteps adds steps about which nothing is decided to a query.
func askSteps(q *store.Query, keys ...pawl.StepKey) { q.Steps = append(q.Steps, keys...) }

// ask adds what a decision about the job must have in sight to a query.
func (f *jobFacts) ask(q *store.Query, r decide.ReadSet) { ask(q, f.id.JobKey(), f.parent, r) }

// asked is the set of records that a transaction's query asks for. It is consulted only for
// missing records, to distinguish "there is none" from "was not asked for".
type asked struct {
	q     *store.Query
	steps map[pawl.StepKey]bool // of q; nil until needed
}

func (a *asked) step(k pawl.StepKey) bool {
	if a.steps == nil {
		a.steps = make(map[pawl.StepKey]bool, len(a.q.Steps))
		for _, s := range a.q.Steps {
			a.steps[s] = true
		}
	}
	return a.steps[k] || k.Ord.Instance() == 0 && slices.Contains(a.q.Nodes, k.Job)
}

func (a *asked) waiting(job rowkey.Job) bool {
	return slices.ContainsFunc(a.q.Waiting, func(l store.JobLimit) bool { return l.Job == job })
}

// isAnswered reports whether the job belongs to a step that a worker holds or may claim:
// the query returns such jobs too, if they exist.
func (t *tx) isAnswered(job rowkey.Job) bool {
	of := func(k pawl.StepKey) bool { return k.Job == job }
	for _, held := range t.facts.Held {
		if slices.ContainsFunc(held, of) {
			return true
		}
	}
	return slices.ContainsFunc(t.facts.Claims, func(c store.ClaimFacts) bool { return slices.ContainsFunc(c.Steps, of) })
}

// missed records that a command has read something its query did not ask for: the command
// is refused with that error, no matter how it treats the nil.
func (t *tx) missed(field, format string, args ...any) {
	if t.fault == nil {
		t.fault = &decide.NotAskedError{What: fmt.Sprintf(format, args...), Field: field}
	}
}

// isMade reports whether this transaction makes the job, so that all of it is in sight.
func (t *tx) isMade(job rowkey.Job) bool {
	h := t.jobs[job]
	return h != nil && h.made
}

// Step implements decide.JobTx.
func (b jobTx) Step(ord pawl.Ord) (*pawl.Step, error) {
	k := pawl.StepKey{Job: b.key, Ord: ord}
	if s := b.t.stepInSight(k); s != nil {
		return s, nil
	}
	if b.t.isMade(b.key) || b.t.asked.step(k) {
		return nil, nil
	}
	return nil, decide.StepNotAsked(ord)
}

// Open implements decide.JobTx. If rows cannot be read, not all steps are in sight.
func (b jobTx) Open() error {
	switch {
	case b.t.isMade(b.key):
		return nil
	case !slices.Contains(b.t.asked.q.Open, b.key):
		return decide.OpenNotAsked()
	case b.t.facts.Unreadable > 0:
		return pawl.Errorf(pawl.Internal, "rows of this transaction cannot be read: %d", b.t.facts.Unreadable)
	}
	return nil
}

// Waiting implements decide.JobTx.
func (b jobTx) Waiting() ([]pawl.Ord, error) {
	waiting := b.t.facts.Waiting[b.key]
	if len(waiting) == 0 && !b.t.isMade(b.key) && !b.t.asked.waiting(b.key) {
		return nil, decide.WaitingNotAsked()
	}
	ords := make([]pawl.Ord, len(waiting))
	for i, k := range waiting {
		ords[i] = k.Ord
	}
	return ords, nil
}

// Parent implements decide.JobTx.
func (b jobTx) Parent() (*pawl.Step, error) {
	j := b.Job()
	if j.ParentStep == 0 {
		return nil, nil
	}
	k := parentOf(j)
	if s := b.t.stepInSight(k); s != nil {
		return s, nil
	}
	if b.t.asked.step(k) {
		return nil, nil
	}
	return nil, decide.ParentNotAsked()
}

// Signals implements decide.JobTx.
func (b jobTx) Signals() ([]*pawl.Signal, error) {
	if !b.t.isMade(b.key) && !slices.Contains(b.t.asked.q.Signals, b.key) {
		return nil, decide.SignalsNotAsked()
	}
	return b.t.signals(b.key), nil
}
