package client

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A Submission is a request for a job. One of Workflow and Name is required.
type Submission struct {
	Workflow *workflow.Definition // the workflow; or
	Name     string               // NAME or NAME@VERSION of a registered workflow
	Inputs   any                  // encoded as a JSON object, a json.RawMessage as it is; nil: none
	Dir      string               // the folder in which commands start, absolute; empty: one of the job, which the worker makes

	Workspace   string // default: the client's
	Description string
	Actor       string  // default: the client's
	RequestID   string  // idempotency key: the same submission with the same key is the same job (J8); see pawl.Change
	Priority    int     // pawl.MinPriority to pawl.MaxPriority; each point is worth a minute of waiting
	Parent      pawl.ID // the job below which this one is, of the same workspace; canceling it cancels this one
	Depth       *int    // that the job has to have: 0, or that of its parent and 1; nil: whatever it is
	WorkerCount int     // at most this many steps at once; 0: as the workflow says
	Metadata    any     // encoded as a JSON object, kept with the job, at most pawl.MaxMetadata bytes; nil: none
	Traceparent string  // the place in a trace that the job belongs to (W3C Trace Context); it is no part of the request
	Private     bool    // only a worker that is given this job by its id runs it, in the process that submits it
}

// Jobs submits jobs and changes them. A change returns what it did to the job.
type Jobs struct{ base }

// Submit submits a job of a workflow and returns its id. The inputs are encoded as a
// JSON object; nil means none. When Submit returns, the job is committed. For a request
// id, a priority or a registered workflow see SubmitAll.
func (s *Jobs) Submit(ctx context.Context, def *workflow.Definition, inputs any) (pawl.ID, error) {
	done, err := s.SubmitAll(ctx, Submission{Workflow: def, Inputs: inputs})
	if err != nil {
		return pawl.ID{}, err
	}
	return done[0].ID, done[0].Err
}

// SubmitAll submits jobs, many in one commit. The outcome of each is at its index; one
// that is refused does not affect the others. The error concerns all of them.
func (s *Jobs) SubmitAll(ctx context.Context, subs ...Submission) ([]pawl.Submitted, error) {
	return s.submit(ctx, subs, s.engine.Submit)
}

// SubmitTx submits jobs within a transaction of the caller: they exist exactly if it is
// committed, like the caller's own rows. See "Transactions" in the package's
// documentation for what tx may be, and for when the jobs start. After an error that is
// not in the outcome of a single job, the transaction has to be rolled back.
func (s *Jobs) SubmitTx(ctx context.Context, tx any, subs ...Submission) ([]pawl.Submitted, error) {
	return s.submit(ctx, subs, func(ctx context.Context, valid ...pawl.Submission) ([]pawl.Submitted, error) {
		return s.engine.SubmitTx(ctx, tx, valid...)
	})
}

// submit submits those of the submissions that are valid.
func (s *Jobs) submit(ctx context.Context, subs []Submission, to func(context.Context, ...pawl.Submission) ([]pawl.Submitted, error)) ([]pawl.Submitted, error) {
	all, valid, at := make([]pawl.Submitted, len(subs)), make([]pawl.Submission, 0, len(subs)), make([]int, 0, len(subs))
	known := references{}
	for i := range subs {
		sub, err := s.submission(ctx, &subs[i], known)
		if err != nil {
			all[i].Err = err
			continue
		}
		valid, at = append(valid, sub), append(at, i)
	}
	if len(valid) == 0 {
		return all, nil
	}
	done, err := to(ctx, valid...)
	if err != nil {
		return nil, err
	}
	for i := range done {
		all[at[i]] = done[i]
	}
	return all, nil
}

// references are the registered workflows of the submissions of one call, so that each is read once.
type references map[reference]resolved

type reference struct{ workspace, name string }

type resolved struct {
	def     *workflow.Definition
	version int
	err     error
}

