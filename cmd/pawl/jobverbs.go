package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/internal/privatejob"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// newPausing makes the command that pauses or resumes jobs. It selects jobs whose paused flag
// has the given value.
func newPausing(a *app, verb, done string, paused bool, do func(*client.Jobs, context.Context, pawl.ID, pawl.Change) (pawl.Receipt, error), c *cobra.Command) *cobra.Command {
	reason := ""
	b := &bulk{verb: verb, done: done, statuses: []machine.State{lifecycle.JobPending, lifecycle.JobRunning},
		spare: func(all []inspect.Candidate) []inspect.Candidate {
			return slices.DeleteFunc(all, func(c inspect.Candidate) bool { return c.Paused != paused })
		}}
	c.RunE = a.on(func(ctx context.Context, cl *client.Client, args []string) error {
		return a.apply(ctx, cl, b, args, func(id pawl.ID) error {
			if _, err := do(cl.Jobs, ctx, id, a.change(reason)); err != nil {
				return err
			}
			return a.tell(id, done)
		})
	})
	b.bind(c, a)
	bindReason(c, &reason)
	return c
}

func newJobPause(a *app) *cobra.Command {
	return newPausing(a, "pause", "paused", false, (*client.Jobs).Pause, &cobra.Command{
		Short:   "Pause a job",
		Long:    "Pause a job: none of its steps begin until it is resumed. Running steps continue to their\nend, and the deadlines of the job stand.",
		Example: "  pawl job pause a1b2c3 --reason \"the disk is full\"\n  pawl job pause --all --workflow nightly",
	})
}

func newJobResume(a *app) *cobra.Command {
	return newPausing(a, "resume", "resumed", true, (*client.Jobs).Resume, &cobra.Command{
		Short:   "Resume a paused job",
		Long:    "Resume a paused job. To continue a job of \"pawl run\" whose process is gone, use \"pawl run\nFILE --resume\" instead.",
		Example: "  pawl job resume a1b2c3\n  pawl job resume --all --yes",
	})
}

// tell prints the new state of a job.
func (a *app) tell(id pawl.ID, what string) error {
	_, err := fmt.Fprintf(a.stdout, "job %s is %s\n", id.Public(pawl.JobPrefix), what)
	return err
}

func newJobCancel(a *app) *cobra.Command {
	reason := ""
	b := &bulk{verb: "cancel", done: "canceled", statuses: []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}, spare: inspect.WithoutChildren}
	c := &cobra.Command{
		Short: "Cancel a job",
		Long: "Cancel a job: steps that have not started never will, and running steps are asked to stop\n" +
			"and are abandoned after 10 s. The command prints the state of the job after at most a\n" +
			"second. A job that has ended is a conflict (exit 5).",
		Example: "  pawl job cancel a1b2c3 --reason \"wrong day\"\n  pawl job cancel --all --workflow nightly --yes",
		RunE:    func(c *cobra.Command, args []string) error { return a.cancel(c.Context(), b, args, reason) },
	}
	b.bind(c, a)
	c.Flags().StringVar(&reason, "reason", "", `why, for the audit trail; default "canceled"`)
	return c
}

// cancel cancels on a server, or with an engine of its own: the process that ran a job may be
// dead, and then nothing else would end the job.
func (a *app) cancel(ctx context.Context, b *bulk, args []string, reason string) error {
	if a.server != "" {
		return a.onServer(ctx, func(cl *client.Client) error {
			return a.cancelOn(ctx, cl, b, args, reason, func(asked []pawl.ID) error {
				return privatejob.Outcomes(ctx, cl, asked, time.Second, a.tellEnd)
			})
		})
	}
	if err := a.existing(); err != nil {
		return err
	}
	return a.onLedger(ctx, false, func(ctx context.Context, l *ledger) error {
		return a.cancelOn(ctx, l.client, b, args, reason, func(asked []pawl.ID) error {
			return privatejob.Settle(ctx, l.engine, l.client, asked, time.Second, a.tellEnd)
		})
	})
}

// cancelOn cancels jobs, and calls ends with those of which that was accepted.
func (a *app) cancelOn(ctx context.Context, cl *client.Client, b *bulk, args []string, reason string, ends func([]pawl.ID) error) error {
	var asked []pawl.ID
	refused := a.apply(ctx, cl, b, args, func(id pawl.ID) error {
		_, err := cl.Jobs.Cancel(ctx, id, a.change(reason))
		if err == nil {
			asked = append(asked, id)
		}
		return err
	})
	if err := ends(asked); err != nil {
		return err
	}
	return refused
}

// tellEnd prints the state of a canceled job.
func (a *app) tellEnd(id pawl.ID, v *pawl.JobView) error {
	if v.Ending != "" {
		return a.tell(id, fmt.Sprintf("%s, about to be %s", v.Status, v.Ending))
	}
	return a.tell(id, string(v.Status))
}

const moveLong = `Move an unfinished job to another version of its registered workflow, and continue it
there.

Steps that have begun must be the same in both versions, including their needs. If one
is not, the move is a conflict (exit 5), and the error names it. Steps that have not
begun may differ. New steps are added, and steps that the version does not have end as
skipped. The inputs of the job must fit the new version. Its limits (workers, timeout,
on_error, env, hooks) apply from now on. Commands start in the same folder as before.

--dry-run makes the same checks and prints what would happen, but changes nothing.`

