package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/workflow"
)

const submitLong = `Submit a workflow as a job that any worker of the workspace runs: that of "pawl dev", or
one on another host. An argument that ends in .yaml or .yml, or that names an existing
file, is a FILE. Any other is the NAME of a registered workflow, in its newest version
unless one is named.

The worker creates an empty folder for the job, starts its commands there, and removes
the folder when the job has ended. --dir names another folder, which must exist on
every worker; a relative path is resolved here. With --server it is refused.

--parent names a job below which this one is: it does not wait for it, but canceling the
parent cancels this job, too. --meta keeps a text with the job, under metadata.

The id of the job is printed on stdout. With --wait the progress of the job is shown
until it has ended, then its output is printed; the id is printed on stderr, and the
exit code is that of "pawl run". Interrupting the wait does not stop the job. While the
server or the database is out of reach, as during a restart, the command tries again, for
the time of --reconnect; then its exit code is 6.`

type submitFlags struct {
	shape
	inputs      inputFlags
	wait        waitFlags
	priority    int
	requestID   string
	description string
	dir         string
	parent      string
	workers     int
	meta        []string
}

func newSubmit(a *app) *cobra.Command {
	var f submitFlags
	c := &cobra.Command{
		Use: "submit FILE|NAME[@VERSION]", Short: "Submit a workflow for workers to run", Long: submitLong,
		Example: "  pawl submit nightly.yaml -i day=2026-01-31\n  pawl submit nightly@3 -i day=2026-01-31\n  pawl submit build.yaml --dir . --wait\n  pawl submit nightly.yaml -i day=2026-01-31 --wait --request-id nightly-2026-01-31",
		Args:    want(1, 1, "a FILE or a NAME"), ValidArgsFunction: a.completeSubmit,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("dir") && f.dir == "" {
				return usage("write --dir . for the current folder", "--dir is empty: want a folder")
			}
			if c.Flags().Changed("workers") {
				if err := inRange("--workers", f.workers, 1, workflow.MaxWorkers); err != nil {
					return err
				}
			}
			return a.submit(c.Context(), args[0], &f)
		},
	}
	f.inputs.bind(c)
	f.shape.bind(c)
	f.wait.bind(c, "the job")
	c.Flags().IntVar(&f.priority, "priority", 0, "jobs with a higher priority start first")
	bindRequestID(c, &f.requestID, "job")
	c.Flags().StringVar(&f.description, "description", "", "what the job is for")
	c.Flags().StringVar(&f.parent, "parent", "", "the JOB below which it is: canceling that cancels it")
	c.Flags().IntVar(&f.workers, "workers", 0, "at most this many of its steps at once, 1 to 10; default as the workflow says")
	c.Flags().StringArrayVar(&f.meta, "meta", nil, "a text to be kept with the job, as key=value; may be repeated")
	c.Flags().StringVar(&f.dir, "dir", "", "the folder in which its commands start on the worker; default a new folder for the job")
	return c
}

func (a *app) submit(ctx context.Context, what string, f *submitFlags) (err error) {
	if err := cmp.Or(f.check(), f.wait.check()); err != nil {
		return err
	}
	var sub client.Submission
	if f.dir != "" { // otherwise the worker makes a folder
		if f.dir, err = files.Folder(f.dir); err != nil {
			return err
		}
	}
	file := files.IsWorkflow(what)
	if file {
		if sub, err = a.ofFile(what, &f.inputs); err != nil {
			return err
		}
	}
	return a.withNew(ctx, func(ctx context.Context, cl *client.Client) error {
		if !file {
			if sub, err = a.ofName(ctx, cl, what, &f.inputs); err != nil {
				return err
			}
		}
		sub.Traceparent = os.Getenv("TRACEPARENT")
		sub.RequestID, sub.Description, sub.Priority, sub.Dir, sub.WorkerCount = f.requestID, f.description, f.priority, f.dir, f.workers
		if f.parent != "" {
			if sub.Parent, err = a.jobOf(ctx, cl, f.parent); err != nil {
				return err
			}
		}
		if sub.Metadata, err = metadataOf(f.meta); err != nil {
			return err
		}
		done, err := submitOne(ctx, cl, sub)
		if err != nil {
			return err
		}
		if f.wait.wait {
			a.announce(done.ID, f.shape)
			return a.wait(ctx, cl, done.ID, f.shape, f.wait.reconnect)
		}
		return a.showNew(ctx, cl, done.ID, f.form)
	})
}

// metadataOf returns the metadata of --meta, or nil.
func metadataOf(pairs []string) (any, error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	return valuesOf("--meta", "write --meta team=billing", pairs, func(_, text string) (any, error) { return text, nil })
}

// showNew shows a new job: its id, or the job as JSON.
func (a *app) showNew(ctx context.Context, cl *client.Client, id pawl.ID, form string) error {
	if form != formJSON {
		_, err := fmt.Fprintln(a.stdout, id.Public(pawl.JobPrefix))
		return err
	}
	v, err := cl.Jobs.Get(ctx, id)
	if err != nil {
		return err
	}
	return console.JSON(a.stdout, v)
}

// ofFile returns the submission of a job from a workflow file.
func (a *app) ofFile(path string, in *inputFlags) (sub client.Submission, err error) {
	def, err := files.ReadWorkflow(path)
	if err != nil {
		return sub, err
	}
	sub.Workflow = def
	sub.Inputs, err = in.of(def)
	return sub, err
}

// ofName returns the submission of a job of a registered workflow.
func (a *app) ofName(ctx context.Context, cl *client.Client, name string, in *inputFlags) (sub client.Submission, err error) {
	v, def, err := cl.Workflows.Get(ctx, name)
	if err != nil {
		return sub, err
	}
	sub = client.Submission{Name: inspect.Reference(v)}
	sub.Inputs, err = in.of(def)
	return sub, err
}

// completeSubmit offers the registered workflows, and files, to the shell.
func (a *app) completeSubmit(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	names, how := a.completeWorkflows(c, args, begun)
	if len(args) == 0 && how == cobra.ShellCompDirectiveNoFileComp {
		how = cobra.ShellCompDirectiveDefault
	}
	return names, how
}

// waitFlags say whether a command waits for the end of a job.
type waitFlags struct {
	wait      bool
	reconnect time.Duration
}

// reconnect is how long a command waits for a server or a database that is out of reach.
const reconnect = 2 * time.Minute

func (f *waitFlags) bind(c *cobra.Command, job string) {
	c.Flags().BoolVar(&f.wait, "wait", false, "wait until "+job+" has ended")
	c.Flags().DurationVar(&f.reconnect, "reconnect", reconnect, "with --wait: how long to try again while the server or the database is away")
}

func (f *waitFlags) check() error {
	switch {
	case f.reconnect < 0:
		return usage("", "--reconnect %s: want 0s or more", f.reconnect)
	case f.reconnect != reconnect && !f.wait:
		return usage("", "--reconnect goes with --wait")
	}
	return nil
}

// wait shows a job that other processes run until it has ended. It goes on after it was out of reach
// for as long.
func (a *app) wait(ctx context.Context, cl *client.Client, id pawl.ID, s shape, reconnect time.Duration) error {
	v, err := a.followed(ctx, cl, id, a.follower(s), max(reconnect, 1)) // 0 is no bound
	if err != nil {
		return err
	}
	return a.conclude(ctx, cl, v, s)
}
