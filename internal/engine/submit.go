package engine

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// Limits of a submission.
const (
	MaxInputs      = 1 << 20          // bytes of a job's inputs
	submitEndpoint = "POST /api/jobs" // the scope of a submission's idempotency key
)

// Submit makes jobs, many in one commit, each with its own result: a refused submission
// does not affect the others. Submitting with a request id that was used for the same
// submission returns the existing job (J8).
func (e *Engine) Submit(ctx context.Context, subs ...pawl.Submission) ([]pawl.Submitted, error) {
	e.hints.Do(func() { e.store.Wake(0) }) // connects while the first submission is committed
	answers := make([]pawl.Submitted, len(subs))
	cmds, at := make([]command, 0, len(subs)), make([]int, 0, len(subs)) // at: the submission index of each command
	var def *workflow.Definition
	for i := range subs {
		cmd, err := e.newSubmit(&subs[i], def) // usually the definition of the previous submission
		if err != nil {
			answers[i].Err = err
			continue
		}
		def, cmds, at = cmd.def, append(cmds, cmd), append(at, i)
	}
	for len(cmds) > 0 {
		n := share(cmds)
		limits, err := e.limits.Get(ctx)
		for _, cmd := range cmds[:n] { // if there are quotas, claims enforce them
			cmd.(*submit).aim(limits, err == nil && limits.None())
		}
		errs, err := e.committer.do(ctx, cmds[:n]...)
		if err != nil {
			return nil, err
		}
		for k, cmd := range cmds[:n] {
			answers[at[k]] = cmd.(*submit).result(errs[k])
		}
		cmds, at = cmds[n:], at[n:]
	}
	return answers, nil
}

// share returns how many of the commands go into one commit, at least one.
func share(cmds []command) int {
	weight := 0
	for i, cmd := range cmds {
		if weight += weightOf(cmd); weight > maxGroup && i > 0 {
			return i
		}
	}
	return len(cmds)
}

// A submit makes one job.
type submit struct {
	e    *Engine
	sub  *pawl.Submission
	def  *workflow.Definition
	id   pawl.ID
	pool string // the concurrency key
	meta map[string]json.RawMessage
	key  store.IdempotencyKey
	hash [32]byte // of the request

	batchID  string // the request id of its batch, for the trail
	unrouted bool   // see creation

	limits *quota.Limits
	route  rowkey.Route // of its first steps, if it may be handed over
	offer  offer        // or nil

	answered pawl.ID
	receipt  pawl.Receipt
	refusal  error // if it is stored
}

// result returns the result of a submission, given the error of its commit.
func (s *submit) result(err error) pawl.Submitted {
	if err == nil {
		err = s.refusal
	}
	if err != nil {
		return pawl.Submitted{Replayed: s.receipt.Replayed, Err: orHeld(err, s.key)}
	}
	return pawl.Submitted{ID: s.answered, Receipt: s.receipt, Replayed: s.receipt.Replayed}
}

// newSubmit returns the command for a submission. def is a definition that may fit it, or
// nil.
func (e *Engine) newSubmit(sub *pawl.Submission, def *workflow.Definition) (s *submit, err error) {
	if def == nil || !bytes.Equal(sub.Definition, def.Canonical()) {
		if def, err = e.defs.Load(sub.Definition); err != nil {
			return nil, err
		}
	}
	if err := check(sub); err != nil {
		return nil, err
	}
	given := sub.Inputs
	if sub.Inputs, err = def.BindJSON(given); err != nil {
		return nil, err
	}
	s = &submit{e: e, sub: sub, def: def}
	if s.meta, err = givenMetadata(sub.Metadata); err != nil {
		return nil, err
	}
	if s.pool, err = concurrencyKey(def, sub.Inputs); err != nil {
		return nil, err
	}
	if sub.RequestID != "" {
		s.key = store.IdempotencyKey{Workspace: sub.Workspace, Key: sub.RequestID}
		s.hash = requestHash(sub, given)
	}
	s.renew()
	return s, nil
}

