package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
)

const redactLong = `Withhold what a job that has ended was given and has made, for good: its inputs,
metadata, output and error, those of all its steps, the data of its signals and of
facts that were refused, its logs, and why attempts failed. With a STEP, that of the
step with all its instances, its logs, the signals that it took, and the error of the
job if it is that step's. Steps and states, times and who did what stay, and so do
reasons that people gave. There is no way back.

The audit trail says first who withheld what, and why (--reason, which is not
withheld); its hashes stay as they are, and "pawl audit verify" accepts what is
missing for that alone. The command returns when all is gone. If it is killed, a
server goes on, or the same command again.

A job that another job needs which has not ended is refused: its parent, or one that
continues it. What others made of the values stays: child jobs and jobs that continue
this one are redacted by themselves; of a STEP also what other steps and the output of
the job made of it. The workflow and the description of the job stay. Of a SQLite file
the bytes are overwritten; on PostgreSQL the tables are vacuumed. See docs/audit.md
for backups, replicas and files that workers keep.`

func newJobRedact(a *app) *cobra.Command {
	form, reason, request := formText, "", ""
	c := &cobra.Command{
		Use: "redact JOB [STEP]", Short: "Withhold the inputs, outputs, errors and logs of an ended job", Long: redactLong,
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
			return a.withJob(c.Context(), args[0], func(cl *client.Client, id pawl.ID) error {
				return a.redact(c.Context(), cl, id, step, change, form)
			})
		},
	}
	bindForm(c, &form, "{job, step, records, entries, beside, advice}")
	bindReason(c, &reason)
	bindRequestID(c, &request, "entry of the audit trail")
	return c
}

func (a *app) redact(ctx context.Context, cl *client.Client, id pawl.ID, step string, change pawl.Change, form string) error {
	r, err := cl.Audit.Redact(ctx, id, step, change, a.redactProgress())
	if err != nil {
		return err
	}
	if form == formJSON {
		return console.JSON(a.stdout, r)
	}
	what := "job " + r.Job
	if step != "" {
		what = "step " + step + " of " + what
	}
	if r.Advice != "" {
		console.Say(a.stderr, "note", r.Advice)
	}
	_, err = fmt.Fprintf(a.stdout, "%s is redacted: %s, %s of the audit trail, %d signals, refused facts and pieces of logs\n",
		what, console.Plural(r.Records, "record"), console.Plural(r.Entries, "row"), r.Beside)
	return err
}

func (a *app) redactProgress() func(pawl.Redaction) {
	last := time.Now()
	return func(r pawl.Redaction) {
		if time.Since(last) > progressEvery {
			last = time.Now()
			fmt.Fprintf(a.stderr, "%d records and %d rows of the audit trail redacted so far\n", r.Records, r.Entries)
		}
	}
}
