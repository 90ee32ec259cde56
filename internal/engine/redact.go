package engine

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// RedactJob permanently withholds the payload of a job that has ended (K6): its inputs,
// metadata, output and error, those of its steps, the data of its signals and refused
// facts, its logs, and the data kept beside its trail. If step is given, it withholds the
// payload of that step and all its instances. The trail of the job records this first, with
// the reason, which is required; hashes do not change.
//
// RedactJob returns when everything is erased, and reports progress to each unless that is
// nil. If it fails, or the process dies, any process that evaluates jobs continues. A job
// is refused while an unfinished job needs it: its parent, or one that continues it.
func (e *Engine) RedactJob(ctx context.Context, id pawl.ID, step string, c pawl.Change, each func(pawl.Redaction)) (pawl.Redaction, error) {
	done := pawl.Redaction{Job: id.Public(pawl.JobPrefix), Step: step}
	if err := checkChange(c); err != nil {
		return done, err
	}
	if strings.TrimSpace(c.Reason) == "" {
		return done, pawl.Errorf(pawl.Invalid, "reason: want why the job is redacted, for the audit trail")
	}
	r, asked, err := e.asked(ctx, id, c, "redact", nil, step)
	if err != nil {
		return done, err
	}
	if !asked {
		cmd, err := e.redact(ctx, id, step, c)
		if err == nil {
			err = e.execute(ctx, r, cmd, nil)
		} else {
			err = e.refuse(ctx, r, err, nil)
		}
		if err != nil {
			return done, err
		}
	}
	return done, e.eraseAll(ctx, id.JobKey(), &done, each)
}

// redact prepares the command that begins a redaction.
func (e *Engine) redact(ctx context.Context, id pawl.ID, step string, c pawl.Change) (*redact, error) {
	j, err := store.FindJob(ctx, e.store, id)
	if err != nil {
		return nil, err
	}
	if err := redactable(j); err != nil {
		return nil, err
	}
	if by, err := e.neededBy(ctx, j); err != nil || by != nil {
		return nil, orNeeded(j, by, err)
	}
	scope := audit.Scope{Job: step == ""}
	if step != "" {
		def, err := e.defs.Get(ctx, j.Definition)
		if err != nil {
			return nil, err
		}
		n := def.NodeByID(step)
		if n == 0 {
			return nil, noNode(def, step)
		}
		scope.Step, scope.Node = step, int64(n)
	}
	return &redact{id: id, scope: scope, note: noteOf(c)}, nil
}

// redactable refuses a job that has not ended.
func redactable(j *pawl.Job) error {
	if lifecycle.Job.Ended(j.State) {
		return nil
	}
	id := j.ID.Public(pawl.JobPrefix)
	return &pawl.Error{Kind: pawl.Conflict, Message: "job " + id + " is " + string(j.State) + ": only a job that has ended can be redacted",
		Hint: "wait for its end with: pawl job logs " + id + " --follow; or end it with: pawl job cancel " + id}
}

// neededBy returns an unfinished job that may read this job's payload, or nil: its parent,
// or one that continues it.
func (e *Engine) neededBy(ctx context.Context, j *pawl.Job) (*pawl.Job, error) {
	if j.Parent != 0 {
		p, err := e.store.Job(ctx, j.Parent)
		if err == nil && !lifecycle.Job.Ended(p.State) {
			return p, nil
		}
		if err != nil && !isNotFound(err) {
			return nil, err
		}
	}
	open := []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}
	jobs, err := e.store.Jobs(ctx, store.JobFilter{Continues: j.Key(), States: open, Limit: 1, Bare: true})
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	return jobs[0], nil
}

func orNeeded(j, by *pawl.Job, err error) error {
	if err != nil {
		return err
	}
	other := by.ID.Public(pawl.JobPrefix)
	return &pawl.Error{Kind: pawl.Conflict, Message: "job " + j.ID.Public(pawl.JobPrefix) + " cannot be redacted yet: job " + other + " needs it, and is " + string(by.State),
		Hint: "redact it when that has ended; pawl job cancel " + other + " ends it"}
}

func noNode(def *workflow.Definition, step string) error {
	if i := strings.IndexByte(step, '['); i > 0 && def.NodeByID(step[:i]) != 0 {
		return pawl.Errorf(pawl.Invalid, "step %q: want %s, which goes with all its instances", step, step[:i])
	}
	var ids []string
	for i := range def.Nodes {
		ids = append(ids, def.Nodes[i].ID)
	}
	return pawl.Errorf(pawl.NotFound, "workflow %s has no step %q: want one of %s", def.Name, step, strings.Join(ids, ", "))
}

// A redact records in the trail of a job what is withheld, and marks the job.
type redact struct {
	id    pawl.ID
	scope audit.Scope
	note  decide.Note
}

func (r *redact) query(q *store.Query) { q.Jobs = append(q.Jobs, r.id.JobKey()) }

func (r *redact) weight() int { return 1 + len(r.scope.Entries)/10 }

func (r *redact) decide(t *tx) error {
	j := t.job(r.id.JobKey())
	if j == nil || j.ID != r.id {
		return store.NoJob(r.id)
	}
	if err := redactable(j); err != nil {
		return err
	}
	note := r.note
	note.Metadata = r.scope.Metadata()
	if err := t.moveJob(j, lifecycle.JobRedact, note); err != nil {
		return err
	}
	hold(t, j)
	return nil
}

// withheld reads which payload of a job was withheld.
func (e *Engine) withheld(ctx context.Context, j *pawl.Job) (*audit.Withheld, error) {
	if !lifecycle.Job.Ended(j.State) {
		return nil, nil
	}
	return trail.WithheldOf(ctx, e.store, j.Key())
}
