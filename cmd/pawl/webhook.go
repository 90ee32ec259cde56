package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

const webhookLong = `Send events to URLs, signed as the Standard Webhooks specification has it.

A webhook sends what "pawl events" shows: moves of jobs, steps, workers, schedules and
pauses of queues, one after the other, each as a POST with JSON. A receiver takes an event
with a status of 2xx; otherwise the event is sent again, after 1 s, 2 s and so on up to 10
minutes. After three days of failures, and when the receiver answers 410, the webhook is
disabled.

A server or "pawl dev" has to run: one of those on the database delivers.`

func newWebhook(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "webhook", Short: "Send events to URLs", Long: webhookLong,
		Example: "  pawl webhook create alerts https://example.com/pawl --machine job --event error\n  pawl webhook test alerts\n  pawl webhook deliveries alerts",
	})
	c.AddCommand(newWebhookCreate(a), newWebhookList(a), newWebhookShow(a), newWebhookUpdate(a),
		newWebhookMove(a, lifecycle.WebhookPause, "Send nothing for a while", "Send nothing until the webhook is resumed. What happens meanwhile is sent then, if that is\nwithin three days."),
		newWebhookMove(a, lifecycle.WebhookResume, "Go on with a webhook", "Go on with a webhook that was paused, or was disabled because its receiver failed."),
		newWebhookMove(a, lifecycle.WebhookDelete, "End a webhook for good", "End a webhook for good. Its name is free then."),
		newWebhookRotate(a), newWebhookTest(a), newWebhookDeliveries(a), newWebhookRedeliver(a), newWebhookHistory(a))
	return c
}

// webhookFlags hold the command line's selection of events.
type webhookFlags struct {
	a        *app
	machines []string
	events   []string
	job      string
}

func (f *webhookFlags) bind(c *cobra.Command) {
	c.Flags().StringSliceVar(&f.machines, "machine", nil, "only these machines: job, step, worker, schedule, queue_pause")
	c.Flags().StringSliceVar(&f.events, "event", nil, "only these events of the machines; see \"pawl machine show\"")
	c.Flags().StringVar(&f.job, "job", "", "only this job and its steps")
}

// fill changes what flags name of a target.
func (f *webhookFlags) fill(c *cobra.Command, cl *client.Client, t *pawl.WebhookTarget) error {
	if c.Flags().Changed("machine") {
		t.Machines = given(f.machines)
	}
	if c.Flags().Changed("event") {
		t.Events = nil
		for _, e := range given(f.events) {
			t.Events = append(t.Events, machine.Event(e))
		}
	}
	if !c.Flags().Changed("job") {
		return nil
	}
	if t.Job = ""; f.job == "" {
		return nil
	}
	id, err := f.a.jobOf(c.Context(), cl, f.job)
	t.Job = id.Public(pawl.JobPrefix)
	return err
}

// given returns the elements of a flag, none for --flag "".
func given(list []string) []string {
	if len(list) == 1 && list[0] == "" {
		return nil
	}
	return list
}

const webhookCreateLong = `Make a webhook for what happens from now on, and print its secret on the last line of stdout,
or write it to the file that --out names, which only you can read. The receiver checks the
signatures with it. It is shown this once.

The URL is one of https, or of http to the loopback interface. The webhook sends the events of
its workspace, or of all with --all-workspaces.`

func newWebhookCreate(a *app) *cobra.Command {
	form, reason, out, everywhere := formText, "", "", false
	f := webhookFlags{a: a}
	c := &cobra.Command{
		Use: "create NAME URL", Short: "Make a webhook", Long: webhookCreateLong,
		Example: "  pawl webhook create alerts https://example.com/pawl --machine job --event error\n  pawl webhook create all http://127.0.0.1:8080/ --out all.secret",
		Args:    want(2, 2, "a NAME and a URL"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.withNew(c.Context(), func(ctx context.Context, cl *client.Client) error {
				p := pawl.WebhookPlan{Name: args[0], Workspace: a.workspace, WebhookTarget: pawl.WebhookTarget{URL: args[1]}}
				if everywhere {
					p.Workspace = ""
				}
				if err := f.fill(c, cl, &p.WebhookTarget); err != nil {
					return err
				}
				var w pawl.NewWebhook
				return a.withSecret(secret{"webhook " + p.Name, &w.ID, &w.Secret, &w}, out, form, func() (err error) {
					w, err = cl.Webhooks.Create(ctx, p, a.change(reason))
					return err
				})
			})
		},
	}
	f.bind(c)
	c.Flags().BoolVar(&everywhere, "all-workspaces", false, "the events of all workspaces")
	bindOut(c, &out)
	bindReason(c, &reason)
	bindForm(a, c, &form, "{id, .., secret}")
	return c
}

