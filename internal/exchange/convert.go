package exchange

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Of returns a claim as messages have it.
func Of(id pawl.ID, c link.Stop) Claim { return Claim{id.Public(pawl.StepPrefix), c.Claim} }

func stops(where string, claims []Claim) ([]link.Stop, error) {
	all := make([]link.Stop, len(claims))
	for i, c := range claims {
		id, err := stepID("step_id", c.StepID)
		if err != nil {
			return nil, pawl.Errorf(pawl.Invalid, "%s[%d].%v", where, i, err)
		}
		all[i] = link.Stop{StepKey: id.StepKey(), Claim: c.Claim}
	}
	return all, nil
}

func stepID(where, text string) (pawl.ID, error) {
	id, err := pawl.ParseID(pawl.StepPrefix, text)
	if err != nil {
		return id, &pawl.Error{Kind: pawl.Invalid, Message: where + ": " + err.Error()}
	}
	return id, nil
}

// named returns those of the claims that are in a list, as the worker has named them.
func named(claims []Claim, keys, list []link.Stop) []Claim {
	in := make(map[link.Stop]bool, len(list))
	for _, s := range list {
		in[s] = true
	}
	found := []Claim{}
	for i, k := range keys {
		if in[k] {
			found = append(found, claims[i])
		}
	}
	return found
}

