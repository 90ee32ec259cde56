package engine_test

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// A crew is the workers of one process, on a handle of their own. They neither poll nor get
// work with a beat: a worker that rests while there is work rests for an hour.
type crew struct {
	store.Store
	engine *engine.Engine
	claims chan struct{} // 1: a transaction with claims has ended

	claiming atomic.Int64 // transactions with claims under way
	overlaps atomic.Bool  // two of them were
}

// Do implements store.Ledger.
func (c *crew) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	if len(q.Claims) > 0 {
		if c.claiming.Add(1) > 1 {
			c.overlaps.Store(true)
		}
		defer c.claiming.Add(-1)
	}
	err := c.Store.Do(ctx, q, decide)
	if len(q.Claims) > 0 {
		select {
		case c.claims <- struct{}{}:
		default:
		}
	}
	return err
}

func newCrew(t *testing.T, url string) *crew {
	t.Helper()
	db, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	c := &crew{Store: db, claims: make(chan struct{}, 1)}
	c.engine = engine.New(engine.Config{Store: c, Lanes: 2, Silence: 24 * time.Hour})
	t.Cleanup(func() {
		c.engine.Close()
		db.Close()
	})
	return c
}

func (c *crew) start(t *testing.T, capacity int, h worker.Handler, queues ...string) {
	t.Helper()
	w, err := worker.Start(t.Context(), c.engine, worker.Config{Capacity: capacity, Queues: queues,
		Handlers: map[string]worker.Handler{"h": h}, Beat: time.Hour, Poll: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Drain(context.Background()) })
}

func (c *crew) submit(t *testing.T, n int, source string) {
	t.Helper()
	def, err := workflow.Parse("rest.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	subs := make([]pawl.Submission, n)
	for i := range subs {
		subs[i] = pawl.Submission{Definition: def.Canonical()}
	}
	answers, err := c.engine.Submit(t.Context(), subs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

// finished fails if not all of n steps run, and reports what was left.
func finished(t *testing.T, url string, n int, ran <-chan struct{}) {
	t.Helper()
	for done := range n {
		select {
		case <-ran:
		case <-time.After(30 * time.Second):
			t.Fatalf("every worker rests after %d of %d steps; pending jobs and enqueued steps: %v", done, n, waiting(t, url))
		}
	}
}

func waiting(t *testing.T, url string) (n [2]int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	err = conn.QueryRow(t.Context(), "select (select count(*) from job where line = 1), (select count(*) from step where line = 1)").Scan(&n[0], &n[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// age makes everything that waits older than the horizon of claims.
func age(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "update job set rank = rank - 3600000000 where line = 1; update step set rank = rank - 3600000000"); err != nil {
		t.Fatal(err)
	}
}

// TestNobodyRestsBesideABacklog: one worker with two exchanges under way, two of one process or
// two of each of several, whose claims have more rows locked than a claim has spare rows for,
// complete an old backlog and the work that arrives meanwhile, without a beat or a poll (T3, T10).
func TestNobodyRestsBesideABacklog(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ processes, workers, capacity, backlog, later int }{
		"one worker":        {1, 1, 300, 2000, 300},
		"one process":       {1, 2, 200, 2000, 100},
		"several processes": {3, 2, 100, 1500, 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, steps := pgtest.URL(t), 2*(tt.backlog+tt.later)
			ran := make(chan struct{}, steps) // one for each step: no handler waits
			h := func(context.Context, *worker.Task) worker.Result {
				if rand.N(100) == 0 {
					time.Sleep(rand.N(5 * time.Millisecond)) // a random interleaving
				}
				ran <- struct{}{}
				return worker.Result{}
			}
			client := newCrew(t, url)
			client.submit(t, tt.backlog, "name: rest\nsteps: [{id: a, handler: h}, {id: b, handler: h, needs: [a], queue: other}]\n")
			age(t, url)
			var c *crew
			for range tt.processes {
				c = newCrew(t, url)
				for range tt.workers {
					c.start(t, tt.capacity, h, "default", "other")
				}
			}
			for range tt.later / 10 {
				client.submit(t, 10, "name: rest\nsteps: [{id: a, handler: h}]\n")
			}
			finished(t, url, steps-tt.later, ran)
			if tt.processes*tt.workers == 1 && !c.overlaps.Load() {
				t.Error("the worker never had two claims under way")
			}
		})
	}
}

// TestAWorkerLooksAgainForWhatWasLocked: another transaction has more rows locked than a
// claim reads, and ends without having taken them. No hint announces that (T5, T10).
func TestAWorkerLooksAgainForWhatWasLocked(t *testing.T) {
	t.Parallel()
	for name, queues := range map[string][]string{"one route": {"default"}, "several": {"default", "other"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const jobs = 110 // of which a worker with 4 slots reads 108, if it has several routes
			url := pgtest.URL(t)
			ran := make(chan struct{}, jobs) // one for each step: no handler waits
			c := newCrew(t, url)
			c.submit(t, jobs, "name: rest\nsteps: [{id: a, handler: h}]\n")
			age(t, url)
			conn, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			if _, err := conn.Exec(t.Context(), "begin; select from job where line = 1 for update"); err != nil {
				t.Fatal(err)
			}
			c.start(t, 4, func(context.Context, *worker.Task) worker.Result {
				ran <- struct{}{}
				return worker.Result{}
			}, queues...)
			<-c.claims // it has found nothing to take
			if _, err := conn.Exec(t.Context(), "rollback"); err != nil {
				t.Fatal(err)
			}
			finished(t, url, jobs, ran)
		})
	}
}
