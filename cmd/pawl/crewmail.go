package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/sleep"
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

const crewPatrolLong = `Look after the crew. A member whose runner was killed is stale at once, and its task goes to the
next attempt; one that others have started needs attention when it is silent for 5 minutes, is
stale after 15, and has failed after as long again; a review needs attention after an hour, and
is stale after two, but waits for a decision all the same (timeouts in crew.yaml change that).
Work that has changed since it was approved goes back to review. Messages of the types done and
failed make the moves that they ask for. A state that was edited by hand is put aside. Programs
whose next attempt is due, or whose work has come back, are started. Worktrees that nobody needs
are removed, if nothing is lost.

Without --fix the command only says what it would do. With --watch it goes on until Ctrl-C, with
one list a round. Only one process patrols at a time (exit 6). The exit code is 1 if something
cannot be done.`

func (k *crewApp) newPatrol() *cobra.Command {
	form, fix, every := formText, false, time.Duration(0)
	c := &cobra.Command{
		Use: "patrol", Short: "Find what is dead, silent, overdue or left behind", Long: crewPatrolLong,
		Example: "  pawl crew patrol\n  pawl crew patrol --fix\n  pawl crew patrol --fix --watch 30s",
		Args:    want(0, 0, "no argument"),
		RunE: k.on(func(ctx context.Context, cr *crew.Crew, _ []string) error {
			if every != 0 && every < time.Second {
				return usage("", "--watch %s: want 1s or more", every)
			}
			for {
				err := k.patrol(ctx, cr, form, fix)
				if every == 0 {
					return err
				}
				if err != nil && !isExit(err) {
					console.Say(k.stderr, "error", err.Error())
				}
				if !sleep.For(ctx, every) {
					return ctx.Err()
				}
			}
		}),
	}
	k.bind(c, &form, "a list of findings")
	c.Flags().BoolVar(&fix, "fix", false, "do what is to be done")
	c.Flags().DurationVar(&every, "watch", 0, "patrol again after so long, until Ctrl-C; 0 is once")
	return c
}

func (k *crewApp) patrol(ctx context.Context, cr *crew.Crew, form string, fix bool) error {
	found, err := cr.Patrol(ctx, crew.Patrol{Fix: fix, Start: func(ctx context.Context, id string) error {
		_, err := k.launch(ctx, cr, id, nil, crewStart{})
		return err
	}})
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
}
