package main

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
)

const auditListLong = `List moves of the audit trail, newest first: who did what, and why. With --entity, list
those of one entity, by its id, oldest first. While more than about 600 rows of
the trail a second are written, the order is exact only to ten seconds, and --limit may leave
out moves that are newer than those listed.

It lists the moves of the workspace; --all-workspaces lists those of all, and of tokens and
webhooks that belong to none. Through a server, moves of webhooks are for admins, and those
of tokens for admins of all workspaces; other callers do not see them.

--actor is what the column BY shows: token:NAME or oidc:NAME of a caller of a server, the id
of a worker, or engine. --event and --state are those of the machines: see pawl machine show.
--since and --until are RFC 3339, a time of today in UTC, or a
duration ago. --limit is 1 or more, 50 by default; 0 is no limit.`

// An auditList is what the flags of audit list select.
type auditList struct {
	query        pawl.AuditQuery
	all          bool
	since, until string
	most         int
}

func newAuditList(a *app) *cobra.Command {
	form, l := formText, auditList{}
	c := &cobra.Command{
		Use: "list", Short: "List moves by actor, machine, entity and time", Long: auditListLong,
		Example: "  pawl audit list --actor token:ci --since 24h\n  pawl audit list --machine token,webhook --all-workspaces\n  pawl audit list --event cancel --since 10:00\n  pawl audit list --entity j_019ac1f0a3c47d5e8f00112233445566 -o json",
		Args:    want(0, 0, "no argument"),
		RunE:    func(c *cobra.Command, _ []string) error { return a.auditList(c.Context(), &l, form == formJSON) },
	}
	bindForm(a, c, &form, "a list of moves")
	c.Flags().StringVar(&l.query.Actor, "actor", "", "only moves by this actor")
	c.Flags().StringVar((*string)(&l.query.Event), "event", "", "only moves by this event, such as cancel")
	c.Flags().StringVar((*string)(&l.query.State), "state", "", "only moves that lead to this state, such as FAILED")
	c.Flags().StringSliceVar(&l.query.Machines, "machine", nil, "only these: job, step, worker, schedule, queue_pause, token, webhook")
	c.Flags().StringVar(&l.query.Entity, "entity", "", "only moves of the entity with this id")
	c.Flags().StringVar(&l.since, "since", "", "only moves at this time or later")
	c.Flags().StringVar(&l.until, "until", "", "only moves before this time")
	c.Flags().BoolVar(&l.all, "all-workspaces", false, "moves of all workspaces, and of tokens")
	c.Flags().IntVar(&l.most, "limit", 50, "how many to list at most; 0: all")
	return c
}

func (a *app) auditList(ctx context.Context, l *auditList, asJSON bool) error {
	if l.most < 0 {
		return usage("", "--limit %d: want 1 or more, or 0 for no limit", l.most)
	}
	if err := l.times(time.Now()); err != nil {
		return err
	}
	if !l.all {
		l.query.Workspaces = []string{a.workspace}
	}
	if l.query.Limit = 1000; l.most > 0 {
		l.query.Limit = min(l.most, 1000)
	}
	list := console.Moves(a.stdout, asJSON, a.outZone())
	shown := 0
	err := a.with(ctx, func(ctx context.Context, cl *client.Client) error {
		return cl.Audit.List(ctx, l.query, func(m *pawl.Move) error {
			if err := list.Add(m); err != nil {
				return err
			}
			if shown++; shown == l.most {
				return errListed
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, errListed) {
		return err
	}
	return list.End()
}

// errListed ends a list that has as much as was wanted.
var errListed = errors.New("all that was wanted is listed")

// times reads the times of the flags.
func (l *auditList) times(now time.Time) error {
	for _, bound := range []struct {
		flag, text string
		at         *pawl.Timestamp
	}{{"--since", l.since, &l.query.From}, {"--until", l.until, &l.query.To}} {
		if bound.text == "" {
			continue
		}
		at, err := parseInstant(bound.flag, bound.text, now)
		if err != nil {
			return err
		}
		*bound.at = pawl.Timestamp(pawl.Micros(at))
	}
	return nil
}
