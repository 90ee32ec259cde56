package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

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

A reservation takes slots of a depth for what is not a job, until it is released or
expires. Lowering a quota stops nothing that runs. Other processes learn of a change
within a second.`

func newQuota(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "quota", Short: "Limit jobs and queues", Long: quotaLong,
		Example: "  pawl quota set queue/billing 2\n  pawl quota list",
	})
	c.AddCommand(newQuotaList(a), newQuotaSet(a), newQuotaClear(a), newQuotaPreset(a), newQuotaReserve(a), newQuotaRelease(a))
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
	bindForm(a, c, &form, "a list of quotas")
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
	return a.withNew(ctx, func(ctx context.Context, cl *client.Client) error {
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

func newQuotaReserve(a *app) *cobra.Command {
	span, reason, form := time.Minute, "", formText
	c := &cobra.Command{
		Use: "reserve DEPTH SLOTS", Short: "Take slots of a depth for some time",
		Long:    "Take SLOTS, 1 to 10, of the quota of DEPTH, 0 to 5, until they are released or expire, and\nprint the id of the reservation. Too few free slots are a conflict (exit 5). A depth without\na quota has slots without end.",
		Example: "  pawl quota reserve 0 2 --for 10m --reason \"a backup runs\"",
		Args:    want(2, 2, "a DEPTH and SLOTS"),
		RunE: a.on(func(ctx context.Context, cl *client.Client, args []string) error {
			depth, errDepth := strconv.Atoi(args[0])
			slots, errSlots := strconv.Atoi(args[1])
			if errDepth != nil || errSlots != nil {
				return usage("", "DEPTH %q and SLOTS %q: want two numbers", args[0], args[1])
			}
			r, err := cl.Queues.Reserve(ctx, a.workspace, depth, slots, span, a.change(reason))
			if err != nil {
				return err
			}
			return a.show(form, r, func() error {
				_, err := fmt.Fprintln(a.stdout, r.ID)
				return err
			})
		}),
	}
	c.Flags().DurationVar(&span, "for", span, "how long: 1s to 1h, in whole seconds")
	bindReason(c, &reason)
	bindForm(a, c, &form, "the reservation")
	return c
}

func newQuotaRelease(a *app) *cobra.Command {
	reason := ""
	c := &cobra.Command{
		Use: "release RESERVATION", Short: "Release reserved slots",
		Long:    "Release reserved slots before they expire. A reservation that has ended is not found\n(exit 3).",
		Example: "  pawl quota release r_019ac1f0a3c47d5e8f00112233445566",
		Args:    want(1, 1, "a RESERVATION"),
		RunE: a.on(func(ctx context.Context, cl *client.Client, args []string) error {
			id, err := pawl.ParseID(pawl.ReservationPrefix, args[0])
			if err != nil {
				return usage("", "RESERVATION %q: want the id that \"pawl quota reserve\" printed", args[0])
			}
			r, err := cl.Queues.Release(ctx, a.workspace, id, a.change(reason))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.stdout, "%d slots of depth/%d are released\n", r.Slots, r.Depth)
			return err
		}),
	}
	bindReason(c, &reason)
	return c
}
