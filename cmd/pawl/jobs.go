package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

const jobsLong = `List the jobs of the workspace, newest first.

--status takes SUBMITTED, PENDING, RUNNING, COMPLETED, FAILED and CANCELED, in any case,
separated by commas; and timed-out, the CANCELED jobs that exceeded their timeout.
--limit is 1 to 1000, 50 by default. STEPS is how many steps have ended, and how many
there are.

--stuck lists the unfinished jobs in which nothing has moved for 10 minutes, or for the
duration of --for, each with its main reason; "pawl job why JOB" has all reasons. With
--attention only those that ought to move: those that wait for a person, a time, a signal,
a child job or a slot are left out.

--meta lists the jobs that were submitted with this member of metadata.`

func newJobs(a *app) *cobra.Command {
	q := pawl.JobQuery{}
	statuses, form, stuck, attention, still := "", formText, false, false, 10*time.Minute
	var meta []string
	c := &cobra.Command{
		Use: "jobs", Short: "List jobs", Long: jobsLong,
		Example: "  pawl jobs\n  pawl jobs --status failed,timed-out --workflow nightly --limit 10\n  pawl jobs --stuck --for 1h\n  pawl jobs --meta team=billing\n  pawl jobs -o json",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if q.Statuses, q.TimedOut, err = parseStatuses(statuses); err != nil {
				return err
			}
			if err := inRange("--limit", q.Limit, 1, 1000); err != nil {
				return err
			}
			q.Workspace = a.workspace
			if q.Metadata, err = membersOf(meta); err != nil {
				return err
			}
			if attention && !stuck {
				return usage("", "--attention goes with --stuck")
			}
			if stuck {
				if attention {
					q.Stuck = max(still, time.Microsecond)
				}
				return a.stuck(c.Context(), q, still, form)
			}
			if c.Flags().Changed("for") {
				return usage("", "--for goes with --stuck")
			}
			return a.jobs(c.Context(), q, form)
		},
	}
	c.Flags().StringVar(&statuses, "status", "", "only jobs in these states, separated by commas")
	c.Flags().StringVar(&q.Workflow, "workflow", "", "only jobs of this workflow")
	c.Flags().IntVar(&q.Limit, "limit", 50, "how many to list at most, 1 to 1000")
	c.Flags().BoolVar(&stuck, "stuck", false, "only unfinished jobs in which nothing moves, with the reason")
	c.Flags().BoolVar(&attention, "attention", false, "with --stuck: only those that ought to move")
	c.Flags().StringArrayVar(&meta, "meta", nil, "only jobs with this metadata, as key=value; may be repeated")
	c.Flags().DurationVar(&still, "for", still, "with --stuck: how long nothing has moved")
	bindForm(a, c, &form, "a list of jobs")
	return c
}

// membersOf returns the members of metadata that --meta names.
func membersOf(pairs []string) (map[string]string, error) {
	members := make(map[string]string, len(pairs))
	_, err := valuesOf("--meta", "write --meta team=billing", pairs, func(key, text string) (any, error) {
		members[key] = text
		return text, nil
	})
	return members, err
}

// statusTimedOut is used like a state, for jobs that were CANCELED by their timeout.
const statusTimedOut = "TIMED-OUT"

func parseStatuses(text string) (states []machine.State, timedOut bool, err error) {
	if text == "" {
		return nil, false, nil
	}
	for _, word := range strings.Split(text, ",") {
		switch s := strings.ToUpper(strings.TrimSpace(word)); {
		case s == statusTimedOut:
			timedOut = true
		case lifecycle.Job.Has(machine.State(s)):
			states = append(states, machine.State(s))
		default:
			return nil, false, badStatus(word)
		}
	}
	return states, timedOut, nil
}

func badStatus(word string) error {
	names := append(words(lifecycle.Job.States), statusTimedOut)
	hint := ""
	if near := nearest(word, names); near != "" {
		hint = "did you mean: --status " + near
	}
	return usage(hint, "--status %q: want %s", word, console.Alternatives(names))
}

func (a *app) jobs(ctx context.Context, q pawl.JobQuery, form string) error {
	return a.with(ctx, func(ctx context.Context, cl *client.Client) error {
		jobs, err := cl.Jobs.List(ctx, q)
		if err != nil {
			return err
		}
		return showList(a, form, jobs, "jobs", func(jobs []pawl.JobView) [][]string { return console.JobRows(jobs, time.Now(), a.outZone()) })
	})
}

// stuck lists the jobs that have not changed for some time.
func (a *app) stuck(ctx context.Context, q pawl.JobQuery, still time.Duration, form string) error {
	if still < 0 {
		return usage("", "--for %s: want a duration of 0 or more", still)
	}
	if q.TimedOut {
		q.Statuses = append(q.Statuses, lifecycle.JobCanceled)
	}
	if i := slices.IndexFunc(q.Statuses, lifecycle.Job.Ended); i >= 0 {
		return usage("", "--status %s: a job that has ended is not stuck", q.Statuses[i])
	}
	return a.with(ctx, func(ctx context.Context, cl *client.Client) error {
		jobs, err := cl.Inspect.Stuck(ctx, q, still)
		if err != nil {
			return err
		}
		return showList(a, form, jobs, "stuck jobs", func(jobs []pawl.StuckJob) [][]string { return console.StuckRows(jobs, time.Now()) })
	})
}

// completedJobs is how many jobs are offered to the shell.
const completedJobs = 50

// completeJobs offers the newest jobs to the shell, if the database is there.
func (a *app) completeJobs(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completedFirst(c, args, begun, func(ctx context.Context, cl *client.Client, offer func(word, about string)) error {
		jobs, err := cl.Jobs.List(ctx, pawl.JobQuery{Workspace: a.workspace, Limit: completedJobs})
		for i := range jobs {
			offer(jobs[i].ID, jobs[i].Workflow+" "+string(jobs[i].Status))
		}
		return err
	})
}
