package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/exchange"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Register makes a remote worker, and begins its conversation with the server. release does
// nothing: a worker that is silent counts as dead.
func (e *Engine) Register(ctx context.Context, r link.Registration) (*pawl.Worker, func(), error) {
	if r.Job != 0 {
		return nil, nil, unsupported("the work on a private job", "run it on the machine of the database")
	}
	var d link.Declaration
	if len(r.Worker.Metadata) > 0 {
		if err := json.Unmarshal(r.Worker.Metadata, &d); err != nil {
			return nil, nil, err
		}
	}
	w := r.Worker
	silence := time.Duration(d.Silence)
	if silence == 0 {
		silence = health.Silence
	}
	body := exchange.Registration{Workspace: w.Workspace, Name: w.Name, Host: w.Host, PID: w.PID, Capacity: w.Capacity,
		Handlers: r.Handlers, Queues: r.Queues, SilenceMS: silence.Milliseconds(), Isolation: string(d.Isolation), Predecessor: e.talks.predecessor(r.Before)}
	done, err := e.receipt(ctx, command("register-worker", "/api/workers", pawl.Change{Actor: r.Actor}, body))
	if err != nil {
		if pawl.KindOf(err) == pawl.Unavailable && !unsent(err) {
			err = fmt.Errorf("%w: %w", link.ErrUnknown, err)
		}
		return nil, nil, err
	}
	if w.ID, err = pawl.ParseID(pawl.WorkerPrefix, done.ID); err != nil {
		return nil, nil, err
	}
	w.Silence = silence
	e.talks.begin(e, &w, r.Before)
	return &w, func() {}, nil
}

// LendSlots lends the slots to exchanges that wait at the server: they claim steps for the
// worker as soon as there are some.
func (e *Engine) LendSlots(w *pawl.Worker, run func(*link.Assignment)) link.Slots {
	return newSlots(e.talks.of(w.Key()), run)
}

// Exchange reports and claims. Of the queue it claims in any case.
func (e *Engine) Exchange(ctx context.Context, x link.Exchange) ([]link.Assignment, error) {
	if len(x.Reports) == 0 && x.Free == 0 {
		return nil, nil
	}
	t := e.talks.of(x.Worker.Key())
	if t == nil {
		return nil, pawl.Errorf(pawl.Invalid, "worker %s was not registered through this client", x.Worker.ID.Public(pawl.WorkerPrefix))
	}
	return t.visit(ctx, x.Reports, x.Free)
}

// Overlap returns 1: each exchange takes a turn.
func (e *Engine) Overlap() int { return 1 }

// CompleteTx returns an error: a transaction needs the database.
func (e *Engine) CompleteTx(context.Context, any, link.Report) error {
	return unsupported("the completion of a step in a transaction", "give worker.New a client of local.Open")
}

// StepInput returns what was delivered with the step.
func (e *Engine) StepInput(_ context.Context, a *link.Assignment) (*link.StepInput, *pawl.Failure, error) {
	in, ok := a.Known.(*link.StepInput)
	if !ok {
		return nil, nil, pawl.Errorf(pawl.Internal, "step %s was not delivered", a.Step.StepKey)
	}
	return in, nil, nil
}

// AppendLogs stores chunks, each in a request of its own.
func (e *Engine) AppendLogs(ctx context.Context, chunks []pawl.Chunk) error {
	for i := range chunks {
		c := &chunks[i]
		id, held := e.talks.step(link.Stop{StepKey: c.StepKey, Claim: c.Claim})
		if !held {
			continue // it was reported
		}
		to := &call{operation: "append-log", method: http.MethodPost, path: at("/api/steps/%s/log", id), raw: c.Data,
			query: values("claim", strconv.Itoa(c.Claim), "stream", c.Stream, "offset", strconv.FormatInt(c.Offset, 10), "cut", "true")}
		if _, err := e.do(ctx, to, nil); err != nil {
			return err
		}
	}
	return nil
}

// Beat says that a worker lives, on a connection of its own.
func (e *Engine) Beat(ctx context.Context, p link.Pulse) (*link.Pulsed, error) {
	t := e.talks.of(p.Worker)
	if t == nil {
		return nil, pawl.Errorf(pawl.Invalid, "the worker was not registered through this client")
	}
	ctx, cancel := context.WithTimeout(ctx, health.Attempt(t.worker.Silence))
	defer cancel()
	body := exchange.Heartbeat{Holding: t.claims(p.Claims)}
	to := &call{operation: "heartbeat", method: http.MethodPost, path: t.path("/heartbeat"), body: body, beats: true}
	var said exchange.Said
	switch err := e.once(ctx, to, &said); {
	case errors.Is(err, link.ErrWorkerEnded), pawl.KindOf(err) == pawl.NotFound && err != nil:
		return &link.Pulsed{State: lifecycle.WorkerTerminated, Taken: p.Claims}, nil
	case err != nil:
		return nil, err
	}
	stops, err := stopsOf(said.Stops)
	if err != nil {
		return nil, err
	}
	gone, err := stopsOf(said.Gone)
	return &link.Pulsed{State: machine.State(said.State), Stops: stops, Taken: gone}, err
}

