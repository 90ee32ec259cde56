package pawltest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// Config configures an Engine. The zero value has no handlers.
type Config struct {
	// Handle adds handlers to the worker before it begins, by worker.Handle. nil: only
	// those of Worker.
	Handle func(*worker.Worker)

	// Worker is the configuration of the worker. Its Beat, Silence and Poll have no effect.
	Worker worker.Config

	// Client has the defaults for the requests of Engine.Client.
	Client client.Config

	// Limit is how far Wait and RunUntilIdle let the clock move. Default 31 days.
	Limit time.Duration

	// Log gets the log of engine and worker. Default: none.
	Log *slog.Logger
}

// An Engine is an engine and a worker in the bubble of a test. Its methods fail the
// test on an error. Call them in the test's own goroutine.
type Engine struct {
	Client *client.Client

	t     testing.TB
	store store.Store
	limit time.Duration
	order atomic.Int64 // touched by the test before the clock moves, and by each handler that begins
}

// The engine gets a hint of everything and does not poll: a clock that moves by days
// would keep it polling.
const (
	beat    = 12 * time.Hour
	poll    = 12 * time.Hour
	silence = 7 * 24 * time.Hour
)

// latest is the jitter that makes a backoff the longest.
var latest = math.Nextafter(1, 0)

// New starts an engine on a database in memory, and a worker, which end with the test.
// Call it in a bubble of testing/synctest.
func New(t testing.TB, c Config) *Engine {
	t.Helper()
	if !inBubble() {
		t.Fatal("pawltest.New: want it called in synctest.Test, which makes the clock")
	}
	c.Log, c.Limit = cmp.Or(c.Log, slog.New(slog.DiscardHandler)), cmp.Or(c.Limit, 31*24*time.Hour)
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:", Log: c.Log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	e, err := engine.Open(engine.Config{Store: s, Managed: true, Poll: poll, Silence: silence, Jitter: func() float64 { return latest }, Log: c.Log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	follow(t, e)
	x := &Engine{Client: client.Over(e, c.Client, nil), t: t, store: s, limit: c.Limit}
	x.work(c)
	x.RunUntilIdle()
	return x
}

// inBubble reports whether the caller is in a bubble.
func inBubble() (in bool) {
	defer func() { in = recover() == nil }()
	synctest.Wait()
	return
}

// follow makes the engine evaluate jobs, and apply deadlines, until the test ends. The
// other parts of an engine are for databases that last.
func follow(t testing.TB, e *engine.Engine) {
	ctx, cancel := context.WithCancel(context.Background())
	var parts sync.WaitGroup
	for _, p := range e.Parts() {
		if p.Name == "evaluator" || p.Name == "deadlines" {
			parts.Go(func() {
				if err := p.Run(ctx); err != nil && ctx.Err() == nil {
					t.Errorf("pawltest: part %s of the engine: %v", p.Name, err)
				}
			})
		}
	}
	t.Cleanup(func() {
		cancel()
		parts.Wait()
	})
}

