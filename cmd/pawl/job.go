package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/inspect"
)

func newJob(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "job", Short: "Show one job, or change its course",
		Long:    "Show one job, or change its course. \"pawl --help\" says how to name a JOB.",
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
	case err == nil || console.Hint(err) != "":
		return id, err
	case pawl.KindOf(err) == pawl.NotFound:
		return id, hinted(err, "list the jobs with: pawl jobs"+a.given)
	case pawl.KindOf(err) == pawl.Invalid:
		return id, hinted(err, "list the jobs with: pawl jobs")
	}
	return id, err
}

func newJobShow(a *app) *cobra.Command {
	form, past := formText, momentFlags{}
	c := &cobra.Command{
		Use: "show JOB", Short: "Show a job and its steps", Long: showLong,
		Example: "  pawl job show last\n  pawl job show j_019a3c7e5b7a7c1d8000000040a1b2c3 -o json\n  pawl job show last --at 10m",
		Args:    want(1, 1, "a JOB"), ValidArgsFunction: a.completeJobs,
		RunE: a.onJob(func(ctx context.Context, cl *client.Client, id pawl.ID, _ []string) error {
			v, err := past.job(ctx, cl, id)
			if err != nil {
				return err
			}
			return a.show(form, v, func() error {
				return console.Job(a.stdout, v, console.Frame{Now: console.AsOf(v, time.Now()), Given: a.given, Zone: a.outZone()})
			})
		}),
	}
	bindForm(a, c, &form, "the job")
	past.bind(c)
	return c
}

// parseInstant reads the time in the past that a flag gives: as Pawl shows it, a time of today in UTC, or a
// duration before now.
func parseInstant(flag, text string, now time.Time) (time.Time, error) {
	at, ok := console.ParseTime(strings.TrimSpace(text), now.UTC())
	switch {
	case !ok:
		return at, usage("", "%s %q: want a time such as 2026-01-31T10:00:00Z, one of today in UTC such as 10:00:00, or a duration ago such as 10m", flag, text)
	case at.After(now):
		return at, usage("", "%s %q: %s is in the future", flag, text, console.Stamp(at, nil))
	}
	return at, nil
}

const showLong = `Show a job: its state, its steps, and its output or why it failed. With -o json it is
printed as by "pawl run -o json".

--at shows the job as it was at a time: 2026-01-31T10:00:00Z, 10:00:00 (today, in UTC),
or 10m (ago). --seq N shows it as it was after the Nth move in its own trail, with its
steps at the time of that move. Both rebuild the job from the audit trail; outputs are
those of the steps that had ended by then.`

// momentFlags are --at and --seq.
type momentFlags struct {
	at    string
	seq   int
	given func(flag string) bool
}

func (f *momentFlags) bind(c *cobra.Command) {
	c.Flags().StringVar(&f.at, "at", "", "show it as it was at that time: RFC 3339, a time of today in UTC, or a duration ago")
	c.Flags().IntVar(&f.seq, "seq", 0, "show it as it was after that move in the job's own trail, from 1")
	f.given = c.Flags().Changed
}

// job returns the job as it is, or as it was at the given moment.
func (f *momentFlags) job(ctx context.Context, cl *client.Client, id pawl.ID) (*pawl.JobView, error) {
	m := pawl.Moment{Sequence: int64(f.seq)}
	switch {
	case !f.given("at") && !f.given("seq"):
		return cl.Jobs.Get(ctx, id)
	case f.given("at") && f.given("seq"):
		return nil, usage("", "--at and --seq: want one of them")
	case f.given("seq") && f.seq < 1:
		return nil, usage("", "--seq %d: want 1 or more", f.seq)
	case f.given("at"):
		at, err := parseInstant("--at", f.at, time.Now())
		if err != nil {
			return nil, err
		}
		m = pawl.Moment{Time: pawl.Timestamp(pawl.Micros(at))}
	}
	return cl.Inspect.At(ctx, id, m)
}

const historyLong = `Show every move of a job and its steps, in the order of time: when, of what, from which
state to which, by which event, who, and why. TOOK is how long the state lasted that the
move leaves. A line marked REFUSED is a fact that came too late, such as the result of a
worker that had lost its step; it changed nothing.

--step shows one step only: load with all its instances, load[3], or job for the job
itself. --limit shows the last moves only. A long history is printed while it is read,
with columns aligned for 1,000 lines at a time. In JSON, "took" is a duration such as
"1m30.5s"; a move that leaves no state has none.`

