package engine

import (
	"context"
	"net/http"
	"runtime/debug"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// errApart is the outcome of submissions that are too many for one commit.
var errApart = &pawl.Error{Kind: pawl.Unavailable, Message: "the jobs of the batch are too many for one commit"}

// SubmitOnce makes jobs in one commit, together with one response to all of them that is stored under
// the request id of the batch. A repeated request gets the stored response, and makes no job (J8).
//
// done has the outcomes so far: a submission that has an error is refused already. If the others are
// too heavy for one commit, those behind its limit get an error of kind Unavailable and are not made.
// The outcomes are for the function Response of the batch; the caller reads them only if SubmitOnce
// returns no error.
func (e *Engine) SubmitOnce(ctx context.Context, b *link.Batch, subs []pawl.Submission, done []pawl.Submitted) (response []byte, again bool, err error) {
	r, err := e.newRequest(b.Change, b.Workspace, b.Endpoint, b.Asked)
	if err == nil && r == nil {
		err = pawl.Errorf(pawl.Invalid, "request_id: a batch that is submitted once needs one")
	}
	if err != nil {
		return nil, false, err
	}
	all := &batch{request: r, of: b, done: done}
	cmds := e.batched(all, subs)
	limits, err := e.limits.Get(ctx)
	for _, cmd := range cmds { // if there are quotas, claims enforce them
		cmd.(*batched).aim(limits, err == nil && limits.None())
	}
	cmds = append(cmds, &batchEnd{all, len(cmds) == 0})
	errs, err := e.committer.together(ctx, cmds, nil)
	if err != nil {
		return nil, false, err
	}
	// The others are refused with the last one, or by themselves.
	if err := errs[len(errs)-1]; err != nil {
		return nil, false, orHeld(err, r.key)
	}
	return all.response, all.again, nil
}

// batched returns the commands for the submissions that are not refused, as many as one commit takes.
func (e *Engine) batched(all *batch, subs []pawl.Submission) (cmds []command) {
	var def *workflow.Definition
	weight := 1 // of the end of the batch
	for i := range subs {
		to := &all.done[i]
		if to.Err != nil {
			continue
		}
		cmd, err := e.newSubmit(&subs[i], def) // usually the definition of the previous submission
		if err != nil {
			to.Err = err
			continue
		}
		def, cmd.batchID = cmd.def, all.key.Key
		switch weight += cmd.weight(); {
		case cmd.key == all.key:
			to.Err = link.KeyReused(cmd.key.Key)
		case weight > maxGroup:
			to.Err = errApart
		default:
			cmds = append(cmds, &batched{cmd, all, i, len(cmds) == 0})
		}
	}
	return cmds
}

// A batch is what the commands of one batch share. Its first command looks up the request id, and its
// last one stores the response.
type batch struct {
	*request
	of   *link.Batch
	done []pawl.Submitted

	over     bool   // there is a response, or an error
	err      error  // why there is none
	response []byte // as it is stored
	again    bool   // it was stored before
}

// begin looks up the request id.
func (a *batch) begin(t *tx) {
	body, done, err := t.replay(a.key, a.hash)
	a.over, a.err, a.response, a.again = done || err != nil, err, body, done
}

// A batched submission makes one job of a batch.
type batched struct {
	*submit
	all   *batch
	at    int
	first bool // it is the first command of the batch
}

func (s *batched) query(q *store.Query) {
	if s.first {
		q.Keys = append(q.Keys, s.all.key)
	}
	s.submit.query(q)
}

func (s *batched) decide(t *tx) (err error) {
	if s.first {
		s.all.begin(t)
	}
	if s.all.over {
		return s.all.err
	}
	to := &s.all.done[s.at]
	to.Err = errUndecided
	if err = s.submit.decide(t); t.fault != nil {
		err = t.fault
	} else if err == nil {
		err = t.uncounted()
	}
	*to = s.result(err)
	return err
}

// errUndecided is the outcome of a decision that has panicked.
var errUndecided = &pawl.Error{Kind: pawl.Internal, Message: "the submission was not decided"}

// A batchEnd stores the response to a batch.
type batchEnd struct {
	*batch
	first bool // it is the only command of the batch
}

func (c *batchEnd) query(q *store.Query) {
	if c.first {
		q.Keys = append(q.Keys, c.key)
	}
}

// decide must not fail alone: then the jobs would be made and the response would not be stored.
func (c *batchEnd) decide(t *tx) error {
	defer func() {
		if p := recover(); p != nil {
			t.broken = pawl.Errorf(pawl.Internal, "the response to a batch panicked: %v\n%s", p, debug.Stack())
		}
	}()
	if c.first {
		c.begin(t)
	}
	if c.over {
		return c.err
	}
	c.response = c.of.Response(c.done)
	t.answer(c.key, store.Answer{Endpoint: c.endpoint, RequestHash: c.hash, Status: http.StatusOK, Body: c.response})
	return nil
}
