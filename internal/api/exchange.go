package api

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/exchange"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

func (s *Service) exchangeOperations() []operation {
	const tag = "exchange"
	talk := []Slug{SlugNotFound, SlugConflict, SlugTurn, SlugWorkerEnded}
	once := []Slug{SlugNotFound, SlugConflict, SlugStaleClaim}
	return []operation{
		{id: "register-worker", method: post, path: "/api/workers", role: Worker, repeat: replayed, good: []int{201}, errors: []Slug{SlugConflict, SlugRequestInProgress, SlugKeyReused}, tag: tag,
			summary: "Register a worker", detail: "Makes a worker that exchanges with this server, or another one on the same database.", add: does(s, s.registerWorker)},
		{id: "exchange", method: post, path: "/api/workers/{id}/exchange", role: Worker, repeat: fenced, errors: talk, tag: tag,
			summary: "Report steps and claim others", detail: "Stores outcomes and claims steps in one commit. If there is nothing to return it waits for steps.", add: s.exchanges()},
		{id: "claim-steps", method: post, path: "/api/workers/{id}/claim", role: Worker, repeat: fenced, errors: talk, tag: tag,
			summary: "Claim steps", detail: "An exchange without reports.", add: s.exchanges()},
		{id: "heartbeat", method: post, path: "/api/workers/{id}/heartbeat", role: Worker, repeat: settles, errors: []Slug{SlugNotFound, SlugConflict, SlugWorkerEnded}, tag: tag,
			summary: "Say that a worker lives", detail: "Only this counts as a sign of life: an exchange that waits does not. It returns what the worker has to stop.", add: does(s, s.heartbeat)},
		{id: "start-worker", method: post, path: "/api/workers/{id}/start", role: Worker, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Start a worker", detail: "Records that a worker has a task. The first claim does the same.", add: does(s, s.actWorker(lifecycle.WorkerStartTask))},
		{id: "pause-self", method: post, path: "/api/workers/{id}/pause", role: Worker, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Pause oneself", detail: "A worker pauses itself, such as for lack of memory.", add: does(s, s.actWorker(lifecycle.WorkerPause))},
		{id: "resume-self", method: post, path: "/api/workers/{id}/resume", role: Worker, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Resume oneself", detail: "A worker ends its own pause.", add: does(s, s.actWorker(lifecycle.WorkerResume))},
		{id: "end-worker", method: post, path: "/api/workers/{id}/complete", role: Worker, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "End a worker that has drained", detail: "Ends a worker as COMPLETED, or as TERMINATED if it has never had a task.", add: does(s, s.actWorker(lifecycle.WorkerCompleteTasks))},
		{id: "fail-worker", method: post, path: "/api/workers/{id}/fail", role: Worker, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "End a worker that cannot go on", detail: "Ends a worker as FAILED. Its steps go to others.", add: does(s, s.actWorker(lifecycle.WorkerErrorUnrecoverable))},
		{id: "get-worker-end", method: get, path: "/api/workers/{id}/end", role: Worker, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Say who has ended a worker", detail: "Says who made the last move of a worker, why, and whether an operator has ended it.", add: does(s, s.workerEnd)},
		{id: "find-ended-jobs", method: post, path: "/api/jobs/ended", role: Worker, repeat: reads, tag: tag,
			summary: "Say which jobs have ended", detail: "Of the given jobs, those that will not run again: they have ended, or do not exist.", add: does(s, s.endedJobs)},
		{id: "complete-step", method: post, path: "/api/steps/{id}/complete", role: Worker, repeat: fenced, errors: once, tag: tag,
			summary: "Complete a step", detail: "Reports the success of a claim without an exchange.", add: does(s, s.completeStep)},
		{id: "fail-step", method: post, path: "/api/steps/{id}/fail", role: Worker, repeat: fenced, errors: once, tag: tag,
			summary: "Fail a step", detail: "Reports the failure of a claim without an exchange.", add: does(s, s.failStep)},
		{id: "release-step", method: post, path: "/api/steps/{id}/release", role: Worker, repeat: fenced, errors: once, tag: tag,
			summary: "Give a step back", detail: "Gives a claim back: the step is pending again, and has lost no attempt.", add: does(s, s.releaseStep)},
		{id: "append-log", method: post, path: "/api/steps/{id}/log", role: Worker, repeat: fenced, errors: []Slug{SlugNotFound, SlugOffset}, tag: tag,
			summary: "Append to the log of a step", detail: "Stores bytes of a stream of a claim, at their offset. An offset that is not the end of what is stored is 409, with the right one; bytes that are stored already are ignored.",
			add: does(s, s.appendLog)},
	}
}

func (s *Service) registerWorker(ctx context.Context, in *struct {
	Key
	Body *struct {
		exchange.Registration
		Note
	} `required:"false"`
}) (*receipt, error) {
	b := given(in.Body)
	c, err := in.change(ctx, b.Note)
	if err != nil {
		return nil, err
	}
	r, err := b.Worker()
	if err != nil {
		return nil, err
	}
	r.Actor = c.Actor
	return receiptOf(s.Engine.Enlist(ctx, r, c))
}

func (s *Service) exchange(ctx context.Context, in *exchanging) (*body[exchange.Answer], error) {
	id, err := in.worker()
	if err != nil {
		return nil, err
	}
	room := true
	if in.Body.WaitMS == nil || *in.Body.WaitMS > 0 {
		select {
		case s.polling <- struct{}{}:
			defer func() { <-s.polling }()
		default:
			room = false
		}
	}
	a, err := exchange.Serve(ctx, s.Engine, id, &in.Body, room)
	if err != nil {
		return nil, err
	}
	return &body[exchange.Answer]{*a}, nil
}

func (s *Service) heartbeat(ctx context.Context, in *struct {
	WorkerPath
	Body *exchange.Heartbeat `required:"false"`
}) (*body[exchange.Said], error) {
	id, err := in.worker()
	if err != nil {
		return nil, err
	}
	h := given(in.Body)
	said, err := exchange.Beat(ctx, s.Engine, id, &h)
	if err != nil {
		return nil, err
	}
	return &body[exchange.Said]{*said}, nil
}

// actWorker applies an event for which the worker itself asks.
func (s *Service) actWorker(event machine.Event) func(context.Context, *struct {
	WorkerPath
	Command
}) (*receipt, error) {
	return func(ctx context.Context, in *struct {
		WorkerPath
		Command
	}) (*receipt, error) {
		id, err := in.worker()
		if err != nil {
			return nil, err
		}
		c, err := in.change(ctx)
		if err != nil {
			return nil, err
		}
		c.Actor = id.Public(pawl.WorkerPrefix)
		return receiptOf(s.Engine.ActWorker(ctx, id, event, c))
	}
}

// A workerEnd says who has ended a worker.
type workerEnd struct {
	Actor    string `json:"actor"`
	Reason   string `json:"reason"`
	Operator bool   `json:"operator" doc:"An operator has ended it, and neither the worker itself nor the engine, which takes it for dead when it is silent."`
}

func (s *Service) workerEnd(ctx context.Context, in *struct{ WorkerPath }) (*body[workerEnd], error) {
	id, err := in.worker()
	if err != nil {
		return nil, err
	}
	end, err := s.Engine.EndOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return &body[workerEnd]{workerEnd{end.Actor, end.Reason, end.Operator}}, nil
}

func (s *Service) endedJobs(ctx context.Context, in *struct {
	Body struct {
		Jobs []string `json:"jobs" maxItems:"500" doc:"Ids of jobs."`
	}
}) (*body[page[string]], error) {
	jobs := make([]pawl.ID, 0, len(in.Body.Jobs))
	for _, text := range in.Body.Jobs {
		id, err := pawl.ParseID(pawl.JobPrefix, text)
		if err != nil {
			return nil, &pawl.Error{Kind: pawl.Invalid, Message: "jobs: " + err.Error()}
		}
		jobs = append(jobs, id)
	}
	over, err := s.Engine.EndedJobs(ctx, jobs)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, id := range over {
		ids = append(ids, id.Public(pawl.JobPrefix))
	}
	return pageOf(ids, ""), nil
}

// A ByWorker names the worker of a claim, and the claim.
type ByWorker struct {
	WorkerID string `json:"worker_id" doc:"The worker that has the claim."`
	Claim    int    `json:"claim" minimum:"1" doc:"The claim."`
}

func (b *ByWorker) worker() (pawl.ID, error) {
	id, err := pawl.ParseID(pawl.WorkerPrefix, b.WorkerID)
	if err != nil {
		return id, &pawl.Error{Kind: pawl.Invalid, Message: "worker_id: " + err.Error()}
	}
	return id, nil
}

// reported is the response to a report of one step.
type reported struct {
	Result string `json:"result" enum:"accepted,duplicate" doc:"duplicate: the worker had reported it before."`
}

func (s *Service) completeStep(ctx context.Context, in *struct {
	StepPath
	Body struct {
		ByWorker
		Output json.RawMessage `json:"output,omitempty" doc:"Any JSON, at most 1 MiB. Default null."`
	}
}) (*body[reported], error) {
	return s.report(ctx, in.StepPath, in.Body.ByWorker, exchange.Report{Outcome: "complete", Output: in.Body.Output})
}

func (s *Service) failStep(ctx context.Context, in *struct {
	StepPath
	Body struct {
		ByWorker
		Error *exchange.Error `json:"error,omitempty" doc:"Why."`
	}
}) (*body[reported], error) {
	return s.report(ctx, in.StepPath, in.Body.ByWorker, exchange.Report{Outcome: "fail", Error: in.Body.Error})
}

func (s *Service) releaseStep(ctx context.Context, in *struct {
	StepPath
	Body struct {
		ByWorker
		Error   *exchange.Error `json:"error,omitempty" doc:"Why."`
		AfterMS int64           `json:"after_ms,omitempty" minimum:"0" maximum:"31622400000" doc:"How long the step waits at least before it is tried again."`
	}
}) (*body[reported], error) {
	return s.report(ctx, in.StepPath, in.Body.ByWorker, exchange.Report{Outcome: "release", Error: in.Body.Error, AfterMS: in.Body.AfterMS})
}

// report reports one outcome. A stale one is an error.
func (s *Service) report(ctx context.Context, at StepPath, by ByWorker, r exchange.Report) (*body[reported], error) {
	if _, err := parseID(pawl.StepPrefix, at.ID, "step"); err != nil {
		return nil, err
	}
	worker, err := by.worker()
	if err != nil {
		return nil, err
	}
	r.Claim = exchange.Claim{StepID: at.ID, Claim: by.Claim}
	done, err := exchange.One(ctx, s.Engine, worker, &r)
	if err != nil {
		return nil, err
	}
	switch {
	case done.Current == 0:
		return nil, pawl.Errorf(pawl.NotFound, "there is no step %s", at.ID)
	case done.Result == link.Stale:
		p := Problemf(SlugStaleClaim, "the report is of claim %d, which is over", by.Claim)
		p.Claim, p.Current = by.Claim, current(int64(done.Current))
		return nil, p
	}
	return &body[reported]{reported{string(done.Result)}}, nil
}

func current(n int64) *int64 { return &n }
