// Package bench measures the engine: the same work on any store, with the audit trail on and
// nothing cached that a job's effects depend on. It is part of the product (pawl bench), so
// that users can measure their own machines.
package bench

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// A Target is a database to measure on.
type Target interface {
	Name() string
	// Open opens a handle and starts an engine on it, without a worker.
	Open(ctx context.Context, c Crew) (*Pawl, error)
	// Spent returns how much was written so far.
	Spent(ctx context.Context) (Spent, error)
	// Left returns what closed handles left behind.
	Left(ctx context.Context) (Left, error)
	// Bare changes n records in batches of BareBatch without an engine, each with its row of
	// the trail, and returns how many per second. The workload EndToEnd must have run before.
	Bare(ctx context.Context, n int) (float64, error)
	// Copy adds n copies of a job and its steps, without a trail, as if they had been created
	// at that time. No handle is open, and no other job was created in that second.
	Copy(ctx context.Context, job rowkey.Job, n int, at time.Time) error
	// Tidy makes the database do the maintenance of the days since then.
	Tidy(ctx context.Context) error
}

// Spent is how much was written, in bytes. A value that the target cannot report is 0.
type Spent struct {
	WAL     int64 // to the write-ahead log
	Written int64 // to files, by this process
}

// Left is what a vacuum has to remove: the row versions that updates and deletes replaced. A
// value that the target does not have is 0.
type Left struct {
	Dead    int64
	Indexed int64 // of Dead: those that indexes point to
}

// Config says what to measure.
type Config struct {
	Targets   []Target
	Workloads []Workload
	Sizes     Sizes                     // zero fields have the default
	Progress  func(target, what string) // called as each workload begins; may be nil

	// CPU returns the processor time used until now, by this process and by the server of the
	// target. nil: it is not reported.
	CPU func(Target) (client, server time.Duration)
}

func (c Config) withDefaults() Config {
	c.Sizes = c.Sizes.withDefaults()
	if c.Progress == nil {
		c.Progress = func(string, string) {}
	}
	if c.CPU == nil {
		c.CPU = func(Target) (client, server time.Duration) { return 0, 0 }
	}
	return c
}

// A Report is the result of all measurements.
type Report struct {
	Results     []Result      `json:"results"`
	Transitions []Transitions `json:"transitions"`
}

// A Result is one workload on one target.
type Result struct {
	Store    string `json:"store"`
	Workload string `json:"workload"`
	Figures
	PerJob Cost `json:"per_job"`
}

// A Cost is the average cost of a job. A value that cannot be measured is 0.
type Cost struct {
	Commits   float64 `json:"commits"`             // shared with other jobs
	Rollbacks float64 `json:"rollbacks,omitempty"` // transactions repeated after a conflict with other writes
	Inserts   float64 `json:"inserts"`             // of records
	Updates   float64 `json:"updates"`             // of records
	Audit     float64 `json:"audit"`               // rows
	WAL       float64 `json:"wal_bytes,omitempty"`
	Written   float64 `json:"written_bytes,omitempty"`
	Dead      float64 `json:"dead_tuples,omitempty"`
	Indexed   float64 `json:"dead_tuples_in_indexes,omitempty"`
	Allocated float64 `json:"allocated_bytes"` // by this process
	ClientCPU float64 `json:"client_cpu_us,omitempty"`
	ServerCPU float64 `json:"server_cpu_us,omitempty"`
}

// Budget is the maximum cost of a no-op job of one step: of its own commits, not shared.
var Budget = Cost{Commits: 3, Inserts: 2, Updates: 4, Audit: 8}

// Transitions compare the engine with the database below it.
type Transitions struct {
	Store  string  `json:"store"`
	Engine float64 `json:"engine_per_second"` // transitions of EndToEnd, each a row of the trail
	Bare   float64 `json:"bare_per_second"`   // the database alone, in batches of BareBatch
	Ratio  float64 `json:"ratio"`
	Aim    float64 `json:"aim"` // at least
}

const (
	// BareBatch is how many transitions share a commit without an engine.
	BareBatch = 100

	transitionsAim = 0.35
)