func stopsOf(claims []exchange.Claim) (all []link.Stop, err error) {
	for _, c := range claims {
		s, err := stopOf(c)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func stopOf(c exchange.Claim) (link.Stop, error) {
	id, err := pawl.ParseID(pawl.StepPrefix, c.StepID)
	if err != nil {
		return link.Stop{}, &pawl.Error{Kind: pawl.Internal, Message: "the server names a step", Err: err}
	}
	return link.Stop{StepKey: id.StepKey(), Claim: c.Claim}, nil
}

// once sends a request a single time.
func (e *Engine) once(ctx context.Context, c *call, v any) error {
	body, err := c.encoded()
	if err != nil {
		return err
	}
	_, _, err = e.try(ctx, c, body, v)
	return err
}

// Stops returns a channel that never receives: beats find what has to stop.
func (e *Engine) Stops() <-chan struct{} { return nil }

// Hears returns true: an exchange waits at the server, so the worker need not poll.
func (e *Engine) Hears() bool { return true }

// workerVerbs are the last words of the operations by which a worker moves itself.
var workerVerbs = map[machine.Event]string{
	lifecycle.WorkerStartTask: "start", lifecycle.WorkerPause: "pause", lifecycle.WorkerResume: "resume",
	lifecycle.WorkerCompleteTasks: "complete", lifecycle.WorkerTerminate: "complete", lifecycle.WorkerErrorUnrecoverable: "fail",
}

// MoveWorker applies an event that the worker asks for itself.
func (e *Engine) MoveWorker(ctx context.Context, worker rowkey.Worker, event machine.Event, n decide.Note) error {
	t, verb := e.talks.of(worker), workerVerbs[event]
	if t == nil || verb == "" {
		return pawl.Errorf(pawl.Invalid, "a worker cannot %s itself", event)
	}
	_, err := e.receipt(ctx, command("move-worker", t.path("/"+verb), pawl.Change{}, note{n.Reason}))
	return err
}

// Terminate ends a worker that has never had a task.
func (e *Engine) Terminate(ctx context.Context, worker rowkey.Worker, n decide.Note) error {
	return e.MoveWorker(ctx, worker, lifecycle.WorkerTerminate, n)
}

// WorkerEnd returns who has ended a worker, and why.
func (e *Engine) WorkerEnd(ctx context.Context, worker rowkey.Worker) (link.WorkerEnd, error) {
	t := e.talks.of(worker)
	if t == nil {
		return link.WorkerEnd{}, pawl.Errorf(pawl.Invalid, "the worker was not registered through this client")
	}
	end, err := read[struct {
		Actor    string `json:"actor"`
		Reason   string `json:"reason"`
		Operator bool   `json:"operator"`
	}](ctx, e, "get-worker-end", t.path("/end"))
	switch {
	case err != nil && pawl.KindOf(err) == pawl.NotFound:
		return link.WorkerEnd{Reason: "the server does not know it"}, nil
	case err != nil:
		return link.WorkerEnd{}, err
	}
	return link.WorkerEnd{Actor: end.Actor, Reason: end.Reason, Operator: end.Operator}, nil
}

// maxEnded is how many jobs one request asks about.
const maxEnded = 500

// EndedJobs returns the jobs that will not run again.
func (e *Engine) EndedJobs(ctx context.Context, jobs []pawl.ID) (over []pawl.ID, err error) {
	for len(jobs) > 0 {
		now := jobs[:min(len(jobs), maxEnded)]
		jobs = jobs[len(now):]
		body := struct {
			Jobs []string `json:"jobs"`
		}{}
		for _, id := range now {
			body.Jobs = append(body.Jobs, id.Public(pawl.JobPrefix))
		}
		var p page[string]
		if _, err := e.do(ctx, &call{operation: "find-ended-jobs", method: http.MethodPost, path: "/api/jobs/ended", body: body}, &p); err != nil {
			return over, err
		}
		for _, text := range p.Items {
			id, err := pawl.ParseID(pawl.JobPrefix, text)
			if err != nil {
				return over, err
			}
			over = append(over, id)
		}
	}
	return over, nil
}
