// Package bench measures the engine: the same work on any store, audit on,
// nothing cached that a job's effects depend on. It is part of the product (pawl
// bench), so that anybody can see the figures of their own machine.
package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/engine"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/runner"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/workflow"
)

// Config says what to measure. Zero fields have the default.
type Config struct {
	Name     string // of the store, for the report
	Store    store.Store
	Jobs     int // no-op jobs; default 20,000
	Chains   int // chains at once; default 500
	Samples  int // of each latency; default 200
	Lanes    int // commits in flight; default 1
	Workers  int // in this process; default 1
	Capacity int // of each worker; default 500

	Progress func(what string) // told of each workload as it begins; nil: nobody
}

func (c Config) withDefaults() Config {
	set := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	set(&c.Jobs, 20_000)
	set(&c.Chains, 500)
	set(&c.Samples, 200)
	set(&c.Lanes, 1)
	set(&c.Workers, 1)
	set(&c.Capacity, 500)
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	return c
}

// A Result is one workload on one store.
type Result struct {
	Store    string   `json:"store"`
	Workload string   `json:"workload"`
	Jobs     int      `json:"jobs"`
	Steps    int      `json:"steps"`
	Seconds  float64  `json:"seconds"`
	JobRate  float64  `json:"jobs_per_second,omitempty"`  // of throughput
	StepRate float64  `json:"steps_per_second,omitempty"` // of throughput
	P50      Millis   `json:"p50_ms,omitempty"`           // of latency
	P99      Millis   `json:"p99_ms,omitempty"`           // of latency
	PerJob   RowsUsed `json:"per_job"`
}

// Millis is a duration in milliseconds.
type Millis float64

// RowsUsed is what a job cost the database, on average.
type RowsUsed struct {
	Commits float64 `json:"commits"` // shared with other jobs
	Inserts float64 `json:"inserts"` // of records
	Updates float64 `json:"updates"` // of records
	Audit   float64 `json:"audit"`   // rows
}

// Budget is what a no-op job of one step may cost: its commits alone, not shared.
var Budget = RowsUsed{Commits: 3, Inserts: 2, Updates: 4, Audit: 8}

// Run measures every workload in turn.
func Run(ctx context.Context, c Config) ([]Result, error) {
	b, err := start(ctx, c.withDefaults())
	if err != nil {
		return nil, err
	}
	defer b.stop()
	var results []Result
	for _, w := range []struct {
		name string
		run  func(context.Context) (Result, error)
	}{
		{"no-op jobs, end to end", b.noops},
		{"chains of 3, many at once", func(ctx context.Context) (Result, error) { return b.chains(ctx, 3) }},
		{"chains of 10, many at once", func(ctx context.Context) (Result, error) { return b.chains(ctx, 10) }},
		{"chain of 3, one at a time", func(ctx context.Context) (Result, error) { return b.chain(ctx, 3) }},
		{"chain of 10, one at a time", func(ctx context.Context) (Result, error) { return b.chain(ctx, 10) }},
		{"submit to start, idle", b.starts},
	} {
		b.config.Progress(w.name)
		before, err := b.config.Store.Stats(ctx)
		if err != nil {
			return nil, err
		}
		r, err := w.run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.name, err)
		}
		after, err := b.config.Store.Stats(ctx)
		if err != nil {
			return nil, err
		}
		r.Store, r.Workload, r.PerJob = c.Name, w.name, used(before, after, r.Jobs)
		results = append(results, r)
	}
	return results, nil
}

func used(before, after store.Stats, jobs int) RowsUsed {
	per := func(a, b int64) float64 { return float64(b-a) / float64(jobs) }
	return RowsUsed{per(before.Commits, after.Commits), per(before.Inserts, after.Inserts), per(before.Updates, after.Updates), per(before.Entries, after.Entries)}
}

// A rig is an engine with its workers.
type rig struct {
	config  Config
	engine  *engine.Engine
	workers []*runner.Worker
	ran     atomic.Int64
	started chan time.Time // of the handler, while starts are measured
	timing  atomic.Bool
}

func start(ctx context.Context, c Config) (*rig, error) {
	b := &rig{config: c, engine: engine.New(engine.Config{Store: c.Store, Lanes: c.Lanes}), started: make(chan time.Time, 1)} // 1: read after the job was submitted
	noop := func(context.Context, *runner.Task) runner.Result {
		if b.timing.Load() {
			b.started <- time.Now()
		}
		b.ran.Add(1)
		return runner.Result{Output: json.RawMessage(`{}`)}
	}
	for range c.Workers {
		w, err := runner.Start(ctx, runner.WorkerConfig{Engine: b.engine, Store: c.Store, Capacity: c.Capacity, Handlers: map[string]runner.Handler{"noop": noop}})
		if err != nil {
			b.stop()
			return nil, err
		}
		b.workers = append(b.workers, w)
	}
	return b, nil
}

