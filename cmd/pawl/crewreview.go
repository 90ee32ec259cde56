package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/sleep"
)

// crewPause is the time between two readings of what others change.
const crewPause = 300 * time.Millisecond

// limited returns a context that ends after a timeout, if there is one. It limits a wait only.
func limited(ctx context.Context, wait bool, timeout time.Duration) (context.Context, context.CancelFunc, error) {
	switch {
	case timeout < 0:
		return ctx, func() {}, usage("", "--timeout %s: want a duration of 0 or more", timeout)
	case timeout > 0 && !wait:
		return ctx, func() {}, usage("", "--timeout %s: want --wait with it", timeout)
	case timeout == 0:
		return ctx, func() {}, nil
	}
	limit, cancel := context.WithTimeout(ctx, timeout)
	return limit, cancel, nil
}

func (k *crewApp) newReview() *cobra.Command {
	form, wait, timeout := formText, false, time.Duration(0)
	c := &cobra.Command{
		Use: "review [MEMBER]", Short: "Show the review of a member's work",
		Long: `Show what a member has submitted and what became of it. As long as nobody has decided, the gates
of crew.yaml run on it first, unless they have passed already; they are commands that the target
wants to succeed. The exit code is 0 once somebody has decided, 7 if a gate has failed, 6 if one
could not be run, and 10 before: a hook of an agent can use that. With --wait the command waits
for the decision. --timeout limits how long that takes, the gates included: a gate that still
runs then is stopped, and runs again the next time.`,
		Example: "  pawl crew review auth\n  pawl crew review --wait --timeout 1h",
		Args:    want(0, 1, "one MEMBER"), ValidArgsFunction: k.completeMembers,
		RunE: k.on(func(ctx context.Context, cr *crew.Crew, args []string) error {
			id, err := k.member(args)
			if err != nil {
				return err
			}
			limit, cancel, err := limited(ctx, wait, timeout)
			if err != nil {
				return err
			}
			defer cancel()
			r, err := cr.Reviewed(ctx, id)
			if err != nil {
				return err
			}
			var checks *crew.Checks
			if r.Pending() {
				if checks, err = cr.Check(limit, id); limit.Err() != nil && ctx.Err() == nil {
					console.Say(k.stderr, "warning", fmt.Sprintf("the gates have not ended within %s", timeout))
				} else if err != nil {
					return err
				}
			}
			for wait && r.Pending() && checks.Err() == nil && sleep.For(limit, crewPause) {
				if r, err = cr.Reviewed(ctx, id); err != nil {
					return err
				}
			}
			if checks != nil {
				r.Checks = checks
			}
			return k.reviewed(form, r)
		}),
	}
	k.bind(c, &form, "the review, with what it is about")
	c.Flags().BoolVar(&wait, "wait", false, "wait until somebody has decided")
	c.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: how long to wait at most; 0 is no limit")
	return c
}

func (k *crewApp) reviewed(form string, r *crew.Reviewed) error {
	if err := k.show(form, r, func() error { console.CrewReview(k.stdout, r); return nil }); err != nil || !r.Pending() {
		return err
	}
	if err := r.Checks.Err(); err != nil {
		return err
	}
	console.Say(k.stderr, "hint", "nobody has decided yet; do it with: pawl crew approve "+r.ID+", or pawl crew request-changes "+r.ID)
	return exit{codePending}
}

func (k *crewApp) newDiff() *cobra.Command {
	form, stat := formText, false
	c := &cobra.Command{
		Use: "diff [MEMBER]", Short: "Show what the work of a member changes",
		Long: `Show what the commits of a member change, compared with where its branch left the target. What
is not committed is named on stderr.`,
		Example: "  pawl crew diff auth\n  pawl crew diff auth --stat",
		Args:    want(0, 1, "one MEMBER"), ValidArgsFunction: k.completeMembers,
		RunE: k.on(func(ctx context.Context, cr *crew.Crew, args []string) error {
			id, err := k.member(args)
			if err != nil {
				return err
			}
			d, err := cr.Diff(ctx, id)
			if err != nil {
				return err
			}
			return k.show(form, d, func() error { return k.diffed(d, stat) })
		}),
	}
	k.bind(c, &form, "branch, commits, files and patch")
	c.Flags().BoolVar(&stat, "stat", false, "only the files, with the number of their changes")
	return c
}

func (k *crewApp) diffed(d *crew.Diff, stat bool) error {
	for _, path := range d.Dirty {
		console.Say(k.stderr, "not committed", path)
	}
	text := d.Patch
	if stat {
		text = d.Stat
	}
	if text == "" {
		fmt.Fprintf(k.stderr, "the branch %s changes nothing\n", d.Branch)
		return nil
	}
	if k.width() > 0 {
		text = console.PrintableLines(text)
	}
	_, err := fmt.Fprintln(k.stdout, text)
	return err
}

func (k *crewApp) newApprove() *cobra.Command {
	head := ""
	c := k.verb(&cobra.Command{
		Use: "approve", Short: "Approve the work of a member",
		Long: `Approve what a member has submitted, as it is at that commit: a later one voids it. A branch that
is behind its target has to be rebased and submitted again first (exit 5). Nobody approves their
own work (exit 4).`,
		Example: "  pawl crew approve auth\n  pawl crew approve auth --head 71d0c3a --reason \"looks right\"",
	}, func(ctx context.Context, cr *crew.Crew, id string, by crew.Caller) (*crew.Member, error) {
		return cr.Approve(ctx, id, head, by)
	})
	bindHead(c, &head)
	return c
}