// work runs the worker until the test ends. What still runs then is interrupted.
func (e *Engine) work(c Config) {
	e.t.Helper()
	c.Worker.Beat, c.Worker.Poll, c.Worker.Silence = beat, poll, silence
	c.Worker.Log = cmp.Or(c.Worker.Log, c.Log)
	c.Worker.Middleware = append([]func(worker.Handler) worker.Handler{e.ordered}, c.Worker.Middleware...)
	c.Worker.DrainTimeout = cmp.Or(c.Worker.DrainTimeout, time.Nanosecond)
	w, err := worker.New(e.Client, c.Worker)
	if err != nil {
		e.t.Fatal(err)
	}
	if c.Handle != nil {
		c.Handle(w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	e.t.Cleanup(func() {
		cancel()
		if err := <-over; err != nil {
			e.t.Errorf("pawltest: the worker: %v", err)
		}
	})
}

// ordered makes what the test did before the clock moved happen before what a handler
// does that begins then: the race detector does not know that the clock orders them.
func (e *Engine) ordered(next worker.Handler) worker.Handler {
	return func(ctx context.Context, t *worker.Task) worker.Result {
		e.order.Add(1)
		return next(ctx, t)
	}
}

// sleep moves the clock.
func (e *Engine) sleep(d time.Duration) {
	e.order.Add(1)
	time.Sleep(d)
}

// moment is longer than the pauses in which an engine gathers commits and polls.
const moment = 100 * time.Millisecond

// RunUntilIdle returns when there is nothing left to do until more time passes:
// everything that can run has run. The clock moves by some tenths of a second.
func (e *Engine) RunUntilIdle() {
	e.t.Helper()
	for was, end := int64(-1), time.Now().Add(e.limit); ; {
		e.sleep(moment)
		synctest.Wait()
		stats, err := e.store.Stats(context.Background())
		if err != nil {
			e.t.Fatal(err)
		}
		if stats.Commits == was {
			return
		}
		if was = stats.Commits; time.Now().After(end) {
			e.t.Fatalf("pawltest: something still happens all the time after %s", e.limit)
		}
	}
}

// Advance moves the clock by d, and runs everything that becomes due, each at its own
// time: retries, sleeps, snoozes, timeouts, schedules. It returns when nothing is left
// to do, as RunUntilIdle does.
func (e *Engine) Advance(d time.Duration) {
	e.t.Helper()
	if d < 0 {
		e.t.Fatalf("pawltest: Advance: %s: want 0 or more", d)
	}
	e.sleep(d)
	e.RunUntilIdle()
}

// Wait moves the clock until the job has ended, and returns its result. It fails the
// test if the job waits for a person or a signal, or does not end within Config.Limit,
// and says what the job waits for.
func (e *Engine) Wait(id pawl.ID) *client.Result {
	e.t.Helper()
	ctx := context.Background()
	pause := time.Second
	for end := time.Now().Add(e.limit); ; {
		e.RunUntilIdle()
		job, err := e.store.Job(ctx, id.JobKey())
		if err != nil {
			e.t.Fatalf("pawltest: job %s: %v", id.Public(pawl.JobPrefix), err)
		}
		if lifecycle.Job.Ended(job.State) {
			return &client.Result{State: job.State, Output: job.Output, Failure: job.Error}
		}
		next := e.next(pause)
		switch pause = min(2*pause, time.Minute); {
		case next == 0:
			e.t.Fatalf("pawltest: job %s is %s, and does not end by itself:\n%s", id.Public(pawl.JobPrefix), job.State, e.why(id))
		case time.Now().Add(next).After(end):
			e.t.Fatalf("pawltest: job %s is %s after %s:\n%s", id.Public(pawl.JobPrefix), job.State, e.limit, e.why(id))
		}
		e.sleep(next)
	}
}

// next returns how long nothing happens by itself; 0: nothing will. While handlers run
// that is unknown, and the result is at most a pause.
func (e *Engine) next(pause time.Duration) time.Duration {
	e.t.Helper()
	agenda, err := e.store.Look(context.Background(), store.LookQuery{Limit: 1})
	if err != nil {
		e.t.Fatal(err)
	}
	_, running, err := e.store.InFlight(context.Background())
	if err != nil {
		e.t.Fatal(err)
	}
	delete(running, 0) // steps that wait without a worker
	next := time.Duration(0)
	if agenda.NextDue > 0 {
		next = time.Duration(agenda.NextDue-agenda.Now) * time.Microsecond
	}
	if len(running)+len(agenda.Due)+len(agenda.Marked) > 0 && (next == 0 || pause < next) {
		next = pause
	}
	return next
}

// why says what a job waits for, a line for each reason.
func (e *Engine) why(id pawl.ID) string {
	reasons, err := e.Client.Inspect.Why(context.Background(), id, "")
	if err != nil {
		return fmt.Sprintf("  why is not known: %v", err)
	}
	var b strings.Builder
	for _, r := range reasons {
		fmt.Fprintf(&b, "  %s: %s: %s\n", cmp.Or(r.Step, "job"), r.Status, r.Text)
	}
	return b.String()
}
