package engine

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/workflow"
)

// Limits of a submission.
const (
	MaxInputs      = 1 << 20          // bytes of a job's inputs
	MaxRequestID   = 200              // bytes of an idempotency key
	IdempotencyTTL = time.Hour        // how long an answer is replayed (J8)
	submitEndpoint = "POST /api/jobs" // what the key of a submission belongs to
)

// Submit makes jobs, many in one commit, each with its own answer: one that is
// refused harms none of the others. Submitting with a request id that was used
// for the same submission answers the job that exists (J8).
func (e *Engine) Submit(ctx context.Context, subs ...pawl.Submission) ([]pawl.Submitted, error) {
	answers := make([]pawl.Submitted, len(subs))
	var cmds []command
	var at []int
	for i := range subs {
		cmd, err := e.newSubmit(&subs[i])
		if err != nil {
			answers[i].Err = err
			continue
		}
		cmds, at = append(cmds, cmd), append(at, i)
	}
	for len(cmds) > 0 {
		n := share(cmds)
		errs, err := e.committer.do(ctx, cmds[:n]...)
		if err != nil {
			return nil, err
		}
		for k, cmd := range cmds[:n] {
			s := cmd.(*submit)
			answers[at[k]] = pawl.Submitted{ID: s.answered, Replayed: s.replayed, Err: errs[k]}
			if errs[k] == nil {
				e.defs.markStored(s.definition)
			}
		}
		cmds, at = cmds[n:], at[n:]
	}
	return answers, nil
}

// share answers how many of the commands go into one commit, at least one.
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
	e          *Engine
	sub        *pawl.Submission
	def        *workflow.Definition
	definition int64
	id         pawl.ID
	key        store.IdempotencyKey
	hash       [32]byte // of the request

	answered pawl.ID
	replayed bool
}

func (e *Engine) newSubmit(sub *pawl.Submission) (*submit, error) {
	def, err := e.defs.load(sub.Definition)
	if err != nil {
		return nil, err
	}
	if err := check(sub); err != nil {
		return nil, err
	}
	s := &submit{e: e, sub: sub, def: def, definition: definitionKey(def.Hash())}
	if sub.RequestID != "" {
		s.key = store.IdempotencyKey{Workspace: sub.Workspace, Key: sub.RequestID}
		s.hash = requestHash(sub)
	}
	s.renew()
	return s, nil
}

func check(sub *pawl.Submission) error {
	if sub.Workspace == "" {
		sub.Workspace = pawl.DefaultWorkspace
	}
	if len(sub.Inputs) == 0 {
		sub.Inputs = json.RawMessage("{}")
	}
	if len(sub.Inputs) > MaxInputs {
		return pawl.Errorf(pawl.Invalid, "inputs: %d bytes: at most %d are allowed", len(sub.Inputs), MaxInputs)
	}
	if len(sub.RequestID) > MaxRequestID {
		return pawl.Errorf(pawl.Invalid, "request_id: %d bytes: at most %d are allowed", len(sub.RequestID), MaxRequestID)
	}
	return nil
}

func requestHash(sub *pawl.Submission) [32]byte {
	h := sha256.New()
	for _, part := range []string{submitEndpoint, string(sub.Definition), string(sub.Inputs), sub.Description, sub.Dir, fmt.Sprint(sub.Private, sub.Priority)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return [32]byte(h.Sum(nil))
}

// renew takes a new id.
func (s *submit) renew() { s.id = s.e.mint.next(s.e.cfg.Clock()) }

func (s *submit) weight() int {
	return 1 + len(s.sub.Inputs)/heavyBytes + len(s.def.Nodes)/heavyRows
}

func (s *submit) query(q *store.Query) {
	if s.key.Key != "" {
		q.Keys = append(q.Keys, s.key)
	}
}

func (s *submit) decide(t *tx) error {
	s.replayed = false // whatever an earlier try has decided
	if s.key.Key != "" {
		if done, err := s.replay(t); done || err != nil {
			return err
		}
	}
	job := s.job()
	if err := t.makeJob(job, workflow.Note{Actor: s.sub.Actor, RequestID: s.sub.RequestID}); err != nil {
		return err
	}
	if !s.e.defs.isStored(s.definition) {
		t.definitions = append(t.definitions, &pawl.Definition{Key: s.definition, Hash: s.def.Hash(), Name: s.def.Name, Source: s.def.Canonical(), CreatedAt: t.now})
	}
	if err := t.moveJob(job, lifecycle.JobValidate, workflow.Note{}); err != nil {
		return err
	}
	for n := range s.def.Nodes {
		t.makeStep(job, pawl.MakeOrd(n+1, 0)).Unmet = len(s.def.Nodes[n].Needs)
	}
	s.answered = s.id
	if s.key.Key != "" {
		t.answer(s.key, &store.Answer{Endpoint: submitEndpoint, RequestHash: s.hash, Status: 201,
			Body: []byte(s.id.Public(pawl.JobPrefix)), ExpiresAt: t.now + IdempotencyTTL.Microseconds()})
	}
	return nil
}

// replay answers from what is stored under the request's key, in the database
// or earlier in this commit.
func (s *submit) replay(t *tx) (done bool, err error) {
	a := t.answers[s.key]
	if a == nil {
		a = t.facts.Keys[s.key]
	}
	if a == nil || a.New {
		return false, nil
	}
	if a.RequestHash != s.hash {
		return false, pawl.Errorf(pawl.Invalid, "request_id %q was used for another request", s.key.Key)
	}
	s.answered, err = pawl.ParseID(pawl.JobPrefix, string(a.Body))
	s.replayed = true
	return true, err
}

// job answers the new job as its creation leaves it to the table.
func (s *submit) job() *pawl.Job {
	j := &pawl.Job{
		ID: s.id, Workspace: s.sub.Workspace, Definition: s.definition, Workflow: s.def.Name,
		Description: s.sub.Description, WorkerCount: s.def.Workers, Private: s.sub.Private, Priority: s.sub.Priority,
		Open: len(s.def.Nodes), Inputs: s.sub.Inputs, Metadata: s.metadata(),
	}
	j.Route = firstRoute(s.def, j)
	return j
}

func (s *submit) metadata() json.RawMessage {
	if s.sub.Dir == "" {
		return nil
	}
	b, err := json.Marshal(map[string]string{"dir": s.sub.Dir})
	if err != nil {
		return nil
	}
	return b
}

// firstRoute answers the route that all first steps of the job share, so that a
// worker that serves it may start the job; or 0.
func firstRoute(def *workflow.Definition, j *pawl.Job) int64 {
	route := int64(0)
	for _, n := range def.Roots() {
		r := def.Route(j, n)
		if route != 0 && r != route {
			return 0
		}
		route = r
	}
	return route
}