func newWebhookList(a *app) *cobra.Command {
	form, ended := formText, false
	c := &cobra.Command{
		Use: "list", Short: "List webhooks",
		Long:    "List the webhooks of all workspaces, newest first; --all includes those that were deleted.\nWORKSPACE, MACHINES and EVENTS are empty where a webhook selects all.",
		Example: "  pawl webhook list\n  pawl webhook list -o json",
		Args:    want(0, 0, "no argument"),
		RunE: a.on(func(ctx context.Context, cl *client.Client, _ []string) error {
			rows := console.Webhooks(a.stdout, form == formJSON, a.outZone())
			if err := cl.Webhooks.List(ctx, "", ended, rows.Add); err != nil {
				return err
			}
			if rows.N == 0 && form != formJSON {
				fmt.Fprintln(a.stderr, "no webhooks")
				return nil
			}
			return rows.End()
		}),
	}
	c.Flags().BoolVar(&ended, "all", false, "those that were deleted, too")
	bindForm(a, c, &form, "a list of webhooks")
	return c
}

// onWebhook returns a command about the webhook that its first argument names.
func (a *app) onWebhook(c *cobra.Command, f func(ctx context.Context, cl *client.Client, id pawl.ID, args []string) error) *cobra.Command {
	if c.Args == nil {
		c.Args = want(1, 1, "a WEBHOOK")
	}
	c.Long += "\nWEBHOOK is an id, or the name of a webhook."
	c.ValidArgsFunction = a.completeWebhooks
	c.RunE = a.on(func(ctx context.Context, cl *client.Client, args []string) error {
		id, err := a.webhookOf(ctx, cl, args[0])
		if err != nil {
			return err
		}
		return f(ctx, cl, id, args[1:])
	})
	return c
}

func newWebhookShow(a *app) *cobra.Command {
	form := formText
	c := a.onWebhook(&cobra.Command{
		Use: "show WEBHOOK", Short: "Show a webhook",
		Long:    "Show what a webhook sends where, and whether its receiver takes it.",
		Example: "  pawl webhook show alerts\n  pawl webhook show alerts -o json",
	}, func(ctx context.Context, cl *client.Client, id pawl.ID, _ []string) error {
		v, err := cl.Webhooks.Get(ctx, id)
		if err != nil {
			return err
		}
		return a.show(form, v, func() error { console.Webhook(a.stdout, v, a.outZone()); return nil })
	})
	bindForm(a, c, &form, "the webhook")
	return c
}

func newWebhookUpdate(a *app) *cobra.Command {
	form, reason, url := formText, "", ""
	f := webhookFlags{a: a}
	var c *cobra.Command
	c = a.onWebhook(&cobra.Command{
		Use: "update WEBHOOK", Short: "Change what a webhook sends where",
		Long:    "Change what flags name of a webhook: its URL, and what it selects; an empty value selects all.\nWhat it has not sent yet goes to the new URL. A paused or disabled webhook stays so.",
		Example: "  pawl webhook update alerts --url https://example.com/new\n  pawl webhook update alerts --machine job,step --event \"\"",
	}, func(ctx context.Context, cl *client.Client, id pawl.ID, _ []string) error {
		v, err := cl.Webhooks.Get(ctx, id)
		if err != nil {
			return err
		}
		t := pawl.WebhookTarget{URL: v.URL, Job: v.Job, Machines: v.Machines, Events: v.Events}
		if c.Flags().Changed("url") {
			t.URL = url
		}
		if err := f.fill(c, cl, &t); err != nil {
			return err
		}
		change := a.change(reason)
		change.Version = v.Version
		r, err := cl.Webhooks.Replace(ctx, id, t, change)
		if err != nil {
			return err
		}
		return a.show(form, r, func() error {
			_, err := fmt.Fprintf(a.stdout, "webhook %s is changed\n", r.ID)
			return err
		})
	})
	c.Flags().StringVar(&url, "url", "", "where it sends: https, or http to the loopback interface")
	f.bind(c)
	bindReason(c, &reason)
	bindForm(a, c, &form, "what it did")
	return c
}

func newWebhookMove(a *app, event machine.Event, short, long string) *cobra.Command {
	form, reason := formText, ""
	c := a.onWebhook(&cobra.Command{
		Use: string(event) + " WEBHOOK", Short: short, Long: long,
		Example: fmt.Sprintf("  pawl webhook %s alerts --reason \"the receiver moves\"", event),
	}, func(ctx context.Context, cl *client.Client, id pawl.ID, _ []string) error {
		r, err := cl.Webhooks.Move(ctx, id, event, a.change(reason))
		if err != nil {
			return err
		}
		return a.show(form, r, func() error {
			_, err := fmt.Fprintf(a.stdout, "webhook %s is %s\n", r.ID, r.To)
			return err
		})
	})
	bindReason(c, &reason)
	bindForm(a, c, &form, "what it did")
	return c
}

