package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/machine"
)

const eventsLong = `Show what happens, as it is committed: a line for each move of a job, a step, a worker, a
schedule, a pause of a queue or a webhook of the workspace, until the command is interrupted
(exit code 0). --all-workspaces shows the moves of all, and of tokens, which belong to none.
Through a server, moves of webhooks are for admins, and those of tokens for admins of all
workspaces.

It begins now, or with --after behind an event that was shown with its token by -o json. A
token is good for an hour. A line "gap" says that moves are missing, because the token was
too old or of another database, or because this command was too slow. A move may be shown
twice after the connection to a server was lost.

With -o json each line is an object: type (hello, transition or gap), token if it is a place
to go on from, reason of a gap, and the move as "event".`

// An eventsQuery is what the flags of events select.
type eventsQuery struct {
	job              string
	machines, events []string
	after            string
	all              bool
	most             int
}

func newEvents(a *app) *cobra.Command {
	form, q := formText, eventsQuery{}
	c := &cobra.Command{
		Use: "events", Short: "Show what happens, as it is committed", Long: eventsLong,
		Example: "  pawl events\n  pawl events --job last\n  pawl events --machine job --event success -o json\n  pawl --server http://127.0.0.1:7295 events",
		Args:    want(0, 0, "no arguments"),
		RunE:    func(c *cobra.Command, _ []string) error { return a.events(c.Context(), q, form == formJSON) },
	}
	bindForm(a, c, &form, "{type, token, reason, event} on each line")
	c.Flags().StringVar(&q.job, "job", "", "only this job and its steps")
	c.Flags().StringSliceVar(&q.machines, "machine", nil, "only these machines: job, step, worker, schedule, queue_pause, token, webhook")
	c.Flags().BoolVar(&q.all, "all-workspaces", false, "moves of all workspaces, and of tokens")
	c.Flags().StringSliceVar(&q.events, "event", nil, "only these events of the machines; see \"pawl machine show\"")
	c.Flags().StringVar(&q.after, "after", "", "go on behind this token")
	c.Flags().IntVar(&q.most, "limit", 0, "end after so many moves (default: never)")
	return c
}

func (a *app) events(ctx context.Context, q eventsQuery, asJSON bool) error {
	if q.most < 0 {
		return usage("", "--limit %d: want 1 or more, or 0 for no limit", q.most)
	}
	return a.with(ctx, func(ctx context.Context, cl *client.Client) error {
		f := client.EventFilter{Machines: q.machines, After: q.after, AllWorkspaces: q.all}
		for _, event := range q.events {
			f.Events = append(f.Events, machine.Event(event))
		}
		if q.job != "" {
			id, err := a.jobOf(ctx, cl, q.job)
			if err != nil {
				return err
			}
			f.Job = id.Public(pawl.JobPrefix)
		}
		shown := 0
		for e, err := range cl.Events(ctx, f) {
			switch {
			case err != nil && ctx.Err() != nil: // interrupted
				return nil
			case err != nil:
				return err
			}
			if err := a.event(&e, asJSON); err != nil {
				return err
			}
			if e.Type == pawl.EventTransition {
				shown++
			}
			if shown == q.most && q.most > 0 {
				return nil
			}
		}
		return nil
	})
}

// event prints an event.
func (a *app) event(e *pawl.Event, asJSON bool) error {
	if asJSON {
		line := struct {
			Type   pawl.EventType `json:"type"`
			Token  string         `json:"token,omitempty"`
			Reason string         `json:"reason,omitempty"`
			Event  *pawl.Event    `json:"event,omitempty"`
		}{e.Type, e.Token, e.Gap, nil}
		if e.Type == pawl.EventTransition {
			line.Event = e
		}
		return json.NewEncoder(a.stdout).Encode(line)
	}
	var err error
	switch e.Type {
	case pawl.EventTransition:
		_, err = io.WriteString(a.stdout, console.Event(e, a.outZone()))
	case pawl.EventGap:
		_, err = fmt.Fprintf(a.stdout, "gap: moves are missing (%s)\n", e.Gap)
	}
	return err
}
