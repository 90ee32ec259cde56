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
	c := must(local.Open(ctx, "pawl.db", local.Config{}))
	defer c.Close()
	w := must(worker.New(c, worker.Config{}))
	worker.Handle(w, "double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	worker.Handle(w, "say", func(_ context.Context, n int) (string, error) { return fmt.Sprint("it is ", n), nil })
	go w.Run(ctx)

	def := must(workflow.File{Name: "twice", Steps: []workflow.Step{
		{ID: "double", Handler: "double", With: 21},
		{ID: "say", Needs: []string{"double"}, Handler: "say", With: "${{ steps.double.output }}"},
	}, Output: "${{ steps.say.output }}"}.Build())
	job := must(c.Jobs.Wait(ctx, must(c.Jobs.Submit(ctx, def, nil))))
	fmt.Println(string(job.Output))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
