package main

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"github.com/pawl-dev/pawl/internal/lab/bench"
)

// noopArgs belong to a job of one step, which River completes by itself, many at once.
type noopArgs struct {
	Flow int64  `json:"flow"`
	Due  int64  `json:"due,omitempty"`
	Body string `json:"body,omitempty"`
}

func (noopArgs) Kind() string { return "noop" }

type noopWorker struct {
	river.WorkerDefaults[noopArgs]
	system *riverSystem
}

func (w *noopWorker) Work(ctx context.Context, job *river.Job[noopArgs]) error {
	w.system.began()
	w.system.ran.Add(1)
	if w.system.hand != nil {
		w.system.hand.Began(job.Args.Due)
	}
	if w.system.output != "" {
		return river.RecordOutput(ctx, w.system.output)
	}
	return nil
}

// stepArgs belong to a step of a graph. It inserts its successors in the transaction that
// completes it, so that neither happens without the other.
type stepArgs struct {
	Flow  int64  `json:"flow"`
	Shape string `json:"shape"`
	Step  int    `json:"step"` // from 1
	Steps int    `json:"steps"`
}

func (stepArgs) Kind() string { return "step" }

type stepWorker struct {
	river.WorkerDefaults[stepArgs]
	system *riverSystem
}

func (w *stepWorker) Work(ctx context.Context, job *river.Job[stepArgs]) error {
	w.system.began()
	err := pgx.BeginFunc(ctx, w.system.pool, func(tx pgx.Tx) error {
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job); err != nil {
			return err
		}
		return w.follow(ctx, tx, job.Args)
	})
	if err != nil {
		return err
	}
	w.system.ran.Add(1)
	if job.Args.Step == job.Args.Steps {
		w.system.finish(job.Args.Flow)
	}
	return nil
}

// follow inserts the successors of a step.
func (w *stepWorker) follow(ctx context.Context, tx pgx.Tx, a stepArgs) error {
	switch a.Shape {
	case bench.Diamond.Name:
		return w.diamond(ctx, tx, a)
	case bench.FanOut.Name, bench.WideFanOut.Name:
		return w.fanOut(ctx, tx, a)
	}
	if a.Step == a.Steps {
		return nil
	}
	a.Step++
	_, err := w.system.client.InsertTx(ctx, tx, a, nil)
	return err
}

// diamond goes from the top to both sides, and from the side that ends last to the bottom.
func (w *stepWorker) diamond(ctx context.Context, tx pgx.Tx, a stepArgs) error {
	left, right, bottom := a, a, a
	left.Step, right.Step, bottom.Step = 2, 3, 4
	switch a.Step {
	case 1:
		_, err := w.system.client.InsertManyFastTx(ctx, tx, []river.InsertManyParams{{Args: left}, {Args: right}})
		return err
	case 2, 3:
		return w.join(ctx, tx, 2, bottom)
	}
	return nil
}

// join inserts the next step once n of those before it have arrived.
func (w *stepWorker) join(ctx context.Context, tx pgx.Tx, n int, next stepArgs) error {
	var arrived int
	err := tx.QueryRow(ctx, `insert into joins (flow, arrived) values ($1, 1)
		on conflict (flow) do update set arrived = joins.arrived + 1 returning arrived`, next.Flow).Scan(&arrived)
	if err != nil || arrived < n {
		return err
	}
	_, err = w.system.client.InsertTx(ctx, tx, next, nil)
	return err
}

// fanOut goes from the first step to many, and from the one of them that ends last to the last step.
func (w *stepWorker) fanOut(ctx context.Context, tx pgx.Tx, a stepArgs) error {
	switch a.Step {
	case 1:
		each := make([]river.InsertManyParams, a.Steps-2)
		for i := range each {
			next := a
			next.Step = 2 + i
			each[i].Args = next
		}
		_, err := w.system.client.InsertManyFastTx(ctx, tx, each)
		return err
	case a.Steps:
		return nil
	}
	last := a
	last.Step = a.Steps
	return w.join(ctx, tx, a.Steps-2, last)
}