// Run measures every workload on every target.
func Run(ctx context.Context, c Config) (*Report, error) {
	c = c.withDefaults()
	r := new(Report)
	for _, t := range c.Targets {
		for _, w := range c.Workloads {
			c.Progress(t.Name(), w.Name)
			result, err := c.one(ctx, t, w)
			if err != nil {
				return nil, fmt.Errorf("%s: %s: %w", t.Name(), w.Name, err)
			}
			r.Results = append(r.Results, result)
			if w.Name != EndToEnd {
				continue
			}
			c.Progress(t.Name(), "the database alone")
			if err := r.limit(ctx, t, result); err != nil {
				return nil, fmt.Errorf("%s: the database alone: %w", t.Name(), err)
			}
		}
	}
	return r, nil
}

// one measures with a handle of its own: PostgreSQL reports what a connection left behind only
// after the connection has ended.
func (c Config) one(ctx context.Context, t Target, w Workload) (Result, error) {
	before, err := t.Left(ctx)
	if err != nil {
		return Result{}, err
	}
	p, err := t.Open(ctx, Crew{})
	if err != nil {
		return Result{}, err
	}
	r, err := c.measure(ctx, t, p, w)
	if e := p.Close(); err == nil {
		err = e
	}
	if err != nil {
		return Result{}, err
	}
	after, err := t.Left(ctx)
	r.PerJob.Dead = float64(after.Dead-before.Dead) / float64(r.Jobs)
	r.PerJob.Indexed = float64(after.Indexed-before.Indexed) / float64(r.Jobs)
	return r, err
}

func (c Config) measure(ctx context.Context, t Target, p *Pawl, w Workload) (Result, error) {
	if err := w.Before(ctx, p, c.Sizes); err != nil {
		return Result{}, err
	}
	before, err := c.spend(ctx, t, p)
	if err != nil {
		return Result{}, err
	}
	f, err := w.Measure(ctx, p, c.Sizes)
	if err != nil {
		return Result{}, err
	}
	if err := p.settle(ctx); err != nil {
		return Result{}, err
	}
	after, err := c.spend(ctx, t, p)
	if err == nil && w.After != nil {
		err = w.After(ctx, p)
	}
	return Result{Store: t.Name(), Workload: w.Name, Figures: f, PerJob: after.since(before, f.Jobs)}, err
}

// A bill is all counters at one moment.
type bill struct {
	stats     store.Stats
	spent     Spent
	allocated uint64
	client    time.Duration // CPU
	server    time.Duration // CPU
}

func (c Config) spend(ctx context.Context, t Target, p *Pawl) (b bill, err error) {
	if b.stats, err = p.config.Store.Stats(ctx); err != nil {
		return b, err
	}
	if b.spent, err = t.Spent(ctx); err != nil {
		return b, err
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.allocated = m.TotalAlloc
	b.client, b.server = c.CPU(t)
	return b, nil
}

func (b bill) since(a bill, jobs int) Cost {
	per := func(from, to int64) float64 { return float64(to-from) / float64(jobs) }
	return Cost{
		Commits: per(a.stats.Commits, b.stats.Commits), Rollbacks: per(a.stats.Rollback, b.stats.Rollback), Inserts: per(a.stats.Inserts, b.stats.Inserts),
		Updates: per(a.stats.Updates, b.stats.Updates), Audit: per(a.stats.Entries, b.stats.Entries),
		WAL: per(a.spent.WAL, b.spent.WAL), Written: per(a.spent.Written, b.spent.Written),
		Allocated: per(int64(a.allocated), int64(b.allocated)),
		ClientCPU: per(a.client.Microseconds(), b.client.Microseconds()), ServerCPU: per(a.server.Microseconds(), b.server.Microseconds()),
	}
}

// limit makes the database do as many transitions as the jobs of the result did.
func (r *Report) limit(ctx context.Context, t Target, noops Result) error {
	bare, err := t.Bare(ctx, int(noops.PerJob.Audit*float64(noops.Jobs)))
	if err != nil {
		return err
	}
	l := Transitions{Store: t.Name(), Engine: noops.PerJob.Audit * noops.JobRate, Bare: bare, Aim: transitionsAim}
	l.Ratio = l.Engine / l.Bare
	r.Transitions = append(r.Transitions, l)
	return nil
}
