package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

func newJob(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "job", Short: "Look at one job, or cancel it",
		Long:    "Look at one job, or cancel it. See \"pawl --help\" for how a JOB is named.",
		Example: "  pawl job show 3f9a01\n  pawl job history 3f9a01",
	})
	c.AddCommand(newJobShow(a), newJobHistory(a), newJobLogs(a), newJobCancel(a))
	return c
}

// withJob reaches the orchestrator, and the job that the command line names.
func (a *app) withJob(ctx context.Context, text string, f func(orchestrator, pawl.ID) error) error {
	return a.with(ctx, func(o orchestrator) error {
		id, err := a.jobOf(ctx, o, text)
		if err != nil {
			return err
		}
		return f(o, id)
	})
}

func newJobShow(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "show JOB", Short: "Show a job and its steps",
		Long:    "Show a job: its state, its steps, its output or why it failed. With -o json it is\nthe job as \"pawl run -o json\" prints it. Times are in UTC.",
		Example: "  pawl job show 3f9a01\n  pawl job show j_019a3c7e5b7a7c1d8000000040a1b2c3 -o json",
		Args:    want(1, 1, "a JOB"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if err := oneOf("output", form, formText, formJSON); err != nil {
				return err
			}
			return a.withJob(c.Context(), args[0], func(o orchestrator, id pawl.ID) error {
				v, err := o.Job(c.Context(), id)
				if err != nil {
					return err
				}
				if form == formJSON {
					return writeJSON(a.stdout, v)
				}
				return showJob(a.stdout, v, time.Now())
			})
		},
	}
	c.Flags().StringVarP(&form, "output", "o", formText, "text, or json: the job")
	return c
}

// showJob writes a job for people.
func showJob(w io.Writer, v *pawl.JobView, now time.Time) error {
	for _, line := range drawTree(v, frame{now: now}) {
		fmt.Fprintln(w, line)
	}
	fmt.Fprintln(w)
	for _, fact := range [][2]string{
		{"description", v.Description},
		{"workspace", v.Workspace},
		{"definition", v.DefinitionHash},
		{"created", v.CreatedAt.String()},
		{"started", v.StartedAt.String()},
		{"completed", v.CompletedAt.String()},
		{"inputs", compact(string(v.Inputs), "{}")},
		{"error", printable(message(v.Error))},
	} {
		if fact[1] != "" {
			fmt.Fprintf(w, "%-12s %s\n", fact[0], fact[1])
		}
	}
	if len(v.Output) == 0 || string(v.Output) == "null" {
		return nil
	}
	fmt.Fprintln(w, "output")
	return writeOutput(w, v.Output)
}

// compact answers a text, or nothing where it says nothing.
func compact(text, nothing string) string {
	if text == nothing {
		return ""
	}
	return text
}

func newJobCancel(a *app) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: "cancel JOB", Short: "Cancel a job",
		Long:    "Cancel a job: what has not started never will, and what runs is asked to stop and\nis left behind after 10 s. The command prints the job's state after a second at\nmost. A job that has ended is a conflict (exit 5). The reason goes into the audit trail.",
		Example: "  pawl job cancel 3f9a01 --reason \"wrong day\"",
		Args:    want(1, 1, "a JOB"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			return a.cancelJob(c.Context(), args[0], reason)
		},
	}
	c.Flags().StringVar(&reason, "reason", "", `why, for the audit trail; default "canceled"`)
	return c
}

// cancelJob cancels with an engine of its own: the process that ran the job may
// be dead, and then nobody else would end it.
func (a *app) cancelJob(ctx context.Context, text, reason string) (err error) {
	l, err := a.openLedger(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	id, err := a.jobOf(ctx, l.engine, text)
	if err != nil {
		return err
	}
	if err := l.engine.Cancel(ctx, id, workflow.Note{Actor: a.actor(), Reason: reason}); err != nil {
		return err
	}
	if err := l.engine.Takeover(ctx); err != nil {
		return err
	}
	moment, done := context.WithTimeout(ctx, time.Second)
	defer done()
	if _, err := l.engine.Wait(moment, id); err != nil && moment.Err() == nil {
		return err
	}
	v, err := l.engine.Job(ctx, id)
	if err != nil {
		return err
	}
	state := string(v.Status)
	if v.Ending != "" {
		state += ", about to be " + string(v.Ending)
	}
	_, err = fmt.Fprintf(a.stdout, "job %s is %s\n", v.ID, state)
	return err
}