func newWebhookRotate(a *app) *cobra.Command {
	form, reason, out := formText, "", ""
	c := a.onWebhook(&cobra.Command{
		Use: "rotate WEBHOOK", Short: "Give a webhook another secret",
		Long:    "Make another secret, and print it as \"create\" does. For 24 hours what is sent is signed with\nthe former one, too.",
		Example: "  pawl webhook rotate alerts --out alerts.secret",
	}, func(ctx context.Context, cl *client.Client, id pawl.ID, args []string) error {
		var w pawl.NewWebhook
		return a.withSecret(secret{"webhook " + id.Public(pawl.WebhookPrefix), &w.ID, &w.Secret, &w}, out, form, func() (err error) {
			w, err = cl.Webhooks.Rotate(ctx, id, a.change(reason))
			return err
		})
	})
	bindOut(c, &out)
	bindReason(c, &reason)
	bindForm(a, c, &form, "{id, .., secret}")
	return c
}

// webhookOf returns the id that a text is, or that of the webhook with this name: of the
// workspace of the command, or else of another.
func (a *app) webhookOf(ctx context.Context, cl *client.Client, text string) (pawl.ID, error) {
	id, err := cl.Webhooks.Find(ctx, a.workspace, text)
	if pawl.KindOf(err) == pawl.NotFound {
		id, err = cl.Webhooks.Find(ctx, "", text)
	}
	return id, err
}

// sent shows what came of an attempt. One that the receiver has not taken is an error.
func (a *app) sent(form string, d *pawl.Delivery, err error) error {
	if err != nil {
		return err
	}
	if err := a.show(form, d, func() error { return console.Delivery(a.stdout, d) }); err != nil || d.Delivered {
		return err
	}
	return pawl.Errorf(pawl.Conflict, "the receiver has not taken the message")
}

func newWebhookTest(a *app) *cobra.Command {
	form := formText
	c := a.onWebhook(&cobra.Command{
		Use: "test WEBHOOK", Short: "Send a test message",
		Long:    "Send a message of the type test, once, whatever the state of the webhook. Exit 5 if the\nreceiver does not take it.",
		Example: "  pawl webhook test alerts",
	}, func(ctx context.Context, cl *client.Client, id pawl.ID, _ []string) error {
		d, err := cl.Webhooks.Test(ctx, id)
		return a.sent(form, d, err)
	})
	bindForm(a, c, &form, "the delivery")
	return c
}

func newWebhookDeliveries(a *app) *cobra.Command {
	form := formText
	c := a.onWebhook(&cobra.Command{
		Use: "deliveries WEBHOOK", Short: "List the last deliveries",
		Long:    "List the last attempts to send something, newest first: 100 at least. STATUS is that of the\nresponse, and - if there was none. ATTEMPT 0 is one that somebody has asked for.",
		Example: "  pawl webhook deliveries alerts\n  pawl webhook deliveries alerts -o json",
	}, func(ctx context.Context, cl *client.Client, id pawl.ID, _ []string) error {
		rows := console.Deliveries(a.stdout, form == formJSON, a.outZone())
		if err := cl.Webhooks.Deliveries(ctx, id, rows.Add); err != nil {
			return err
		}
		return rows.End()
	})
	bindForm(a, c, &form, "a list of deliveries")
	return c
}

func newWebhookRedeliver(a *app) *cobra.Command {
	form := formText
	c := a.onWebhook(&cobra.Command{
		Use: "redeliver WEBHOOK DELIVERY", Short: "Send a message again", Args: want(2, 2, "a WEBHOOK and a DELIVERY"),
		Long:    "Send the message of an earlier delivery again, once, with the same message id. Exit 5 if the\nreceiver does not take it. DELIVERY is an id that \"deliveries\" lists.",
		Example: "  pawl webhook redeliver alerts 17",
	}, func(ctx context.Context, cl *client.Client, id pawl.ID, args []string) error {
		d, err := cl.Webhooks.Redeliver(ctx, id, args[0])
		return a.sent(form, d, err)
	})
	bindForm(a, c, &form, "the delivery")
	return c
}

func newWebhookHistory(a *app) *cobra.Command {
	form := formText
	c := a.onWebhook(&cobra.Command{
		Use: "history WEBHOOK", Short: "List the moves of a webhook",
		Long:    "List the moves of a webhook, oldest first: who made and paused it, when it was disabled, and\nwhen events were missing.",
		Example: "  pawl webhook history alerts\n  pawl webhook history alerts -o json",
	}, func(ctx context.Context, cl *client.Client, id pawl.ID, _ []string) error {
		rows := console.WorkerHistory(a.stdout, form == formJSON, a.outZone())
		if err := cl.Webhooks.History(ctx, id, func(t pawl.Transition) error { return rows.Add(&t) }); err != nil {
			return err
		}
		return rows.End()
	})
	bindForm(a, c, &form, "a list of moves")
	return c
}

// completeWebhooks offers the names of webhooks to the shell.
func (a *app) completeWebhooks(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completedFirst(c, args, begun, func(ctx context.Context, cl *client.Client, offer func(word, about string)) error {
		return cl.Webhooks.List(ctx, "", false, func(v *pawl.WebhookView) error {
			offer(v.Name, v.URL)
			return nil
		})
	})
}
