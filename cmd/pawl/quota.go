package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/engine"
)

const quotaLong = `Quotas limit what runs in a workspace. Without a quota there is no limit.

  depth/0 to depth/5   slots for running jobs at that depth below other jobs; a job takes
                       as many as it has workers, and is PENDING without
  queue/NAME           steps of a queue in progress at once

Lowering a quota stops nothing that runs. Other processes learn of a change within a
second.`

func newQuota(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "quota", Short: "Limit jobs and queues", Long: quotaLong,
		Example: "  pawl quota set queue/billing 2\n  pawl quota list",
	})
	c.AddCommand(newQuotaList(a), newQuotaSet(a), newQuotaClear(a), newQuotaPreset(a))
	return c
}

func newQuotaList(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "list", Short: "List the quotas of the workspace",
		Long:    "List the quotas of the workspace: how many slots each has, how many of them are taken at\nthis moment, and who set it, when and why.",
		Example: "  pawl quota list\n  pawl quota list -o json",
		Args:    want(0, 0, "no argument"),
		RunE: a.on(func(ctx context.Context, cl *client.Client, _ []string) error {
			quotas, err := cl.Queues.Limits(ctx, a.workspace)
			if err != nil {
				return err
			}
			return showList(a, form, quotas, "quotas", func(q []pawl.QuotaView) [][]string { return console.QuotaRows(q, a.outZone()) })
		}),
	}
	bindForm(c, &form, "a list of quotas")
	return c
}

func newQuotaSet(a *app) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: "set NAME SLOTS", Short: "Set a quota",
		Long:    "Set a quota of the workspace. SLOTS is 0 to 1000000; with 0 nothing begins. See \"pawl help\nquota\" for the NAMEs.",
		Example: "  pawl quota set queue/billing 2 --reason \"their limit\"\n  pawl quota set depth/0 20",
		Args:    want(2, 2, "a NAME and SLOTS"),
		RunE: func(c *cobra.Command, args []string) error {
			slots, err := strconv.Atoi(args[1])
			if err != nil || slots < 0 {
				return usage("remove a quota with: pawl quota clear "+console.Shell(args[0]), "SLOTS %q: want 0 to %d", args[1], engine.MaxSlots)
			}
			return a.setQuotas(c.Context(), reason, pawl.Quota{Name: args[0], Slots: slots})
		},
	}
	bindReason(c, &reason)
	return c
}

// setQuotas sets quotas of the workspace, and reports them.
func (a *app) setQuotas(ctx context.Context, reason string, set ...pawl.Quota) error {
	for i := range set {
		set[i].Workspace = a.workspace
	}
	return a.withNew(ctx, func(cl *client.Client) error {
		if err := cl.Queues.Limit(ctx, set, a.change(reason)); err != nil {
			return err
		}
		for _, q := range set {
			fmt.Fprintf(a.stdout, "quota %s of workspace %s is %d\n", q.Name, a.workspace, q.Slots)
		}
		return nil
	})
}

func newQuotaClear(a *app) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: "clear NAME", Short: "Remove a quota",
		Long:    "Remove a quota of the workspace, and with it the limit. A quota that is not set is not\nfound (exit 3).",
		Example: "  pawl quota clear queue/billing",
		Args:    want(1, 1, "a NAME"),
		RunE: a.on(func(ctx context.Context, cl *client.Client, args []string) error {
			quotas, err := cl.Queues.Limits(ctx, a.workspace)
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(quotas, func(q pawl.QuotaView) bool { return q.Name == args[0] }) {
				return &pawl.Error{Kind: pawl.NotFound, Message: "there is no quota " + args[0] + " in workspace " + a.workspace, Hint: "list them with: pawl quota list"}
			}
			none := []pawl.Quota{{Workspace: a.workspace, Name: args[0], Slots: -1}}
			if err := cl.Queues.Limit(ctx, none, a.change(reason)); err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "quota %s of workspace %s is cleared\n", args[0], a.workspace)
			return err
		}),
	}
	bindReason(c, &reason)
	return c
}

func newQuotaPreset(a *app) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: "preset NAME", Short: "Set quotas that go together",
		Long:    "Set quotas that go together. The preset hierarchy gives fewer slots to jobs that are\ndeeper below others: depth/0 to depth/5 get 10, 8, 5, 3, 2 and 1.",
		Example: "  pawl quota preset hierarchy",
		Args:    want(1, 1, "the NAME of a preset"), ValidArgs: []string{"hierarchy"},
		RunE: func(c *cobra.Command, args []string) error {
			if args[0] != "hierarchy" {
				return usage("", "preset %q: want hierarchy", args[0])
			}
			var set []pawl.Quota
			for depth, slots := range engine.Hierarchy {
				set = append(set, pawl.Quota{Name: fmt.Sprintf("depth/%d", depth), Slots: slots})
			}
			return a.setQuotas(c.Context(), reason, set...)
		},
	}
	bindReason(c, &reason)
	return c
}
