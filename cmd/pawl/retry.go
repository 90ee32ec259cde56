package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/internal/privatejob"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

const retryLong = `Continue a job that FAILED or was CANCELED with a new job of the same definition, which
gets the results of the completed steps. Steps that failed or never ran are run; of a
foreach or matrix, only the instances that are not complete.

--from runs a completed STEP again, and all steps that depend on it; so a COMPLETED job
can be retried, too. --set changes an input for the steps that run; existing results
stay, even if they depend on the old value. --resolve gives the output of a STEP instead
of running it; the steps that depend on it run again.

If the job was submitted, so is the new one: its id is printed on stdout, and workers run
it. --wait waits for its end, like that of "pawl submit". If the job was one of "pawl run"
or "pawl exec", the new one runs here, to its end: its id is printed on stderr and its
output on stdout. Several jobs are never run here: all are submitted, and each line has
the id of the new job and that of the old one; nor is anything with --server. --all leaves
out jobs that were retried before, and child jobs whose parent is retried.`

type retryFlags struct {
	shape
	bulk
	from    []string
	set     []string
	resolve []string
	reason  string
	wait    waitFlags

	requestID string
}

func newJobRetry(a *app) *cobra.Command {
	f := retryFlags{bulk: bulk{verb: "retry", done: "retried", statuses: []machine.State{lifecycle.JobFailed, lifecycle.JobCanceled}, spare: inspect.WithoutChildren}}
	c := &cobra.Command{
		Short: "Continue a failed job with a new one", Long: retryLong,
		Example: "  pawl job retry last --reason \"the disk is there again\"\n  pawl job retry last --from load --set day=2026-02-01 --resolve extract=@files.json\n" +
			"  pawl job retry --all --workflow nightly --status failed",
		RunE: func(c *cobra.Command, args []string) error { return a.retry(c.Context(), args, &f) },
	}
	f.bulk.bind(c, a)
	f.shape.bind(c)
	c.Flags().StringArrayVar(&f.from, "from", nil, "a step to run again, with all that depends on it; may be repeated")
	c.Flags().StringArrayVar(&f.set, "set", nil, "an input to change, as key=value; may be repeated")
	c.Flags().StringArrayVar(&f.resolve, "resolve", nil, "the output of a step, as STEP=JSON or STEP=@FILE; may be repeated")
	f.wait.bind(c, "the new job")
	bindReason(c, &f.reason)
	bindRequestID(c, &f.requestID, "job")
	return c
}

func (a *app) retry(ctx context.Context, args []string, f *retryFlags) error {
	if err := cmp.Or(f.check(), f.wait.check()); err != nil {
		return err
	}
	text, single := f.single(args)
	if !single && (f.wait.wait || f.verbose || f.form != formText || f.requestID != "") {
		return usage("see how they end with: pawl jobs", "--wait, --verbose, --request-id and -o take one JOB")
	}
	if a.server != "" {
		return a.onServer(ctx, func(cl *client.Client) error {
			if single {
				return a.retrySubmitted(ctx, cl, text, f)
			}
			return a.retryAll(ctx, cl, args, f)
		})
	}
	if err := a.existing(); err != nil {
		return err
	}
	return a.onLedger(ctx, false, func(ctx context.Context, l *ledger) error {
		if single {
			return a.retryOne(ctx, l, text, f)
		}
		return a.retryAll(ctx, l.client, args, f)
	})
}

// retryAll continues several jobs, and runs none of them in this process.
func (a *app) retryAll(ctx context.Context, cl *client.Client, args []string, f *retryFlags) (err error) {
	done := inspect.Lineage{}
	if f.all {
		if done, err = inspect.Retried(ctx, cl, a.workspace, f.workflow); err != nil {
			return err
		}
	}
	f.spare = func(all []inspect.Candidate) []inspect.Candidate { return done.Without(inspect.WithoutChildren(all)) }
	return a.apply(ctx, cl, &f.bulk, args, func(id pawl.ID) error {
		again, _, err := a.continued(ctx, cl, id, f, false)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "%s  continues %s\n", again.Public(pawl.JobPrefix), id.Public(pawl.JobPrefix))
		return err
	})
}

// retryOne continues one job, and runs it in this process if the old one ran that way.
func (a *app) retryOne(ctx context.Context, l *ledger, text string, f *retryFlags) error {
	id, err := a.jobOf(ctx, l.client, text)
	if err != nil {
		return err
	}
	old, err := l.store.Job(ctx, id.JobKey())
	if err != nil && !errors.Is(err, store.ErrNotFound) { // the engine has a better error
		return err
	}
	private := old != nil && old.Private != 0
	again, def, err := a.continued(ctx, l.client, id, f, private)
	switch {
	case err != nil:
		return err
	case private:
		a.workspace = old.Workspace
		return a.runAgain(ctx, l, again, def, f.shape)
	}
	return a.showAgain(ctx, l.client, again, f)
}

// retrySubmitted continues one job with a job for the workers of a server.
func (a *app) retrySubmitted(ctx context.Context, cl *client.Client, text string, f *retryFlags) error {
	id, err := a.jobOf(ctx, cl, text)
	if err != nil {
		return err
	}
	again, _, err := a.continued(ctx, cl, id, f, false)
	if err != nil {
		return err
	}
	return a.showAgain(ctx, cl, again, f)
}

// showAgain shows a new job that workers run, and waits for its end if that is wanted.
func (a *app) showAgain(ctx context.Context, cl *client.Client, again pawl.ID, f *retryFlags) error {
	if f.wait.wait {
		a.announce(again, f.shape)
		return a.wait(ctx, cl, again, f.shape, f.wait.reconnect)
	}
	return a.showNew(ctx, cl, again, f.form)
}

// continued creates the job that continues another.
func (a *app) continued(ctx context.Context, cl *client.Client, id pawl.ID, f *retryFlags, private bool) (pawl.ID, *workflow.Definition, error) {
	def, err := cl.Inspect.Definition(ctx, id)
	if err != nil {
		return pawl.ID{}, nil, err
	}
	r := pawl.Retry{From: f.from, Private: private}
	if r.Set, err = valuesOf("--set", "write --set day=2026-01-31", f.set, def.ParseInput); err != nil {
		return pawl.ID{}, nil, err
	}
	if r.Resolve, err = f.outputs(); err != nil {
		return pawl.ID{}, nil, err
	}
	c := a.change(f.reason)
	c.RequestID = f.requestID
	again, err := cl.Jobs.Retry(ctx, id, r, c)
	return again, def, err
}

// outputs reads the values of --resolve.
func (f *retryFlags) outputs() (map[string]json.RawMessage, error) {
	outputs := make(map[string]json.RawMessage)
	for _, pair := range f.resolve {
		step, text, ok := strings.Cut(pair, "=")
		if !ok || step == "" {
			return nil, usage("write --resolve extract=@files.json", "--resolve %q: want STEP=JSON", pair)
		}
		raw, err := jsonOf("--resolve "+step, text)
		if err != nil {
			return nil, err
		}
		outputs[step] = raw
	}
	return outputs, nil
}

// runAgain runs a job that continues a private one, to its end.
func (a *app) runAgain(ctx context.Context, l *ledger, id pawl.ID, def *workflow.Definition, s shape) error {
	a.announce(id, s)
	if privatejob.IsCommand(def) {
		return a.settled(ctx, a.session(l, id, 1, false))
	}
	return a.follow(ctx, a.session(l, id, retryWorkers, false), "FILE", s)
}

// retryWorkers is how many steps run at once, as for "pawl run".
const retryWorkers = 10