func (b *rig) stop() {
	for _, w := range b.workers {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		w.Drain(ctx)
		cancel()
	}
	b.engine.Close()
}

// chainOf answers a workflow of n no-op steps, each needing the one before.
func chainOf(n int) (*workflow.Definition, error) {
	f := fmt.Sprintf("name: chain_of_%d\nsteps:\n", n)
	for i := 1; i <= n; i++ {
		f += fmt.Sprintf("  - id: step%d\n    handler: noop\n", i)
		if i > 1 {
			f += fmt.Sprintf("    needs: [step%d]\n", i-1)
		}
	}
	return workflow.Parse("bench", []byte(f))
}

// submitBatch is how many jobs one submission holds.
const submitBatch = 200

func (b *rig) submit(ctx context.Context, def *workflow.Definition, n int) error {
	for n > 0 {
		subs := make([]pawl.Submission, min(n, submitBatch))
		for i := range subs {
			subs[i] = pawl.Submission{Definition: def.Canonical(), Actor: "bench"}
		}
		answers, err := b.engine.Submit(ctx, subs...)
		if err != nil {
			return err
		}
		for _, a := range answers {
			if a.Err != nil {
				return a.Err
			}
		}
		n -= len(subs)
	}
	return nil
}

// throughput submits jobs and waits until all of them have ended.
func (b *rig) throughput(ctx context.Context, def *workflow.Definition, jobs int) (Result, error) {
	steps := jobs * len(def.Nodes)
	ranBefore, begun := b.ran.Load(), time.Now()
	if err := b.submit(ctx, def, jobs); err != nil {
		return Result{}, err
	}
	if err := b.drained(ctx, ranBefore+int64(steps)); err != nil {
		return Result{}, err
	}
	d := time.Since(begun).Seconds()
	return Result{Jobs: jobs, Steps: steps, Seconds: d, JobRate: float64(jobs) / d, StepRate: float64(steps) / d}, nil
}

// drained waits until the handler has run so many times and no job is open.
func (b *rig) drained(ctx context.Context, ran int64) error {
	open := store.JobFilter{States: []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}, Limit: 1}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if b.ran.Load() < ran {
			continue
		}
		jobs, err := b.config.Store.Jobs(ctx, open)
		if err != nil || len(jobs) == 0 {
			return err
		}
	}
}

func (b *rig) noops(ctx context.Context) (Result, error) {
	def, err := chainOf(1)
	if err != nil {
		return Result{}, err
	}
	return b.throughput(ctx, def, b.config.Jobs)
}

func (b *rig) chains(ctx context.Context, n int) (Result, error) {
	def, err := chainOf(n)
	if err != nil {
		return Result{}, err
	}
	return b.throughput(ctx, def, b.config.Chains)
}

// chain runs chains one at a time and takes the time of each, from the
// submission until its end is known.
func (b *rig) chain(ctx context.Context, n int) (Result, error) {
	def, err := chainOf(n)
	if err != nil {
		return Result{}, err
	}
	return b.sample(func() (time.Duration, error) {
		begun := time.Now()
		answers, err := b.engine.Submit(ctx, pawl.Submission{Definition: def.Canonical(), Actor: "bench"})
		if err != nil {
			return 0, err
		}
		_, err = b.engine.Wait(ctx, answers[0].ID)
		return time.Since(begun), err
	}, n)
}

// starts takes the time from a submission to an idle engine until the handler
// of its step begins.
func (b *rig) starts(ctx context.Context) (Result, error) {
	def, err := chainOf(1)
	if err != nil {
		return Result{}, err
	}
	b.timing.Store(true)
	defer b.timing.Store(false)
	return b.sample(func() (time.Duration, error) {
		begun := time.Now()
		answers, err := b.engine.Submit(ctx, pawl.Submission{Definition: def.Canonical(), Actor: "bench"})
		if err != nil {
			return 0, err
		}
		at := <-b.started
		_, err = b.engine.Wait(ctx, answers[0].ID)
		return at.Sub(begun), err
	}, 1)
}

func (b *rig) sample(f func() (time.Duration, error), steps int) (Result, error) {
	times := make([]time.Duration, b.config.Samples)
	begun := time.Now()
	for i := range times {
		var err error
		if times[i], err = f(); err != nil {
			return Result{}, err
		}
	}
	total := time.Since(begun).Seconds()
	slices.Sort(times)
	at := func(q float64) Millis {
		return Millis(float64(times[int(q*float64(len(times)-1))].Microseconds()) / 1000)
	}
	return Result{Jobs: len(times), Steps: len(times) * steps, Seconds: total, P50: at(0.50), P99: at(0.99)}, nil
}
