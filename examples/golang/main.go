// Command golang embeds Pawl in a Go program: an engine in this process, a worker with two
// typed handlers, and a workflow made in Go.
//
//	go run ./examples/golang [DATABASE]
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/pawl-dev/pawl/local"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

type order struct {
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
}

type receipt struct {
	Number  string `json:"number"`
	Attempt int    `json:"attempt"`
}

// charge fails at its first attempt, and is tried again.
func charge(ctx context.Context, o order) (receipt, error) {
	if o.Cents <= 0 {
		return receipt{}, worker.Permanent(fmt.Errorf("cannot charge %d cents", o.Cents))
	}
	t := worker.TaskOf(ctx)
	if t.Attempt == 1 {
		return receipt{}, errors.New("the bank does not answer")
	}
	return receipt{Number: fmt.Sprintf("%s-%d", o.Customer, o.Cents), Attempt: t.Attempt}, nil
}

func mail(_ context.Context, r receipt) (string, error) {
	return fmt.Sprintf("receipt %s, charged at attempt %d", r.Number, r.Attempt), nil
}

func main() {
	database := "sqlite::memory:"
	if len(os.Args) > 1 {
		database = os.Args[1]
	}
	text, err := run(context.Background(), database, order{"ada", 4200})
	if err != nil {
		log.Fatal("error: ", err)
	}
	fmt.Println(text)
}

// run submits a job and returns its output.
func run(ctx context.Context, database string, of order) (text string, err error) {
	c, err := local.Open(ctx, database, local.Config{})
	if err != nil {
		return "", err
	}
	defer c.Close()
	w, err := worker.New(c, worker.Config{})
	if err != nil {
		return "", err
	}
	worker.Handle(w, "billing.charge", charge)
	worker.Handle(w, "billing.mail", mail)
	ctx, stop := context.WithCancel(ctx)
	drained := make(chan error, 1)
	go func() { drained <- w.Run(ctx) }()
	defer func() {
		stop()
		err = errors.Join(err, <-drained)
	}()

	id, err := c.Jobs.Submit(ctx, billing(), map[string]any{"order": of})
	if err != nil {
		return "", err
	}
	job, err := c.Jobs.Wait(ctx, id)
	if err != nil {
		return "", err
	}
	return text, job.Decode(&text)
}

func billing() *workflow.Definition {
	def, err := workflow.File{
		Name:   "billing",
		Inputs: map[string]workflow.InputSchema{"order": {Type: workflow.TypeObject, Required: true}},
		Steps: []workflow.Step{
			{ID: "charge", Handler: "billing.charge", With: "${{ inputs.order }}", Retry: workflow.Retry{Base: 100 * time.Millisecond}},
			{ID: "mail", Needs: []string{"charge"}, Handler: "billing.mail", With: "${{ steps.charge.output }}"},
		},
		Output: "${{ steps.mail.output }}",
	}.Build()
	if err != nil {
		panic(err) // it is the same at each run
	}
	return def
}
