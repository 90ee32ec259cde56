package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/machine"
)

const bulkLong = `

Several jobs can be named. "-" reads them from stdin: the first word of each line that
is an id, or the JSON of "pawl jobs -o json". --all selects every job of the workspace
that --status and --workflow allow, and asks for consent unless --yes is given. A refusal
does not stop the others; the exit code is the highest of all.`

// A bulk is a verb that takes several jobs: those on the command line, those on stdin, or all
// that a filter selects.
type bulk struct {
	verb             string                                            // as in: retry 12 jobs?
	done             string                                            // as in: 12 of 12 jobs retried
	statuses         []machine.State                                   // that --all selects without --status
	spare            func(all []inspect.Candidate) []inspect.Candidate // removes jobs that --all skips; nil: none
	all              bool
	status, workflow string
}

func (b *bulk) bind(c *cobra.Command, a *app) {
	c.Use = b.verb + " JOB..."
	c.Long += bulkLong
	c.ValidArgsFunction = a.completeMoreJobs
	c.Args = b.args
	c.Flags().BoolVar(&b.all, "all", false, "every job of the workspace that --status and --workflow allow")
	c.Flags().StringVar(&b.status, "status", "", "with --all: only jobs in these states, separated by commas; default "+strings.Join(words(b.statuses), ","))
	c.Flags().StringVar(&b.workflow, "workflow", "", "with --all: only jobs of this workflow")
}

func words(states []machine.State) []string {
	var names []string
	for _, s := range states {
		names = append(names, string(s))
	}
	return names
}

func (b *bulk) args(c *cobra.Command, args []string) error {
	hint := "usage: " + c.UseLine()
	if !b.all {
		for _, name := range []string{"status", "workflow"} {
			if c.Flags().Changed(name) {
				return usage("", "--%s goes with --all", name)
			}
		}
		if len(args) == 0 {
			return usage(hint, "%s needs a JOB, - or --all", c.CommandPath())
		}
	}
	if b.all && len(args) > 0 {
		return usage(hint, "--all takes no JOB, and got %q", args[0])
	}
	if len(args) > 1 && slices.Contains(args, "-") {
		return usage(hint, "- takes no other JOB")
	}
	return nil
}

// single returns the job of a command line that names only one.
func (b *bulk) single(args []string) (string, bool) {
	if b.all || len(args) != 1 || args[0] == "-" {
		return "", false
	}
	return args[0], true
}

// apply calls do with each job of the command line. With several jobs it continues after an
// error, and returns an error with the highest exit code.
func (a *app) apply(ctx context.Context, cl *client.Client, b *bulk, args []string, do func(pawl.ID) error) error {
	if text, ok := b.single(args); ok {
		id, err := a.jobOf(ctx, cl, text)
		if err != nil {
			return err
		}
		return do(id)
	}
	jobs, err := a.selected(ctx, cl, b, args)
	if err != nil {
		return err
	}
	if len(jobs) == 0 {
		fmt.Fprintln(a.stderr, "no jobs to "+b.verb)
		return nil
	}
	done := 0
	err = all(a, jobs, func(text string) error {
		if ctx.Err() != nil {
			return nil
		}
		id, err := a.jobOf(ctx, cl, text)
		if kind := pawl.KindOf(err); kind == pawl.NotFound || kind == pawl.Invalid { // which names the job
			return err
		}
		if err == nil {
			err = do(id)
		}
		if err != nil {
			return ofJob(text, err)
		}
		done++
		return nil
	})
	fmt.Fprintf(a.stderr, "%d of %s %s\n", done, console.Plural(int64(len(jobs)), "job"), b.done)
	if ctx.Err() != nil {
		return exit{codeInterrupted}
	}
	return err
}

// ofJob adds the job to an error that does not name it.
func ofJob(text string, err error) error {
	var e *pawl.Error
	var r *machine.Refusal
	if errors.As(err, &e) && e.Entity != "" || errors.As(err, &r) && r.Entity != "" {
		return err
	}
	return fmt.Errorf("job %s: %w", text, err)
}

// selected returns the jobs of a command line that may name many.
func (a *app) selected(ctx context.Context, cl *client.Client, b *bulk, args []string) ([]string, error) {
	switch {
	case b.all:
		jobs, err := a.filtered(ctx, cl, b)
		if err != nil || len(jobs) == 0 {
			return nil, err
		}
		return jobs, a.confirmedAll(ctx, b.verb+" "+console.Plural(int64(len(jobs)), "job"))
	case args[0] == "-":
		jobs, err := files.ReadJobs(a.stdin)
		return unique(jobs), err
	}
	return unique(args), nil
}

// unique drops jobs that were named before.
func unique(jobs []string) []string {
	seen := make(map[string]bool)
	return slices.DeleteFunc(slices.Clone(jobs), func(job string) bool {
		known := seen[job]
		seen[job] = true
		return known
	})
}

// filtered returns the jobs that --all selects, oldest first.
func (a *app) filtered(ctx context.Context, cl *client.Client, b *bulk) ([]string, error) {
	q := pawl.JobQuery{Workspace: a.workspace, Statuses: b.statuses, Workflow: b.workflow}
	if b.status != "" {
		var err error
		if q.Statuses, q.TimedOut, err = parseStatuses(b.status); err != nil {
			return nil, err
		}
	}
	all, err := inspect.Select(ctx, cl, q)
	if err != nil {
		return nil, err
	}
	if b.spare != nil {
		all = b.spare(all)
	}
	var jobs []string
	for _, c := range slices.Backward(all) {
		jobs = append(jobs, c.ID)
	}
	return jobs, nil
}
