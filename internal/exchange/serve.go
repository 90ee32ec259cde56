package exchange

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// An Engine is what a server needs of its engine.
type Engine interface {
	link.Remote
	StepInput(ctx context.Context, a *link.Assignment) (*link.StepInput, *pawl.Failure, error)
}

// Serve answers an exchange. room is false if the server has no room for one that waits.
func Serve(ctx context.Context, e Engine, worker pawl.ID, r *Request, room bool) (*Answer, error) {
	v := link.Visit{Worker: worker, Turn: r.Turn, Free: r.Free, Compare: r.Holding != nil}
	var err error
	if v.Reports, err = reports(worker, r.Reports); err != nil {
		return nil, err
	}
	defer reportedRoom.give(v.Reports) // the engine is done with them
	if v.Holding, err = stops("holding", r.Holding); err != nil {
		return nil, err
	}
	if v.Wait = MaxWait; r.WaitMS != nil {
		v.Wait = time.Duration(*r.WaitMS) * time.Millisecond
	}
	if !room {
		v.Wait = 0
	}
	got, err := e.Visit(ctx, v)
	if err != nil {
		return nil, err
	}
	a := &Answer{State: string(got.State), Steps: stepRoom.take(len(got.Assigned)), Results: make([]string, 0, len(got.Reported)), Stops: named(r.Holding, v.Holding, got.Stops), Gone: named(r.Holding, v.Holding, got.Gone)}
	for _, done := range got.Reported {
		a.Results = append(a.Results, string(done.Result))
	}
	if err := a.deliver(ctx, e, worker, got); err != nil {
		return nil, err
	}
	switch {
	case ctx.Err() != nil: // the server stops
		a.NextMS = 200 + rand.Int64N(800)
	case !room && len(a.Steps) == 0:
		a.NextMS = 1000
	}
	return a, nil
}

// deliver adds the steps that were assigned. Those that cannot be run, or need not, are
// reported here.
func (a *Answer) deliver(ctx context.Context, e Engine, worker pawl.ID, v *link.Visited) error {
	reading := context.WithoutCancel(ctx) // the steps are claimed
	var own []link.Report
	bytes := 0
	for i := range v.Assigned {
		if bytes > maxDelivered {
			a.More = true
			break
		}
		assigned := &v.Assigned[i]
		input, failure, err := e.StepInput(reading, assigned)
		switch {
		case err != nil && pawl.KindOf(err) == pawl.Unavailable:
			return err // the worker compares with its next exchange
		case err != nil:
			failure = &pawl.Failure{Class: "step_input", Message: "what the step needs could not be read: " + err.Error()}
			fallthrough
		case failure != nil:
			own = append(own, ended(worker, assigned, decide.Report{Event: failEvent(failure), Failure: failure}))
		case input.Reused != nil:
			own = append(own, ended(worker, assigned, decide.Report{Event: lifecycle.StepSuccess, Output: input.Reused, Note: decide.Note{Reason: decide.Reused}}))
		default:
			s := stepOf(assigned, input)
			s.Redelivered = i < v.Again
			bytes += len(s.Input) + len(s.Work.With) + len(s.Work.Run)
			a.Steps = append(a.Steps, s)
		}
	}
	if len(own) == 0 {
		return nil
	}
	_, err := e.ReportSteps(reading, own)
	return err
}

func failEvent(f *pawl.Failure) machine.Event {
	if f.Permanent {
		return lifecycle.StepFailPermanently
	}
	return lifecycle.StepFail
}

func ended(worker pawl.ID, a *link.Assignment, r decide.Report) link.Report {
	return link.Report{Step: a.Step.StepKey, Claim: a.Step.Claims, Actor: worker.Public(pawl.WorkerPrefix), By: worker.WorkerKey(), Report: r}
}

// Beat answers a heartbeat.
func Beat(ctx context.Context, e link.Remote, worker pawl.ID, h *Heartbeat) (*Said, error) {
	held, err := stops("holding", h.Holding)
	if err != nil {
		return nil, err
	}
	if h.Holding == nil {
		held = nil
	}
	said, silence, err := e.BeatFor(ctx, worker, held)
	if err != nil {
		return nil, err
	}
	if lifecycle.Worker.Ended(said.State) {
		return nil, link.ErrWorkerEnded
	}
	answer := &Said{State: string(said.State), Stops: []Claim{}, Gone: named(h.Holding, held, said.Taken), NextMS: (silence / 3).Milliseconds()}
	for _, stop := range said.Stops {
		id, err := e.StepID(ctx, stop.StepKey)
		if err != nil {
			return nil, err
		}
		answer.Stops = append(answer.Stops, Of(id, stop))
	}
	return answer, nil
}

// One reports a single outcome, without an exchange.
func One(ctx context.Context, e link.Remote, worker pawl.ID, r *Report) (link.Reported, error) {
	l, err := r.report(worker, worker.Public(pawl.WorkerPrefix))
	if err != nil {
		return link.Reported{}, pawl.Errorf(pawl.Invalid, "body.%v", err)
	}
	done, err := e.ReportSteps(ctx, []link.Report{l})
	if err != nil {
		return link.Reported{}, err
	}
	return done[0], nil
}