func check(sub *pawl.Submission) error {
	if sub.Workspace == "" {
		sub.Workspace = pawl.DefaultWorkspace
	}
	if len(sub.Inputs) > MaxInputs {
		return pawl.Errorf(pawl.Invalid, "inputs: %d bytes: at most %d are allowed", len(sub.Inputs), MaxInputs)
	}
	if sub.Priority < pawl.MinPriority || sub.Priority > pawl.MaxPriority {
		return pawl.Errorf(pawl.Invalid, "priority: %d: want %d to %d", sub.Priority, pawl.MinPriority, pawl.MaxPriority)
	}
	if sub.WorkerCount < 0 || sub.WorkerCount > workflow.MaxWorkers {
		return pawl.Errorf(pawl.Invalid, "worker_count: %d: want 1 to %d", sub.WorkerCount, workflow.MaxWorkers)
	}
	if sub.Depth != nil && (*sub.Depth < 0 || *sub.Depth > MaxDepth) {
		return pawl.Errorf(pawl.Invalid, "depth: %d: want 0 to %d", *sub.Depth, MaxDepth)
	}
	if sub.Parent != (pawl.ID{}) && sub.Private {
		return pawl.Errorf(pawl.Invalid, "parent_job_id: a job that only one process runs has no parent")
	}
	return checkRequestID(sub.RequestID)
}

// requestHash returns the hash of a submission, of which given are the inputs before they
// were bound to a definition.
func requestHash(sub *pawl.Submission, given json.RawMessage) [32]byte {
	family := familyParts(sub)
	if sub.Reference != "" {
		var inputs bytes.Buffer
		_ = json.Compact(&inputs, given) // they were bound, so they are JSON
		return hashOf(byPrincipal(sub.Actor, append([]string{submitEndpoint, sub.Reference, inputs.String(), sub.Description, sub.Dir, fmt.Sprint(sub.Private, sub.Priority)}, family...)...)...)
	}
	return hashOf(byPrincipal(sub.Actor, append([]string{submitEndpoint, string(sub.Definition), string(sub.Inputs), sub.Description, sub.Dir, fmt.Sprint(sub.Private, sub.Priority, sub.Version)}, family...)...)...)
}

// familyParts are the parts of the hash that only some submissions have.
func familyParts(sub *pawl.Submission) (parts []string) {
	if sub.Parent != (pawl.ID{}) || sub.Depth != nil || sub.WorkerCount != 0 {
		depth := -1
		if sub.Depth != nil {
			depth = *sub.Depth
		}
		parts = append(parts, fmt.Sprint(sub.Parent, depth, sub.WorkerCount))
	}
	if len(sub.Metadata) > 0 {
		var compact bytes.Buffer
		_ = json.Compact(&compact, sub.Metadata) // it was read as JSON
		parts = append(parts, compact.String())
	}
	return parts
}

// renew takes a new id.
func (s *submit) renew() { s.id = s.e.mint.next(s.e.cfg.Clock()) }

// aim sets whether the job may be handed over under these limits, and the route of the
// workers that may take it.
func (s *submit) aim(limits *quota.Limits, direct bool) {
	s.limits = limits
	if s.route = 0; direct && s.def.Concurrency == 0 && !s.sub.Private {
		s.route = firstRoute(s.def, &pawl.Job{Workspace: s.sub.Workspace})
	}
}

func (s *submit) weight() int {
	return 1 + len(s.sub.Inputs)/heavyBytes + len(s.def.Nodes)/heavyRows
}

func (s *submit) query(q *store.Query) {
	if s.key.Key != "" {
		q.Keys = append(q.Keys, s.key)
	}
	if s.sub.Parent != (pawl.ID{}) {
		q.Jobs = append(q.Jobs, s.sub.Parent.JobKey())
	}
	s.offerFor(q)
}

func (s *submit) late() *submit { return s }

func (s *submit) decide(t *tx) error {
	s.answered, s.receipt, s.refusal = pawl.ID{}, pawl.Receipt{}, nil // reset the result of an earlier try
	if s.key.Key == "" {
		return s.create(t)
	}
	if done, err := s.replay(t); done || err != nil {
		return err
	}
	return s.reply(t, s.create(t))
}