func newJobMove(a *app) *cobra.Command {
	version, dryRun, reason, form := 0, false, "", formText
	c := &cobra.Command{
		Use: "move JOB --to VERSION", Short: "Move a job to another version of its workflow", Long: moveLong,
		Example: "  pawl job move a1b2c3 --to 4 --dry-run\n  pawl job move a1b2c3 --to 4 --reason \"the report was wrong\"",
		Args:    want(1, 1, "a JOB"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if version < 1 || version > workflow.MaxVersion {
				return usage("list the versions with: pawl workflow versions NAME", "--to %d: want the number of a version, from 1", version)
			}
			return a.onJob(func(ctx context.Context, cl *client.Client, id pawl.ID, _ []string) error {
				m, err := cl.Workflows.Move(ctx, id, version, dryRun, a.change(reason))
				if err != nil {
					return err
				}
				return a.show(form, m, func() error {
					console.Moved(a.stdout, m)
					return nil
				})
			})(c, args)
		},
	}
	c.Flags().IntVar(&version, "to", 0, "the version to move to")
	c.Flags().BoolVar(&dryRun, "dry-run", false, "print what would happen, and change nothing")
	bindForm(a, c, &form, "from which version to which, and what differs")
	bindReason(c, &reason)
	return c
}

// planAgainst shows which unfinished jobs of a workflow can move to the version in a file.
func (a *app) planAgainst(ctx context.Context, def *workflow.Definition, against, form string) error {
	if err := oneOf("against", against, "running"); err != nil {
		return err
	}
	if form == "mermaid" {
		return usage("", "--against goes with -o text and -o json only")
	}
	return a.with(ctx, func(ctx context.Context, cl *client.Client) error {
		p, err := cl.Workflows.PlanMoves(ctx, def)
		if err != nil {
			return err
		}
		return a.show(form, p, func() error {
			console.MovePlans(a.stdout, p, a.workspace, a.given)
			return nil
		})
	})
}

const redactLong = `Remove the data of a job that has ended, for good: its inputs, metadata, output and
error, those of all its steps, the data of its signals and of facts that were refused,
its logs, and why attempts failed. With a STEP, the data of that step and all its
instances, its logs, the signals that it took, and the error of the job if it is that of
the step. Steps and states, times, who did what, and the reasons that people gave stay.

The audit trail first records who withheld what, and why (--reason, which is not
withheld). Its hashes do not change, and "pawl audit verify" accepts missing data only
because of that record. The command returns when all data is gone. If it is killed, a
server completes it, or the same command does.

A job is refused while an unfinished job needs it: its parent, or one that continues it.
Copies in other jobs stay; redact child jobs, and jobs that continue this one, with
commands of their own. With a STEP, copies in other steps and in the output of the job
stay, too. The workflow and the description of the job stay. In a SQLite file the bytes
are overwritten; on PostgreSQL the tables are vacuumed. See docs/audit.md for backups,
replicas and files that workers keep.`

func newJobRedact(a *app) *cobra.Command {
	form, reason, request := formText, "", ""
	c := &cobra.Command{
		Use: "redact JOB [STEP]", Short: "Remove the inputs, outputs, errors and logs of an ended job", Long: redactLong,
		Example: "  pawl job redact a1b2c3 --reason \"a token in its inputs\"\n  pawl job redact a1b2c3 load --reason \"personal data\" -o json",
		Args:    want(1, 2, "a JOB and one STEP at most"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			if reason == "" {
				return usage(`write --reason "a token in its inputs"`, "--reason is missing")
			}
			change, step := a.change(reason), ""
			change.RequestID = request
			if len(args) > 1 {
				if step = args[1]; step == "" {
					return usage("leave it out to redact the whole job", "STEP is empty")
				}
			}
			return a.onJob(func(ctx context.Context, cl *client.Client, id pawl.ID, _ []string) error {
				return a.redact(ctx, cl, id, step, change, form)
			})(c, args)
		},
	}
	bindForm(a, c, &form, "{job, step, records, entries, beside, advice}")
	bindReason(c, &reason)
	bindRequestID(c, &request, "entry of the audit trail")
	return c
}

func (a *app) redact(ctx context.Context, cl *client.Client, id pawl.ID, step string, change pawl.Change, form string) error {
	r, err := cl.Audit.Redact(ctx, id, step, change, progress(a, func(r pawl.Redaction) string {
		return fmt.Sprintf("%d records and %d rows of the audit trail redacted", r.Records, r.Entries)
	}))
	if err != nil {
		return err
	}
	if form == formJSON {
		return console.JSON(a.stdout, r)
	}
	return console.Redacted(a.stdout, a.stderr, r, step)
}

const signalLong = `Send a signal to a job. The step that has waited longest for the NAME takes it. If no
step waits yet, the signal is kept for the next one that does. The data of the signal is
the output of that step. A NAME that no step of the workflow waits for is refused
(exit 2).`

func newJobSignal(a *app) *cobra.Command {
	reason, data, requestID := "", "", ""
	c := &cobra.Command{
		Use: "signal JOB NAME", Short: "Send a signal to a job", Long: signalLong,
		Example: "  pawl job signal last payment_received --data @payment.json",
		Args:    want(2, 2, "a JOB and the NAME of a signal"), ValidArgsFunction: a.completeJobs,
		RunE: func(c *cobra.Command, args []string) error {
			raw, err := dataOf(c)
			if err != nil {
				return err
			}
			return a.onJob(func(ctx context.Context, cl *client.Client, id pawl.ID, rest []string) error {
				change := a.change(reason)
				change.RequestID = requestID
				if _, err := cl.Approvals.Signal(ctx, id, rest[0], raw, change); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.stdout, "signal %s sent to job %s\n", rest[0], id.Public(pawl.JobPrefix))
				return err
			})(c, args)
		},
	}
	bindReason(c, &reason)
	bindRequestID(c, &requestID, "signal")
	c.Flags().StringVar(&data, "data", "", "the data of the signal, as JSON or @FILE; default null")
	return c
}
