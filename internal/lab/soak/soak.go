package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

const windows = 8

// How long the second reader is open, and how long it is closed.
const visit = 2 * time.Second

type config struct {
	url    string
	length time.Duration
	rate   int // jobs in a second
	report io.Writer
}

// chain has two steps, so that scans of both queues are needed: that of pending jobs, and that
// of enqueued steps, since the second step has another handler.
const chain = `name: soak
inputs: {at: {type: integer, required: true}}
steps:
  - {id: one, handler: noop}
  - {id: two, handler: noop, needs: [one], queue: other}
`

// A soaker is a run.
type soaker struct {
	config
	def    *workflow.Definition
	store  *postgres.DB
	engine *engine.Engine
	client *engine.Engine // submits
	watch  *pgx.Conn      // asks the server for its statistics

	mu      sync.Mutex
	lags    []time.Duration // of the window, from the intended submission to the start of the last step
	ended   int
	trouble error // the first error of a reader
}

// soak runs a soak on a database of its own.
func soak(ctx context.Context, c config) (*result, error) {
	own, drop, err := database(ctx, c.url)
	if err != nil {
		return nil, err
	}
	defer drop()
	s := &soaker{config: c}
	if s.def, err = workflow.Parse("soak", []byte(chain)); err != nil {
		return nil, err
	}
	if s.store, err = postgres.Open(ctx, postgres.Config{URL: own}); err != nil {
		return nil, err
	}
	defer s.store.Close()
	if s.watch, err = pgx.Connect(ctx, own); err != nil {
		return nil, err
	}
	defer s.watch.Close(context.Background())
	s.engine = engine.New(engine.Config{Store: s.store, Lanes: 2})
	defer s.engine.Close()
	// Another process submits, so that the jobs have to be claimed too.
	outside, err := postgres.Open(ctx, postgres.Config{URL: own, MaxConns: 2})
	if err != nil {
		return nil, err
	}
	defer outside.Close()
	s.client = engine.New(engine.Config{Store: outside, Passive: true})
	defer s.client.Close()
	// A worker for each step: the other worker has to claim what one completes.
	for _, queue := range []string{workflow.DefaultQueue, "other"} {
		w, err := worker.Start(ctx, s.engine, worker.Config{Capacity: 200, Queues: []string{queue},
			Handlers: map[string]worker.Handler{"noop": s.noop(queue == "other")}})
		if err != nil {
			return nil, err
		}
		defer w.Drain(context.Background())
	}
	return s.run(ctx, own)
}

// database makes a database of its own on the server.
func database(ctx context.Context, server string) (own string, drop func(), err error) {
	admin, err := pgx.Connect(ctx, server)
	if err != nil {
		return "", nil, fmt.Errorf("connect to the server: %w", err)
	}
	name := fmt.Sprintf("pawl_soak_%d", time.Now().UnixNano())
	if _, err := admin.Exec(ctx, "create database "+name+" template template0"); err != nil {
		admin.Close(ctx)
		return "", nil, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return "", nil, err
	}
	u.Path = "/" + name
	return u.String(), func() {
		_, _ = admin.Exec(context.Background(), "drop database "+name+" with (force)")
		_ = admin.Close(context.Background())
	}, nil
}

// noop returns the handler of a step. The handler of the last step measures the time.
func (s *soaker) noop(last bool) worker.Handler {
	return func(_ context.Context, t *worker.Task) worker.Result {
		var in struct{ Inputs struct{ At int64 } }
		if err := json.Unmarshal(t.Input(), &in); err == nil && last {
			lag := time.Since(pawl.Time(in.Inputs.At))
			s.mu.Lock()
			s.lags = append(s.lags, lag)
			s.ended++
			s.mu.Unlock()
		}
		return worker.Result{Output: json.RawMessage(`{}`)}
	}
}

// run submits the load and measures it, window by window. Then it ends the reader, and
// measures what is left after a vacuum.
func (s *soaker) run(ctx context.Context, own string) (*result, error) {
	reader, err := s.reader(ctx, own)
	if err != nil {
		return nil, err
	}
	defer reader.Close(context.Background())
	readers, stop := context.WithCancel(ctx)
	var visitor sync.WaitGroup
	visitor.Go(func() { s.comeAndGo(readers, own) })
	defer visitor.Wait()
	defer stop()
	r := &result{}
	fmt.Fprintln(s.report, head)
	before, err := s.statistics(ctx)
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	for w := range windows {
		from := w * s.jobs() / windows
		if err := s.offer(ctx, begun, from, (w+1)*s.jobs()/windows); err != nil {
			return nil, err
		}
		after, err := s.statistics(ctx)
		if err != nil {
			return nil, err
		}
		r.windows = append(r.windows, s.window(before, after))
		fmt.Fprintln(s.report, r.windows[w])
		before = after
	}
	fmt.Fprintf(s.report, "entries of a scan at the end, by index: %s\n", strings.Join(r.windows[windows-1].worst, ", "))
	if err := s.settled(ctx); err != nil {
		return nil, err
	}
	stop()
	visitor.Wait()
	_, err = reader.Exec(ctx, "commit")
	if err == nil {
		err = s.vacuumed(ctx, r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		err = s.trouble
	}
	return r, err
}

func (s *soaker) jobs() int { return int(s.length.Seconds() * float64(s.rate)) }

// reader opens a transaction with a snapshot of the present.
func (s *soaker) reader(ctx context.Context, own string) (*pgx.Conn, error) {
	conn, err := pgx.Connect(ctx, own)
	if err != nil {
		return nil, err
	}
	_, err = conn.Exec(ctx, "begin isolation level repeatable read; select count(*) from job")
	return conn, err
}

func (s *soaker) comeAndGo(ctx context.Context, own string) {
	tick := time.NewTicker(visit)
	defer tick.Stop()
	for ctx.Err() == nil {
		conn, err := s.reader(ctx, own)
		if err == nil {
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		if conn != nil {
			_ = conn.Close(context.Background())
		}
		if err != nil && ctx.Err() == nil {
			s.mu.Lock()
			s.trouble = err
			s.mu.Unlock()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// offer submits each job at its time, or as soon as possible after it; jobs that are due
// together are submitted together.
func (s *soaker) offer(ctx context.Context, begun time.Time, from, to int) error {
	at := func(n int) time.Time { return begun.Add(time.Duration(n) * time.Second / time.Duration(s.rate)) }
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for from < to {
		var subs []pawl.Submission
		for ; from < to && !at(from).After(time.Now()) && len(subs) < 200; from++ {
			subs = append(subs, pawl.Submission{Definition: s.def.Canonical(), Actor: "soak", Inputs: fmt.Appendf(nil, `{"at":%d}`, pawl.Micros(at(from)))})
		}
		if len(subs) > 0 {
			answers, err := s.client.Submit(ctx, subs...)
			if err != nil {
				return err
			}
			for _, a := range answers {
				if a.Err != nil {
					return a.Err
				}
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// anyOpen reads no more than there is of open jobs.
const anyOpen = `select exists (select from job where line <> 0) or exists (select from (select unnest(jobs) as id from running) k
  cross join lateral (select from job where job.id = k.id and state = 'RUNNING' offset 0) j)`

// settled waits until no job is open.
func (s *soaker) settled(ctx context.Context) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var open bool
		err := s.watch.QueryRow(ctx, anyOpen).Scan(&open)
		if err != nil || !open {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
