package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/lifecycle"
)

const stepLong = `Retry, skip or resolve one step of a job that runs. Each is refused (exit 5) where
the table of steps does not allow it: see "pawl machine show step".

A STEP is its key, as "pawl job show" has it: load, load[3] for one instance of a
foreach, test[linux,arm64] for one of a matrix. Shells want brackets in quotes.`

func newStep(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "step", Short: "Retry, skip or resolve one step", Long: stepLong,
		Example: "  pawl step retry last load\n  pawl step skip last \"load[3]\"",
	})
	c.AddCommand(newStepRetry(a), newStepSkip(a), newStepResolve(a))
	return c
}

// A stepVerb is what an operator does to a step.
type stepVerb func(ctx context.Context, cl *client.Client, id pawl.ID, step string, c pawl.Change) error

// onStep applies a verb to the step that the command line names, and says what the
// step is then.
func (a *app) onStep(ctx context.Context, args []string, reason, done string, do stepVerb) error {
	return a.withJob(ctx, args[0], func(cl *client.Client, id pawl.ID) error {
		if err := do(ctx, cl, id, args[1], a.change(reason)); err != nil {
			return a.instead(ctx, cl, id, args[1], err)
		}
		_, err := fmt.Fprintf(a.stdout, "step %s of job %s is %s\n", args[1], id.Public(pawl.JobPrefix), done)
		return err
	})
}

// instead adds to a refusal what can be done in its place.
func (a *app) instead(ctx context.Context, cl *client.Client, id pawl.ID, step string, refusal error) error {
	if pawl.KindOf(refusal) != pawl.Conflict || hintOf(refusal) != "" {
		return refusal
	}
	v, err := cl.Jobs.Get(ctx, id)
	if err != nil {
		return refusal
	}
	hint := ""
	for i := range v.Steps {
		if v.Steps[i].Key == step {
			if command := console.Answer(&v.Steps[i], v.ID, a.given); command != "" {
				hint = "answer the approval with: " + command
			}
		}
	}
	if v.Status == lifecycle.JobFailed || v.Status == lifecycle.JobCanceled {
		hint = "continue the job with a new one: pawl job retry " + v.ID + a.given
	}
	if hint == "" {
		return refusal
	}
	return &pawl.Error{Kind: pawl.Conflict, Message: refusal.Error(), Hint: hint}
}

func newStepRetry(a *app) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: "retry JOB STEP", Short: "Let the next attempt of a step begin now",
		Long: "Let the next attempt of a step that waits for its backoff begin now. Its attempts count\n" +
			"as before. A job that has ended is retried as a whole: see \"pawl job retry\".",
		Example: "  pawl step retry last load --reason \"the disk is there again\"",
		Args:    want(2, 2, "a JOB and a STEP"), ValidArgsFunction: a.completeSteps,
		RunE: func(c *cobra.Command, args []string) error {
			return a.onStep(c.Context(), args, reason, "retried", func(ctx context.Context, cl *client.Client, id pawl.ID, step string, ch pawl.Change) error {
				return cl.Steps.Retry(ctx, id, step, ch)
			})
		},
	}
	bindReason(c, &reason)
	return c
}

func newStepSkip(a *app) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: "skip JOB STEP", Short: "End a step as skipped",
		Long: "End a step that has not begun, or waits for its next attempt, as skipped. What depends on\n" +
			"it is skipped too, as for a condition that is false.",
		Example: "  pawl step skip last upload --reason \"nothing to upload today\"",
		Args:    want(2, 2, "a JOB and a STEP"), ValidArgsFunction: a.completeSteps,
		RunE: func(c *cobra.Command, args []string) error {
			return a.onStep(c.Context(), args, reason, "skipped", func(ctx context.Context, cl *client.Client, id pawl.ID, step string, ch pawl.Change) error {
				return cl.Steps.Skip(ctx, id, step, ch)
			})
		},
	}
	bindReason(c, &reason)
	return c
}

func newStepResolve(a *app) *cobra.Command {
	reason, data := "", ""
	c := &cobra.Command{
		Use: "resolve JOB STEP", Short: "End a step with an output given by hand",
		Long: "End a step that has not begun, or waits for its next attempt, as resolved_manually, with\n" +
			"the output that --data gives. What depends on it goes on. In a job with on_error: drain\n" +
			"a step that has failed can be resolved as long as the job runs.",
		Example: "  pawl step resolve last count --data 42\n  pawl step resolve last extract --data @files.json --reason \"done by hand\"",
		Args:    want(2, 2, "a JOB and a STEP"), ValidArgsFunction: a.completeSteps,
		RunE: func(c *cobra.Command, args []string) error {
			output, err := dataOf(c)
			if err != nil {
				return err
			}
			return a.onStep(c.Context(), args, reason, "resolved", func(ctx context.Context, cl *client.Client, id pawl.ID, step string, ch pawl.Change) error {
				return cl.Steps.Resolve(ctx, id, step, output, ch)
			})
		},
	}
	bindReason(c, &reason)
	c.Flags().StringVar(&data, "data", "", "the step's output, as JSON or @FILE of it; default null")
	return c
}
