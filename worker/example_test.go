package worker_test

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/local"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// A step asks for an export until it is ready. Its policy allows one attempt, and that is
// what it takes.
func ExampleSnooze() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c, err := local.Open(ctx, "sqlite::memory:", local.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	w, _ := worker.New(c, worker.Config{})
	asked := 0
	worker.Handle(w, "export", func(ctx context.Context, _ any) (string, error) {
		if asked++; asked < 3 {
			return "", worker.Snooze(10 * time.Millisecond)
		}
		return fmt.Sprintf("asked %d times, in attempt %d", asked, worker.TaskOf(ctx).Attempt), nil
	})
	drained := make(chan error)
	go func() { drained <- w.Run(ctx) }()

	def, _ := workflow.File{Name: "report", Steps: []workflow.Step{
		{ID: "export", Handler: "export", Retry: workflow.Retry{MaxAttempts: 1}},
	}, Output: "${{ steps.export.output }}"}.Build()
	id, _ := c.Jobs.Submit(ctx, def, nil)
	job, err := c.Jobs.Wait(ctx, id)
	var text string
	fmt.Println(err, job.Decode(&text), text)
	stop()
	fmt.Println(<-drained)
	// Output:
	// <nil> <nil> asked 3 times, in attempt 1
	// <nil>
}