// reports returns the reports of a worker for an engine.
func reports(worker pawl.ID, list []Report) ([]link.Report, error) {
	all, actor := reportedRoom.take(len(list)), worker.Public(pawl.WorkerPrefix)
	for i := range list {
		r, err := list[i].report(worker, actor)
		if err != nil {
			return nil, pawl.Errorf(pawl.Invalid, "reports[%d].%v", i, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// report returns a report for an engine, by a worker whose public id is actor. Errors begin with the
// name of the member.
func (r *Report) report(worker pawl.ID, actor string) (link.Report, error) {
	id, err := stepID("step_id", r.StepID)
	if err != nil {
		return link.Report{}, err
	}
	if len(r.Output) > MaxOutput {
		return link.Report{}, pawl.Errorf(pawl.Invalid, "output: it has %d bytes: want at most %d", len(r.Output), MaxOutput)
	}
	l := link.Report{Step: id.StepKey(), Claim: r.Claim.Claim, Actor: actor, By: worker.WorkerKey()}
	if l.Event = events[r.Outcome]; l.Event == lifecycle.StepSuccess {
		l.Output = decide.OrNull(r.Output)
		return l, nil
	}
	l.Failure = r.Error.failure()
	switch {
	case l.Event == lifecycle.StepFail && l.Failure.Permanent:
		l.Event = lifecycle.StepFailPermanently
	case l.Event == lifecycle.StepInterrupt && r.AfterMS > 0:
		l.Snooze, l.Failure = time.Duration(r.AfterMS)*time.Millisecond, nil
	}
	return l, nil
}

// events are the events of outcomes.
var events = map[string]machine.Event{
	"complete": lifecycle.StepSuccess, "fail": lifecycle.StepFail, "timeout": lifecycle.StepTimeout,
	"cancel": lifecycle.StepCancel, "release": lifecycle.StepInterrupt,
}

func (e *Error) failure() *pawl.Failure {
	if e == nil {
		e = &Error{Message: "the worker has given no reason"}
	}
	return &pawl.Failure{Class: cmp.Or(e.Class, "error"), Message: e.Message, Permanent: e.Permanent,
		Delay: pawl.Duration(time.Duration(e.RetryAfterMS) * time.Millisecond), Metadata: e.Metadata}
}

// ReportOf returns a report of an engine's, which is of a claim, as a message. An output, or a message, that is
// larger than a server takes is a failure of the step, or cut off.
func ReportOf(c Claim, l *link.Report) Report {
	r := Report{Claim: c, Output: l.Output, AfterMS: l.Snooze.Milliseconds()}
	f := l.Failure
	switch l.Event {
	case lifecycle.StepSuccess:
		r.Outcome = "complete"
		if len(l.Output) > MaxOutput {
			r.Outcome, r.Output = "fail", nil
			f = pawl.TooLarge(fmt.Sprintf("the output has %d bytes", len(l.Output)), MaxOutput, "put out less")
		}
	case lifecycle.StepTimeout:
		r.Outcome = "timeout"
	case lifecycle.StepCancel:
		r.Outcome = "cancel"
	case lifecycle.StepInterrupt:
		r.Outcome = "release"
	default:
		r.Outcome = "fail"
	}
	if f != nil {
		r.Error = &Error{Class: f.Class, Message: cut(f.Message, MaxMessage), Permanent: f.Permanent, RetryAfterMS: time.Duration(f.Delay).Milliseconds(), Metadata: f.Metadata}
		if !json.Valid(f.Metadata) {
			r.Error.Metadata = nil
		}
	}
	return r
}

// cut returns at most n characters of a text.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	all := []rune(text)
	return string(all[:min(n, len(all))])
}

// stepOf returns a step as it is delivered.
func stepOf(a *link.Assignment, b *link.StepInput) Step {
	n, w := b.Node, b.Work
	limit := n.Timeout
	if limit == 0 {
		limit = workflow.DefaultTimeout
	}
	s := Step{Claim: Claim{b.StepID, a.Step.Claims}, JobID: b.JobID, Key: b.Key, Workflow: b.Workflow, Attempt: a.Step.Attempts,
		Queue: n.Queue, Handler: n.Handler, Input: b.Input(), OutputMode: string(n.Output), TimeoutMS: limit.Milliseconds(),
		Permanent: n.Retry.PermanentExitCodes, Isolation: string(n.Isolation), Dir: b.Dir, Traceparent: b.Traceparent,
		Work: Work{Kind: string(w.Kind), Command: w.Argv, Run: w.Script, Env: w.Env, Dir: w.Dir, With: w.With}}
	if h := w.HTTP; h != nil {
		s.Work.HTTP = &HTTP{Method: h.Method, URL: h.URL, Headers: h.Headers, Body: h.Body, Expect: h.Expect}
	}
	return s
}

// StepInput returns what a worker needs to run a step that was delivered. It shares the node and the work of
// like, that of an earlier step, if they are the same: the steps of a worker are often alike.
func (s *Step) StepInput(like *link.StepInput) link.StepInput {
	input := s.Input // without the rest of the step
	return link.StepInput{Work: s.work(like.Work), Input: func() json.RawMessage { return bytes.Clone(input) }, JobID: s.JobID, StepID: s.StepID,
		Key: s.Key, Workflow: s.Workflow, Dir: s.Dir, Node: s.node(like.Node), Traceparent: s.Traceparent}
}

// work returns what the step does. What has a map is not shared: if a task wrote to it while it is compared,
// the process would end.
func (s *Step) work(like *workflow.Work) *workflow.Work {
	w := workflow.Work{Kind: workflow.Kind(s.Work.Kind), Argv: s.Work.Command, Script: s.Work.Run, Env: s.Work.Env, Dir: s.Work.Dir, With: s.Work.With}
	if w.Kind.Encodes() {
		w.Handler = s.Handler
	}
	if h := s.Work.HTTP; h != nil {
		w.HTTP = &workflow.Request{Method: h.Method, URL: h.URL, Headers: h.Headers, Body: h.Body, Expect: h.Expect}
	}
	if like != nil && like.Kind == w.Kind && like.Handler == w.Handler && like.Script == w.Script && like.Dir == w.Dir && like.HTTP == nil && w.HTTP == nil &&
		len(like.Env)+len(w.Env) == 0 && slices.Equal(like.Argv, w.Argv) && bytes.Equal(like.With, w.With) {
		return like
	}
	made := w
	return &made
}

// node returns what of a node is delivered.
func (s *Step) node(like *workflow.Node) *workflow.Node {
	kind, limit, output, isolation := workflow.Kind(s.Work.Kind), time.Duration(s.TimeoutMS)*time.Millisecond, workflow.OutputMode(s.OutputMode), workflow.Isolation(s.Isolation)
	if like != nil && like.Kind == kind && like.Handler == s.Handler && like.Queue == s.Queue && like.Timeout == limit && like.Output == output &&
		like.Isolation == isolation && slices.Equal(like.Retry.PermanentExitCodes, s.Permanent) {
		return like
	}
	n := &workflow.Node{Kind: kind, Handler: s.Handler, Queue: s.Queue, Timeout: limit, Output: output, Isolation: isolation}
	n.Retry.PermanentExitCodes = s.Permanent
	return n
}

// Worker returns the record of a new worker, and its predecessor.
func (r *Registration) Worker() (link.Registration, error) {
	silence := time.Duration(r.SilenceMS) * time.Millisecond
	if silence == 0 {
		silence = health.Silence
	}
	if silence < health.MinSilence || silence > health.MaxSilence {
		return link.Registration{}, pawl.Errorf(pawl.Invalid, "silence_ms: %d: want %d to %d, or 0 for %d", r.SilenceMS, health.MinSilence.Milliseconds(), health.MaxSilence.Milliseconds(), health.Silence.Milliseconds())
	}
	w := pawl.Worker{Workspace: cmp.Or(r.Workspace, pawl.DefaultWorkspace), Name: cmp.Or(r.Name, "remote"), Host: r.Host, PID: r.PID,
		Capacity: cmp.Or(r.Capacity, 1), Silence: silence,
		Metadata: link.Declaration{Isolation: workflow.Isolation(r.Isolation), Silence: pawl.Duration(silence)}.Metadata()}
	queues, handlers := r.Queues, r.Handlers
	if len(queues) == 0 {
		queues = []string{workflow.DefaultQueue}
	}
	if len(handlers) == 0 {
		handlers = []string{string(workflow.KindCommand), string(workflow.KindRun)}
	}
	for i, queue := range queues {
		for k, handler := range handlers {
			if queue == "" || handler == "" {
				return link.Registration{}, pawl.Errorf(pawl.Invalid, "queues[%d], handlers[%d]: want names that are not empty", i, k)
			}
			w.Routes = append(w.Routes, pawl.Route(w.Workspace, queue, handler, 0))
			w.Handlers = append(w.Handlers, queue+"/"+handler)
		}
	}
	before, err := r.Predecessor.worker()
	return link.Registration{Worker: w, Before: before}, err
}

func (p *Predecessor) worker() (*link.Predecessor, error) {
	if p == nil {
		return nil, nil
	}
	id, err := pawl.ParseID(pawl.WorkerPrefix, p.WorkerID)
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "predecessor.worker_id: " + err.Error()}
	}
	held, err := stops("predecessor.holding", p.Holding)
	if err != nil {
		return nil, err
	}
	before := &link.Predecessor{Worker: id.WorkerKey()}
	for _, s := range held {
		before.Claims = append(before.Claims, link.Claimed{StepKey: s.StepKey, Claims: s.Claim})
	}
	return before, nil
}