func (s *Jobs) submission(ctx context.Context, of *Submission, known references) (sub pawl.Submission, err error) {
	sub = pawl.Submission{Workspace: s.workspace(of.Workspace), Dir: of.Dir, Description: of.Description,
		Actor: s.by(pawl.Change{Actor: of.Actor}).Actor, RequestID: of.RequestID, Priority: of.Priority, Private: of.Private,
		Parent: of.Parent, Depth: of.Depth, WorkerCount: of.WorkerCount, Traceparent: of.Traceparent}
	def := of.Workflow
	switch {
	case (def == nil) == (of.Name == ""):
		return sub, pawl.Errorf(pawl.Invalid, "submission: want either Workflow or Name")
	case def == nil:
		sub.Reference = of.Name
		r, is := known[reference{sub.Workspace, of.Name}]
		if !is {
			r.def, r.version, r.err = s.registered(ctx, sub.Workspace, of.Name)
			known[reference{sub.Workspace, of.Name}] = r
		}
		if def, sub.Version = r.def, r.version; r.err != nil {
			return sub, r.err
		}
	}
	sub.Definition = def.Canonical()
	if sub.Inputs, err = encoded("inputs of "+def.Name, of.Inputs); err != nil {
		return sub, err
	}
	sub.Metadata, err = encoded("metadata", of.Metadata)
	return sub, err
}

// encoded returns a value as JSON, a json.RawMessage as it is.
func encoded(what string, v any) (json.RawMessage, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case json.RawMessage:
		return v, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: what + ": want what encodes as a JSON object", Err: err}
	}
	return b, nil
}

func (b *base) registered(ctx context.Context, workspace, name string) (*workflow.Definition, int, error) {
	n, version, err := workflow.ParseReference(name)
	if err != nil {
		return nil, 0, err
	}
	v, def, err := b.engine.Lookup(ctx, pawl.WorkflowName{Workspace: workspace, Name: n}, version)
	if err != nil {
		return nil, 0, err
	}
	return def, v.Version, nil
}

// Get returns a job with its steps. See pawl.ParseID for ids in text.
func (s *Jobs) Get(ctx context.Context, id pawl.ID) (*pawl.JobView, error) {
	return s.engine.Job(ctx, id)
}

// List returns jobs without their steps, newest first.
func (s *Jobs) List(ctx context.Context, q pawl.JobQuery) ([]pawl.JobView, error) {
	return s.engine.Jobs(ctx, q)
}

// A Result is how a job ended.
type Result struct {
	State   machine.State // lifecycle.JobCompleted, JobFailed or JobCanceled
	Output  json.RawMessage
	Failure *pawl.Failure // why it did not complete
}

// Wait waits until the job has ended. The error is about waiting; the failure of a job
// is in the Result.
func (s *Jobs) Wait(ctx context.Context, id pawl.ID) (*Result, error) {
	j, err := s.engine.Wait(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Result{j.State, j.Output, j.Error}, nil
}

// Err returns nil if the job completed, else an error that says why it did not: the
// *pawl.Failure, if there is one.
func (r *Result) Err() error {
	switch {
	case r.State == lifecycle.JobCompleted:
		return nil
	case r.Failure != nil:
		return r.Failure
	}
	return errors.New("the job is " + string(r.State))
}

// Decode decodes the output of a completed job into v, as json.Unmarshal does. For any
// other job it returns Err.
func (r *Result) Decode(v any) error {
	if err := r.Err(); err != nil {
		return err
	}
	return json.Unmarshal(r.Output, v)
}

// Cancel requests the end of a job. Its cancel hooks run before it is CANCELED.
func (s *Jobs) Cancel(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return s.engine.Cancel(ctx, id, s.by(c))
}

// Pause keeps a job from beginning further steps. Running steps continue.
func (s *Jobs) Pause(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return s.engine.PauseJob(ctx, id, s.by(c))
}

// Resume ends a pause.
func (s *Jobs) Resume(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return s.engine.ResumeJob(ctx, id, s.by(c))
}

// Retry makes a job that continues one that has ended without completing, and returns
// its id: complete steps are not run again (J2).
func (s *Jobs) Retry(ctx context.Context, id pawl.ID, r pawl.Retry, c pawl.Change) (pawl.ID, error) {
	return jobOf(s.engine.RetryJob(ctx, id, r, s.by(c)))
}

// jobOf returns the id of the job that a receipt is about.
func jobOf(r pawl.Receipt, err error) (pawl.ID, error) {
	if err != nil {
		return pawl.ID{}, err
	}
	return pawl.ParseID(pawl.JobPrefix, r.ID)
}
