package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/crew"
)

// self returns under which name the caller sends and reads messages.
func (k *crewApp) self() string {
	if id := k.getenv("PAWL_WORKER"); id != "" {
		return id
	}
	return crew.Orchestrator
}

func (k *crewApp) newSend() *cobra.Command {
	form, m := formText, crew.Message{}
	c := &cobra.Command{
		Use: "send TO TEXT", Short: "Send a message to a member, or to the orchestrator",
		Long: `Send a message to a member, to the orchestrator (whoever runs the crew), or, as the orchestrator,
to all members (*). The program of a member sends as that member, and about its assignment; anybody
else is the orchestrator. The TEXT - is read from stdin.`,
		Example: "  pawl crew send auth \"use the new client\"\n  pawl crew send orchestrator \"the schema has no index\" --type question",
		Args:    want(2, 2, "a recipient and a TEXT"), ValidArgsFunction: k.completeMembers,
		RunE: k.on(func(ctx context.Context, cr *crew.Crew, args []string) (err error) {
			m.From, m.To, m.Body = k.self(), args[0], args[1]
			if m.Body == "-" {
				if m.Body, err = k.text("-"); err != nil {
					return err
				}
			}
			if m.From != crew.Orchestrator {
				m.Task = k.getenv("PAWL_TASK")
				if m.Epoch, err = k.epoch(); err != nil {
					return err
				}
			}
			if err := cr.Send(ctx, &m); err != nil {
				return err
			}
			return k.show(form, &m, func() error {
				_, err := fmt.Fprintf(k.stdout, "message %d of %s to %s\n", m.Sequence, m.From, m.To)
				return err
			})
		}),
	}
	k.bind(c, &form, "the message")
	c.Flags().StringVar(&m.Type, "type", "note", "what kind of message it is: lower-case letters, digits, '_' and '-'")
	return c
}

// A crewInbox is what "pawl crew inbox" shows.
type crewInbox struct {
	Messages []crew.Message `json:"messages"`
	Damage   []crew.Damage  `json:"damage"` // lines that are no messages
}

func (k *crewApp) newInbox() *cobra.Command {
	form, ack := formText, false
	c := &cobra.Command{
		Use: "inbox [MEMBER]", Short: "List the messages that were not acknowledged",
		Long: `List the messages to a MEMBER, or to "orchestrator", that were not acknowledged; the default is who
runs the command. They are listed again until --ack acknowledges what is listed. Lines that are
damaged are named on stderr.`,
		Example: "  pawl crew inbox --ack\n  pawl crew inbox auth --json",
		Args:    want(0, 1, "one MEMBER"), ValidArgsFunction: k.completeMembers,
		RunE: k.on(func(ctx context.Context, cr *crew.Crew, args []string) error {
			reader := optional(args)
			if reader == "" {
				reader = k.self()
			}
			if reader != crew.Orchestrator {
				if _, err := cr.Load(reader); err != nil {
					return err
				}
			}
			in, err := cr.Inbox(reader)
			if err != nil {
				return err
			}
			for i := range in.Damage {
				console.Say(k.stderr, "damaged", in.Damage[i].Error())
			}
			shown := crewInbox{append([]crew.Message{}, in.Messages...), append([]crew.Damage{}, in.Damage...)}
			if err := k.listed(form, shown, len(in.Messages), "there is no message for "+reader, console.CrewMessages(in.Messages)); err != nil || !ack {
				return err
			}
			return cr.Ack(ctx, in)
		}),
	}
	k.bind(c, &form, "messages, and damaged lines")
	c.Flags().BoolVar(&ack, "ack", false, "acknowledge what is listed")
	return c
}

func (k *crewApp) newPatrol() *cobra.Command {
	form, fix, l := formText, false, crew.Limits{}.WithDefaults()
	c := &cobra.Command{
		Use: "patrol", Short: "Find members that are dead, silent or overdue",
		Long: `Judge every member. One whose runner was killed is stale at once; one that others have started
needs attention when it is silent for --stale, is stale after --dead, and has failed after as
long again; a review needs attention after --review, and is stale after twice that. A heartbeat
brings a stale member back.

Without --fix the command only says what it would do. Only one process patrols at a time
(exit 6). The exit code is 1 if a member cannot be judged.`,
		Example: "  pawl crew patrol\n  pawl crew patrol --fix --dead 30m",
		Args:    want(0, 0, "no argument"),
		RunE: k.on(func(ctx context.Context, cr *crew.Crew, _ []string) error {
			if l.Stale <= 0 || l.Dead <= 0 || l.Review <= 0 {
				return usage("", "--stale %s, --dead %s, --review %s: want durations above 0", l.Stale, l.Dead, l.Review)
			}
			found, err := cr.Patrol(ctx, l, fix)
			if err != nil {
				return err
			}
			if err := k.listed(form, found, len(found), "nothing to do", console.CrewFindings(found)); err != nil {
				return err
			}
			for _, f := range found {
				if f.Error != "" {
					return exit{codeFailed}
				}
			}
			return nil
		}),
	}
	k.bind(c, &form, "a list of findings")
	c.Flags().BoolVar(&fix, "fix", false, "make the moves")
	c.Flags().DurationVar(&l.Stale, "stale", l.Stale, "silence after which a member needs attention")
	c.Flags().DurationVar(&l.Dead, "dead", l.Dead, "silence after which it is stale")
	c.Flags().DurationVar(&l.Review, "review", l.Review, "length of a review after which it needs attention")
	return c
}
