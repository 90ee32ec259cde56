package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/age"
	"github.com/pawl-dev/pawl/internal/console"
)

const pruneLong = `Remove what ended longer ago than --older-than, in every workspace: jobs with their
steps, trails, logs and signals, workers that have ended, and schedules that were
removed. Each is removed with its whole trail, and anchors in the audit trail record
what was removed, when and by whom; see "pawl audit verify".

A job stays while an unfinished job needs it: its parent, its child, or one that
continues it. On PostgreSQL all jobs that were created on one day (UTC) are removed
together, once all of them can be. What other processes read or write at this moment
stays until the next time.

--dry-run removes nothing and prints what would be removed. Ctrl-C stops between two
steps, and nothing is half removed. "pawl server --retention" does the same every ten
minutes.`

func newPrune(a *app) *cobra.Command {
	var older age.Age
	dry, reason, form := false, "", formText
	c := &cobra.Command{
		Use: "prune", Short: "Remove what ended long ago", Long: pruneLong,
		Example: "  pawl prune --older-than 30d --dry-run\n  pawl prune --older-than 30d --reason \"as agreed\"",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			if older == 0 {
				return usage("write pawl prune --older-than 30d", "--older-than is missing")
			}
			if reason == "" {
				reason = "older than " + older.String()
			}
			return a.with(c.Context(), func(ctx context.Context, cl *client.Client) error {
				return a.prune(ctx, cl, time.Duration(older), dry, reason, form)
			})
		},
	}
	c.Flags().Var(&older, "older-than", "remove what ended longer ago than this, such as 12h or 30d; at least 1h")
	c.Flags().BoolVar(&dry, "dry-run", false, "print what would be removed, and remove nothing")
	bindForm(a, c, &form, "{dry_run, removed, left}")
	bindReason(c, &reason)
	return c
}

func (a *app) prune(ctx context.Context, cl *client.Client, older time.Duration, dry bool, reason, form string) (err error) {
	p := console.Pruned{DryRun: dry, Removed: pawl.Pruning{Busy: []string{}}}
	if !dry {
		if p.Removed, err = cl.Audit.Prune(ctx, older, a.change(reason), progress(a, func(p pawl.Pruning) string { return fmt.Sprintf("%d jobs removed", p.Jobs) })); err != nil {
			return err
		}
	}
	prospects, err := cl.Audit.Prospects(ctx, older)
	if err != nil {
		return err
	}
	if dry {
		for _, of := range prospects {
			p.Removed.Count(of.Kind, of.Goes)
		}
	}
	p.Left = console.WhatIsLeft(prospects, dry)
	return a.show(form, p, func() error { return console.ShowPruned(a.stdout, a.stderr, &p) })
}

// progressEvery is the pause between two lines of progress.
const progressEvery = 2 * time.Second

// progress returns a function that reports progress from time to time.
func progress[T any](a *app, text func(T) string) func(T) {
	last := time.Now()
	return func(so T) {
		if time.Since(last) > progressEvery {
			last = time.Now()
			fmt.Fprintf(a.stderr, "%s so far\n", text(so))
		}
	}
}

// bindRetention adds the flag --retention to a process that runs an engine; it sets
// Config.Retention.
func bindRetention(c *cobra.Command, retention *age.Age) {
	c.Flags().Var(retention, "retention", "remove jobs, with their trails and logs, this long after they have ended, such as 12h or 30d; at least 1h; default: keep them")
}