func bindHead(c *cobra.Command, head *string) {
	c.Flags().StringVar(head, "head", "", "the commit that was reviewed, or its beginning; another one is refused")
}

func (k *crewApp) newRequestChanges() *cobra.Command {
	head := ""
	c := k.verb(&cobra.Command{
		Use: "request-changes", Short: "Send work back to its member",
		Long: `Send work back to its member, with the --reason, which its program sees. "pawl crew start" starts
it again in the same worktree. A review has three rounds; in the last one this is refused.`,
		Example: "  pawl crew request-changes auth --reason \"the error is swallowed\"",
	}, func(ctx context.Context, cr *crew.Crew, id string, by crew.Caller) (*crew.Member, error) {
		if by.Reason == "" {
			return nil, usage("", "--reason: want what is to be changed")
		}
		return cr.RequestChanges(ctx, id, head, by)
	})
	bindHead(c, &head)
	return c
}

const crewMergeLong = `Put approved work into the queue of its target, by --priority (higher ones first) and arrival.

With --wait the queue is landed, one after another, until this work has landed or has come back;
several processes may do so. What lands is the tested commit: one squashed commit or a merge, as
crew.yaml says; where the target is checked out, the files follow. If the target has moved since
the approval, the work lands on it all the same if it changes the same lines; otherwise it goes
back to review (exit 10). After a conflict it goes back to its member (exit 8), and so it does if
a gate fails (exit 7). Killed at any moment, the work has landed or waits.`

func (k *crewApp) newMerge() *cobra.Command {
	form, wait, timeout, priority := formText, false, time.Duration(0), 0
	c := &cobra.Command{
		Use: "merge [MEMBER]", Short: "Land approved work on its target", Long: crewMergeLong,
		Example: "  pawl crew merge auth --wait\n  pawl crew merge docs --priority 5",
		Args:    want(0, 1, "one MEMBER"), ValidArgsFunction: k.completeMembers,
		RunE: k.on(func(ctx context.Context, cr *crew.Crew, args []string) error {
			id, err := k.member(args)
			if err != nil {
				return err
			}
			by, err := k.caller(id, crewChange{})
			if err != nil {
				return err
			}
			ctx, cancel, err := limited(ctx, wait, timeout)
			if err != nil {
				return err
			}
			defer cancel()
			e, err := cr.Enqueue(ctx, id, priority, by)
			if err != nil {
				return err
			}
			l := &crew.Landing{Entry: *e, State: crew.Queued}
			if wait {
				m := crew.NewMerger(cr, by)
				if l, err = m.Until(ctx, e, func(o *crew.Landing) { fmt.Fprintln(k.stderr, landingLine(o)) }); err != nil {
					return tooLate(ctx, err, e)
				}
			}
			return k.landed(form, l)
		}),
	}
	k.bind(c, &form, "what became of the work")
	c.Flags().BoolVar(&wait, "wait", false, "land the queue until this work has landed or has come back")
	c.Flags().DurationVar(&timeout, "timeout", 0, "with --wait: how long to wait at most; 0 is no limit")
	c.Flags().IntVar(&priority, "priority", 0, "higher ones land first")
	return c
}

// tooLate says that a timeout has ended the wait for an entry.
func tooLate(ctx context.Context, err error, e *crew.Entry) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &pawl.Error{Kind: pawl.Unavailable, Message: fmt.Sprintf("the work of member %s still waits to land on %s", e.Member, e.Target), Hint: "repeat the command to go on"}
	}
	return err
}

// landed shows what became of work. Work that has come back is a failure of the command.
func (k *crewApp) landed(form string, l *crew.Landing) error {
	err := k.show(form, l, func() error {
		if l.State != crew.Queued && l.State != crew.Landed {
			return nil // the error says it
		}
		_, err := fmt.Fprintln(k.stdout, landingLine(l))
		return err
	})
	if err == nil && l.State != crew.Queued && l.State != crew.Landed {
		return &crew.ReturnedError{Landing: *l}
	}
	return err
}

func landingLine(l *crew.Landing) string {
	switch l.State {
	case crew.Queued:
		return fmt.Sprintf("the work of member %s waits to land on %s, as number %d", l.Member, l.Target, l.Sequence)
	case crew.Landed:
		return fmt.Sprintf("the work of member %s has landed on %s as %.12s", l.Member, l.Target, l.Commit)
	}
	return console.Printable((&crew.ReturnedError{Landing: *l}).Error())
}

func (k *crewApp) newQueue() *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "queue [TARGET]", Short: "List what waits to land",
		Long:    "List the approved work that waits to land on a TARGET, in the order in which it will. The default\nis the branch that is checked out in the main worktree.",
		Example: "  pawl crew queue\n  pawl crew queue release-2 --json",
		Args:    want(0, 1, "one TARGET"),
		RunE: k.on(func(ctx context.Context, cr *crew.Crew, args []string) error {
			target, list, err := cr.QueueOf(ctx, optional(args))
			if err != nil {
				return err
			}
			return k.listed(form, append([]crew.Entry{}, list...), len(list), "nothing waits to land on "+target, console.CrewQueue(list))
		}),
	}
	k.bind(c, &form, "a list of entries")
	return c
}

// listed shows a list as JSON or as a table; for an empty one it says so on stderr.
func (k *crewApp) listed(form string, list any, n int, none string, rows [][]string) error {
	return k.show(form, list, func() error {
		if n == 0 {
			fmt.Fprintln(k.stderr, none)
			return nil
		}
		return console.Table(k.stdout, console.Fit(rows, k.width()))
	})
}