func newJobHistory(a *app) *cobra.Command {
	form, step, limit := formText, "", 0
	c := &cobra.Command{
		Use: "history JOB", Short: "Show every move of a job and its steps", Long: historyLong,
		Example: "  pawl job history last\n  pawl job history last --step load --limit 20\n  pawl job history last -o json",
		Args:    want(1, 1, "a JOB"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 0 {
				return usage("", "--limit %d: want 0 or more; 0 is no limit", limit)
			}
			return a.onJob(func(ctx context.Context, cl *client.Client, id pawl.ID, _ []string) error {
				rows := console.History(a.stdout, form == formJSON, a.outZone())
				last := &console.Tail[pawl.Transition]{Limit: limit, F: rows.Add}
				if err := inspect.History(ctx, cl, id, step, last.Add); err != nil {
					return err
				}
				if err := last.End(); err != nil {
					return err
				}
				return rows.End()
			})(c, args)
		},
	}
	bindForm(a, c, &form, "a list of moves")
	c.Flags().StringVar(&step, "step", "", "only the moves of this step; job: those of the job itself")
	c.Flags().IntVar(&limit, "limit", 0, "how many of the last moves to show; 0 is all")
	return c
}

const whyLong = `Say why a job does not continue: what the job itself waits for, then each step that has
not ended and does not run on a worker, with what would unblock it. Of a fan-out the
first instances have a line each, and the line of the fan-out covers all. With a STEP
(load, or load[3] for an instance) the answer is about that step, whatever its state.
Times are in UTC.

With -o json it is a list of reasons; programs can rely on their "kind".`

func newJobWhy(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "why JOB [STEP]", Short: "Say why a job does not continue", Long: whyLong,
		Example: "  pawl job why last\n  pawl job why last load[3]\n  pawl job why last -o json",
		Args:    want(1, 2, "a JOB and perhaps a STEP"), ValidArgsFunction: a.completeJobs,
		RunE: a.onJob(func(ctx context.Context, cl *client.Client, id pawl.ID, rest []string) error {
			reasons, err := cl.Inspect.Why(ctx, id, optional(rest))
			if err != nil {
				return err
			}
			return a.show(form, reasons, func() error { return console.Reasons(a.stdout, reasons) })
		}),
	}
	bindForm(a, c, &form, "a list of reasons")
	return c
}

const diffLong = `Compare two jobs, usually of one workflow: their definitions, inputs, outputs and
durations, and the state, attempts, time, output and error of each step. A line of the
first job begins with -, one of the second with +. A step is shown if its state,
attempts, output or error differ; --all shows every step. Long values are cut. A fan-out
is compared as a whole, with the number of its instances.`

func newJobDiff(a *app) *cobra.Command {
	form, all := formText, false
	c := &cobra.Command{
		Use: "diff JOB JOB", Short: "Compare two jobs", Long: diffLong,
		Example: "  pawl job diff a1b2c3 last\n  pawl job diff a1b2c3 last -o json",
		Args:    want(2, 2, "two JOBs"), ValidArgsFunction: a.completeJobs,
		RunE: a.onJob(func(ctx context.Context, cl *client.Client, id pawl.ID, rest []string) error {
			other, err := a.jobOf(ctx, cl, rest[0])
			if err != nil {
				return err
			}
			d, err := inspect.Compare(ctx, cl, id, other)
			if err != nil {
				return err
			}
			return a.show(form, d, func() error { return console.JobDiff(a.stdout, d, all) })
		}),
	}
	bindForm(a, c, &form, "everything that is compared")
	c.Flags().BoolVar(&all, "all", false, "show steps that are alike, too")
	return c
}

const logsLong = `Print the output of the steps of a job on stdout: of all steps, each line behind the key
of its step, or of one STEP (load, or load[3] of a fan-out), unchanged. --follow
continues until the job has ended, at most a second late. If an attempt printed very
much, its middle is left out, and a line says so.`

func newJobLogs(a *app) *cobra.Command {
	followed := false
	c := &cobra.Command{
		Use: "logs JOB [STEP]", Short: "Print the output of the steps of a job", Long: logsLong,
		Example: "  pawl job logs last\n  pawl job logs last load[3] --follow",
		Args:    want(1, 2, "a JOB and perhaps a STEP"), ValidArgsFunction: a.completeJobs,
		RunE: a.onJob(func(ctx context.Context, cl *client.Client, id pawl.ID, rest []string) error {
			p := console.NewLogPrinter(a.stdout, optional(rest))
			defer p.Close()
			print := func() error { return cl.Inspect.Logs(ctx, id, optional(rest), p.Print) }
			if followed {
				return inspect.UntilEnded(ctx, cl, id, print)
			}
			return print()
		}),
	}
	c.Flags().BoolVarP(&followed, "follow", "f", false, "continue until the job has ended")
	return c
}
