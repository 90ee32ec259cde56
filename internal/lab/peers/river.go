package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/pawl-dev/pawl/internal/lab/bench"
)

var _ bench.System = (*riverSystem)(nil)

// A riverSetting is a configuration of River.
type riverSetting struct {
	workers  int           // MaxWorkers
	cooldown time.Duration // FetchCooldown
	poll     time.Duration // FetchPollInterval
	conns    int32         // of the pool
}

// The compared configurations of River.
var (
	// riverDefault leaves everything to River and pgxpool; 100 workers as in
	// River's examples.
	riverDefault = riverSetting{workers: 100}
	// riverTuned follows the settings of river bench.
	riverTuned = riverSetting{workers: 1000, cooldown: 2 * time.Millisecond, poll: 20 * time.Millisecond, conns: 20}
)

// A riverSystem is River in this process, on PostgreSQL.
type riverSystem struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	begin  atomic.Pointer[func(time.Time)]
	flow   atomic.Int64
	ended  sync.Map // of flows that a caller waits for: the channel to close
	ran    atomic.Int64
	due    int64

	hand   *bench.Hand // in a process of a deployment
	output string      // of each of its jobs; "" for none
}

// openRiver opens a client without workers. The joins of diamonds are counted in a table, as a
// user of River would.
func openRiver(ctx context.Context, url string, set riverSetting) (*riverSystem, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	if set.conns > 0 {
		config.MaxConns = set.conns
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	r := &riverSystem{pool: pool}
	if err := r.prepare(ctx, set); err != nil {
		pool.Close()
		return nil, err
	}
	return r, nil
}

func (r *riverSystem) prepare(ctx context.Context, set riverSetting) error {
	driver := riverpgxv5.New(r.pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	if _, err := r.pool.Exec(ctx, "create table if not exists joins (flow bigint primary key, arrived int not null)"); err != nil {
		return err
	}
	r.flow.Store(time.Now().UnixNano()) // no flow of an earlier round
	workers := river.NewWorkers()
	river.AddWorker(workers, &noopWorker{system: r})
	river.AddWorker(workers, &stepWorker{system: r})
	r.client, err = river.NewClient(driver, &river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: set.workers}},
		FetchCooldown:     set.cooldown,
		FetchPollInterval: set.poll,
		Workers:           workers,
	})
	return err
}

// Start implements bench.System.
func (r *riverSystem) Start(ctx context.Context) error {
	return r.client.Start(context.WithoutCancel(ctx))
}

// submitBatch is how many jobs one insertion holds.
const submitBatch = 1000

// Submit implements bench.System.
func (r *riverSystem) Submit(ctx context.Context, s bench.Shape, n int) error {
	r.due += int64(n * s.Steps)
	for n > 0 {
		batch := make([]river.InsertManyParams, min(n, submitBatch))
		for i := range batch {
			batch[i].Args = first(s, r.flow.Add(1))
		}
		if _, err := r.client.InsertManyFast(ctx, batch); err != nil {
			return err
		}
		n -= len(batch)
	}
	return nil
}

func first(s bench.Shape, flow int64) river.JobArgs {
	if s.Steps == 1 {
		return noopArgs{Flow: flow}
	}
	return stepArgs{Flow: flow, Shape: s.Name, Step: 1, Steps: s.Steps}
}

// Drain implements bench.System. It reads the database once the workers have run as often as
// they have to.
func (r *riverSystem) Drain(ctx context.Context) error {
	return bench.Poll(ctx, func() (bool, error) {
		if r.ran.Load() < r.due {
			return false, nil
		}
		return r.still(ctx)
	})
}

// still reports whether no job is left to do.
func (r *riverSystem) still(ctx context.Context) (bool, error) {
	var open bool
	err := r.pool.QueryRow(ctx, "select exists (select from river_job where state in ('available', 'running', 'retryable', 'scheduled', 'pending'))").Scan(&open)
	return !open, err
}

// insert inserts jobs of one step with the times at which they were due.
func (r *riverSystem) insert(ctx context.Context, due []int64, body string) error {
	batch := make([]river.InsertManyParams, len(due))
	for i, at := range due {
		batch[i].Args = noopArgs{Flow: r.flow.Add(1), Due: at, Body: body}
	}
	_, err := r.client.InsertManyFast(ctx, batch)
	return err
}

// Run implements bench.System. The end is known from the worker of the last
// step, after its commit, and of a job of one step from River's event.
func (r *riverSystem) Run(ctx context.Context, s bench.Shape) error {
	if s.Steps == 1 {
		return r.runOne(ctx)
	}
	flow, ended := r.flow.Add(1), make(chan struct{})
	r.ended.Store(flow, ended)
	if _, err := r.client.Insert(ctx, first(s, flow), nil); err != nil {
		return err
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *riverSystem) runOne(ctx context.Context) error {
	events, cancel := r.client.Subscribe(river.EventKindJobCompleted)
	defer cancel()
	inserted, err := r.client.Insert(ctx, noopArgs{Flow: r.flow.Add(1)}, nil)
	if err != nil {
		return err
	}
	for {
		select {
		case e := <-events:
			if e.Job.ID == inserted.Job.ID {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// finish wakes the caller that waits for a flow.
func (r *riverSystem) finish(flow int64) {
	if ended, ok := r.ended.LoadAndDelete(flow); ok {
		close(ended.(chan struct{}))
	}
}

// Begin implements bench.System.
func (r *riverSystem) Begin(f func(time.Time)) {
	if f == nil {
		r.begin.Store(nil)
		return
	}
	r.begin.Store(&f)
}

func (r *riverSystem) began() {
	if f := r.begin.Load(); f != nil {
		(*f)(time.Now())
	}
}

// Close implements bench.System.
func (r *riverSystem) Close() error {
	defer r.pool.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := r.client.Stop(ctx); err != nil {
		return fmt.Errorf("stop river: %w", err)
	}
	return nil
}