// reply makes the result of create the answer to the request.
func (s *submit) reply(t *tx, err error) error {
	answer := store.Answer{Endpoint: submitEndpoint, RequestHash: s.hash}
	if err != nil {
		if t.keep(s.key, answer, err) {
			s.refusal = err
			return nil
		}
		return err
	}
	answer.Status, answer.Body = receiptAnswer(&s.receipt)
	t.answer(s.key, answer)
	return nil
}

// create makes the job, and hands it over if it can.
func (s *submit) create(t *tx) error {
	route := s.route
	if s.e.limits.Changed(s.limits) {
		route = 0
	}
	err := s.make(t, route)
	if err == nil || route == 0 {
		return err
	}
	// Either the hand-over failed, or the job would fail in any case: make it without a
	// hand-over.
	t.undo()
	t.open()
	return s.make(t, 0)
}

// make makes the job, and hands it over if there is a slot for the route.
func (s *submit) make(t *tx, route rowkey.Route) error {
	parent, err := s.parent(t)
	if err != nil {
		return err
	}
	err = s.e.createJob(t, &creation{
		id: s.id, def: s.def, workspace: s.sub.Workspace, version: s.sub.Version, inputs: s.sub.Inputs, description: s.sub.Description,
		metadata: origin{Dir: s.sub.Dir, Trace: validTrace(s.sub.Traceparent), Given: s.meta}.json(), private: s.private(), parent: parent, workers: s.sub.WorkerCount, priority: s.sub.Priority, key: s.pool, unrouted: s.unrouted,
		note: decide.Note{Actor: s.sub.Actor, RequestID: cmp.Or(s.sub.RequestID, s.batchID)},
	})
	if err != nil {
		return err
	}
	j := t.job(s.id.JobKey())
	own := isLarge(j)
	if o := t.findSlot(&s.e.offers, s.offer, route, own); o != nil {
		if err := s.e.handOver(t, o, j, s.def); err != nil {
			return err
		}
	} else if route != 0 && !own {
		t.unserved++
	}
	s.answered, s.receipt = s.id, t.receipt(store.JobEntity(s.id.JobKey()), s.sub.Actor)
	return nil
}

// parent returns the job below which the new one is, or nil.
func (s *submit) parent(t *tx) (*pawl.Job, error) {
	depth := 0
	var p *pawl.Job
	if id := s.sub.Parent; id != (pawl.ID{}) {
		p = t.job(id.JobKey())
		public := id.Public(pawl.JobPrefix)
		switch {
		case p == nil || p.ID != id || p.Workspace != s.sub.Workspace || p.Private != 0:
			return nil, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("parent_job_id: there is no job %s that others of workspace %s can be below", public, s.sub.Workspace)}
		case p.Ending != "" || lifecycle.Job.Ended(p.State):
			return nil, &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("parent_job_id: job %s is %s", public, cmp.Or(p.Ending, p.State)), Hint: "submit the job without a parent"}
		case p.Depth >= MaxDepth:
			return nil, pawl.Errorf(pawl.Invalid, "parent_job_id: job %s is at depth %d, and %d is the deepest", public, p.Depth, MaxDepth)
		}
		depth = p.Depth + 1
		p.Children, t.jobs[p.Key()].dirty = true, true
	}
	if want := s.sub.Depth; want != nil && *want != depth {
		return nil, pawl.Errorf(pawl.Invalid, "depth: %d: the job is at depth %d: want that, or leave it out", *want, depth)
	}
	return p, nil
}

// replay sets the result from the response stored under the request's key.
func (s *submit) replay(t *tx) (done bool, err error) {
	body, done, err := t.replay(s.key, s.hash)
	s.receipt.Replayed = done
	if !done || err != nil {
		return done, err
	}
	if s.receipt, err = receiptOf(body); err == nil {
		s.answered, err = pawl.ParseID(pawl.JobPrefix, s.receipt.ID)
	}
	return true, err
}

func (s *submit) private() rowkey.Job {
	if s.sub.Private {
		return s.id.JobKey()
	}
	return 0
}
