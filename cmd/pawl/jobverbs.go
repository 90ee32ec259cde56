package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/internal/privatejob"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

func newJobPause(a *app) *cobra.Command {
	reason := ""
	b := &bulk{verb: "pause", done: "paused", statuses: []machine.State{lifecycle.JobPending, lifecycle.JobRunning},
		spare: func(all []inspect.Candidate) []inspect.Candidate {
			return slices.DeleteFunc(all, func(c inspect.Candidate) bool { return c.Paused })
		}}
	c := &cobra.Command{
		Short:   "Let nothing more of a job begin",
		Long:    "Pause a job: nothing of it begins until it is resumed. What runs goes on to its end, and so\ndo the deadlines of the job.",
		Example: "  pawl job pause a1b2c3 --reason \"the disk is full\"\n  pawl job pause --all --workflow nightly",
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), func(cl *client.Client) error {
				return a.apply(c.Context(), cl, b, args, func(id pawl.ID) error {
					if err := cl.Jobs.Pause(c.Context(), id, a.change(reason)); err != nil {
						return err
					}
					return a.tell(id, "paused")
				})
			})
		},
	}
	b.bind(c, a)
	bindReason(c, &reason)
	return c
}

func newJobResume(a *app) *cobra.Command {
	reason := ""
	b := &bulk{verb: "resume", done: "resumed", statuses: []machine.State{lifecycle.JobPending, lifecycle.JobRunning},
		spare: func(all []inspect.Candidate) []inspect.Candidate {
			return slices.DeleteFunc(all, func(c inspect.Candidate) bool { return !c.Paused })
		}}
	c := &cobra.Command{
		Short:   "End the pause of a job",
		Long:    "Resume a job that was paused. A job of \"pawl run\" whose process is gone is continued with\n\"pawl run FILE --resume\" instead.",
		Example: "  pawl job resume a1b2c3\n  pawl job resume --all --yes",
		RunE: func(c *cobra.Command, args []string) error {
			return a.with(c.Context(), func(cl *client.Client) error {
				return a.apply(c.Context(), cl, b, args, func(id pawl.ID) error {
					if err := cl.Jobs.Resume(c.Context(), id, a.change(reason)); err != nil {
						return err
					}
					return a.tell(id, "resumed")
				})
			})
		},
	}
	b.bind(c, a)
	bindReason(c, &reason)
	return c
}

// tell says what a job is now.
func (a *app) tell(id pawl.ID, what string) error {
	_, err := fmt.Fprintf(a.stdout, "job %s is %s\n", id.Public(pawl.JobPrefix), what)
	return err
}

func newJobCancel(a *app) *cobra.Command {
	reason := ""
	b := &bulk{verb: "cancel", done: "canceled", statuses: []machine.State{lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobRunning}, spare: inspect.Eldest}
	c := &cobra.Command{
		Short: "Cancel a job",
		Long: "Cancel a job: what has not started never will, and what runs is asked to stop and\n" +
			"is left behind after 10 s. The command prints the job's state after a second at\n" +
			"most. A job that has ended is a conflict (exit 5). The reason goes into the audit trail.",
		Example: "  pawl job cancel a1b2c3 --reason \"wrong day\"\n  pawl job cancel --all --workflow nightly --yes",
		RunE:    func(c *cobra.Command, args []string) error { return a.cancel(c.Context(), b, args, reason) },
	}
	b.bind(c, a)
	c.Flags().StringVar(&reason, "reason", "", `why, for the audit trail; default "canceled"`)
	return c
}

// cancel cancels with an engine of its own: the process that ran a job may be
// dead, and then nobody else would end it.
func (a *app) cancel(ctx context.Context, b *bulk, args []string, reason string) (err error) {
	if err := a.existing(); err != nil {
		return err
	}
	l, err := a.openLedger(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.close()) }()
	var asked []pawl.ID
	refused := a.apply(ctx, l.client, b, args, func(id pawl.ID) error {
		err := l.client.Jobs.Cancel(ctx, id, pawl.Change{Actor: a.actor(), Reason: reason})
		if err == nil {
			asked = append(asked, id)
		}
		return err
	})
	if err := a.ends(ctx, l, asked); err != nil {
		return err
	}
	return refused
}

// ends says what became of jobs that were cancelled, after a second at most.
func (a *app) ends(ctx context.Context, l *ledger, jobs []pawl.ID) error {
	if len(jobs) == 0 {
		return nil
	}
	if err := l.engine.Takeover(ctx, privatejob.DeadHere); err != nil {
		return err
	}
	moment, done := context.WithTimeout(ctx, time.Second)
	defer done()
	for _, id := range jobs {
		if _, err := l.client.Jobs.Wait(moment, id); err != nil && moment.Err() == nil {
			return err
		}
		v, err := l.client.Jobs.Get(ctx, id)
		if err != nil {
			return err
		}
		state := string(v.Status)
		if v.Ending != "" {
			state += ", about to be " + string(v.Ending)
		}
		if err := a.tell(id, state); err != nil {
			return err
		}
	}
	return nil
}
