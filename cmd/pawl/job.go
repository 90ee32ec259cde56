package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/inspect"
)

func newJob(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "job", Short: "Look at one job, or change what becomes of it",
		Long:    "Look at one job, or change what becomes of it. See \"pawl --help\" for how a JOB is named.",
		Example: "  pawl job show last\n  pawl job retry last",
	})
	c.AddCommand(newJobShow(a), newJobHistory(a), newJobLogs(a), newJobWhy(a), newJobDiff(a), newJobCancel(a))
	c.AddCommand(newJobPause(a), newJobResume(a), newJobRetry(a), newJobSignal(a), newJobMove(a), newJobRedact(a))
	return c
}

// jobOf reads the JOB of a command line.
func (a *app) jobOf(ctx context.Context, cl *client.Client, text string) (pawl.ID, error) {
	id, err := inspect.Job(ctx, cl, a.workspace, text)
	switch {
	case err == nil || hintOf(err) != "":
		return id, err
	case pawl.KindOf(err) == pawl.NotFound:
		return id, hinted(err, "list the jobs with: pawl jobs"+a.given)
	case pawl.KindOf(err) == pawl.Invalid:
		return id, hinted(err, "list the jobs with: pawl jobs")
	}
	return id, err
}

// withJob reaches the orchestrator, and the job that the command line names.
func (a *app) withJob(ctx context.Context, text string, f func(*client.Client, pawl.ID) error) error {
	return a.with(ctx, func(cl *client.Client) error {
		id, err := a.jobOf(ctx, cl, text)
		if err != nil {
			return err
		}
		return f(cl, id)
	})
}

func newJobShow(a *app) *cobra.Command {
	form, past := formText, momentFlags{}
	c := &cobra.Command{
		Use: "show JOB", Short: "Show a job and its steps", Long: showLong,
		Example: "  pawl job show last\n  pawl job show j_019a3c7e5b7a7c1d8000000040a1b2c3 -o json\n  pawl job show last --at 10m",
		Args:    want(1, 1, "a JOB"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			return a.withJob(c.Context(), args[0], func(cl *client.Client, id pawl.ID) error {
				v, err := past.job(c, cl, id)
				if err != nil {
					return err
				}
				if form == formJSON {
					return console.JSON(a.stdout, v)
				}
				return console.Job(a.stdout, v, console.Frame{Now: console.AsOf(v, time.Now()), Given: a.given, Zone: a.outZone()})
			})
		},
	}
	bindForm(c, &form, "the job")
	past.add(c)
	return c
}
