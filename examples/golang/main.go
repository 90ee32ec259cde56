// Command golang embeds Pawl in a Go program: it opens a database, serves a
// handler written in Go, submits a workflow made in Go, and waits for its end.
//
//	go run ./examples/golang
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "pawl-golang-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "pawl.db")})
	if err != nil {
		return err
	}
	defer db.Close()
	e := engine.New(engine.Config{Store: db})
	defer e.Close()
	w, err := worker.Start(ctx, e, worker.Config{Handlers: map[string]worker.Handler{
		"billing.charge": worker.Func(charge),
	}})
	if err != nil {
		return err
	}
	defer w.Drain(ctx)
	return submit(ctx, e)
}

// charge is a handler. Its first attempt fails, and the engine tries again.
func charge(_ context.Context, t *worker.Task) (any, error) {
	if t.Attempt == 1 {
		return nil, errors.New("the bank does not answer")
	}
	return fmt.Sprintf("charged %s at attempt %d", t.Work.With, t.Attempt), nil
}

func submit(ctx context.Context, e *engine.Engine) error {
	def, err := workflow.File{
		Name: "billing",
		Steps: []workflow.Step{{
			ID: "charge", Handler: "billing.charge", With: map[string]any{"amount": 42},
			Retry: workflow.Retry{Base: 100 * time.Millisecond},
		}},
		Output: "${{ steps.charge.output }}",
	}.Build()
	if err != nil {
		return err
	}
	answers, err := e.Submit(ctx, pawl.Submission{Definition: def.Canonical(), Actor: "example"})
	if err != nil {
		return err
	}
	if answers[0].Err != nil {
		return answers[0].Err
	}
	job, err := e.Wait(ctx, answers[0].ID)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s\n", job.State, job.Output)
	return nil
}
