// Command quickstart is the program of README.md.
package main

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/local"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

func main() {
	ctx := context.Background()
	c, err := local.Open(ctx, "pawl.db", local.Config{})
	check(err)
	defer c.Close()

	w, err := worker.New(c, worker.Config{})
	check(err)
	worker.Handle(w, "double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	worker.Handle(w, "say", func(_ context.Context, n int) (string, error) { return fmt.Sprint("it is ", n), nil })
	go w.Run(ctx)

	def, err := workflow.File{Name: "twice", Steps: []workflow.Step{
		{ID: "double", Handler: "double", With: 21},
		{ID: "say", Needs: []string{"double"}, Handler: "say", With: "${{ steps.double.output }}"},
	}, Output: "${{ steps.say.output }}"}.Build()
	check(err)
	id, err := c.Jobs.Submit(ctx, def, nil)
	check(err)
	job, err := c.Jobs.Wait(ctx, id)
	check(err)
	fmt.Println(string(job.Output))
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
