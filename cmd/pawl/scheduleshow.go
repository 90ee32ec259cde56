package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/schedule"
)

// hintUnfollowed says so if nobody is there to follow schedules.
func (a *app) hintUnfollowed(ctx context.Context, cl *client.Client) error {
	followed, err := cl.Schedules.Followed(ctx)
	if err == nil && !followed {
		console.Say(a.stderr, "hint", "nobody follows schedules at this moment; start an engine with: pawl dev"+a.given)
	}
	return err
}

func newScheduleList(a *app) *cobra.Command {
	form := formText
	c := &cobra.Command{
		Use: "list", Short: "List the schedules of the workspace",
		Long:    "List the schedules of the workspace by name, each with its next time and its last job.",
		Example: "  pawl schedule list\n  pawl schedule list -o json",
		Args:    want(0, 0, "no argument"),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.with(c.Context(), func(cl *client.Client) error { return a.schedules(c.Context(), cl, form) })
		},
	}
	bindForm(c, &form, "a list of schedules")
	return c
}

func (a *app) schedules(ctx context.Context, cl *client.Client, form string) error {
	rows := console.Schedules(a.stdout, form == formJSON, a.outZone())
	if err := cl.Schedules.List(ctx, 1, rows.Add); err != nil {
		return err
	}
	if rows.N == 0 && form != formJSON {
		fmt.Fprintln(a.stderr, "no schedules in workspace "+a.workspace)
		return nil
	}
	if err := rows.End(); err != nil || form == formJSON {
		return err
	}
	return a.hintUnfollowed(ctx, cl)
}

// shownMoves is how many moves of a schedule are shown.
const shownMoves = 20

func newScheduleShow(a *app) *cobra.Command {
	form, next, limit := formText, 0, 0
	c := &cobra.Command{
		Use: "show NAME", Short: "Show a schedule and its history",
		Long:    "Show a schedule: what it runs, its next times in its zone and in UTC, its last job, and its\nlast moves: which times made a job, waited or passed, and why; who changed it, and when.",
		Example: "  pawl schedule show nightly\n  pawl schedule show nightly --next 10 --limit 0 -o json",
		Args:    want(1, 1, "a NAME"), ValidArgsFunction: a.completeSchedules,
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 0 {
				return usage("", "--limit %d: want 0 or more; 0 is all", limit)
			}
			if err := checkTimes("--next", next, 0); err != nil {
				return err
			}
			return a.with(c.Context(), func(cl *client.Client) error {
				v, err := cl.Schedules.Get(c.Context(), args[0], next)
				if err != nil {
					return err
				}
				moves := []pawl.Transition{}
				last := &console.Tail[pawl.Transition]{Limit: limit, F: func(t *pawl.Transition) error { moves = append(moves, *t); return nil }}
				if err := cl.Schedules.History(c.Context(), args[0], last.Add); err != nil {
					return err
				}
				if err := last.End(); err != nil {
					return err
				}
				if form == formJSON {
					return console.JSON(a.stdout, struct {
						*pawl.ScheduleView
						History []pawl.Transition `json:"history"`
					}{v, moves})
				}
				if err := console.Schedule(a.stdout, v, moves, a.outZone()); err != nil {
					return err
				}
				return a.hintUnfollowed(c.Context(), cl)
			})
		},
	}
	c.Flags().IntVar(&next, "next", 5, "so many of the next times, 0 to 1000")
	c.Flags().IntVar(&limit, "limit", shownMoves, "so many of the last moves; 0 is all")
	bindForm(c, &form, "the schedule with its moves")
	return c
}

// maxTimes is how many times are shown at once.
const maxTimes = 1000

func checkTimes(flag string, n, least int) error {
	if n < least || n > maxTimes {
		return usage("", "%s %d: want %d to %d", flag, n, least, maxTimes)
	}
	return nil
}

const scheduleNextLong = `Show the next times of a cron expression, in its time zone and in UTC. No
database is needed. The words of the expression may stand without quotes where the
shell leaves them alone.`

func newScheduleNext(a *app) *cobra.Command {
	form, zone, n := formText, "UTC", 0
	c := &cobra.Command{
		Use: "next EXPR", Short: "Show the times of a cron expression", Long: scheduleNextLong,
		Example: "  pawl schedule next \"30 2 * * MON-FRI\" --timezone Europe/Berlin\n  pawl schedule next @every 90s -n 3 -o json",
		Args:    want(1, -1, "an EXPR"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := checkTimes("-n", n, 1); err != nil {
				return err
			}
			cron, err := schedule.Parse(strings.Join(args, " "), zone)
			if err != nil {
				return err
			}
			times := schedule.Upcoming(cron, time.Now(), n)
			if form == formJSON {
				return console.JSON(a.stdout, times)
			}
			return console.Table(a.stdout, console.TimeRows(times))
		},
	}
	c.Flags().StringVar(&zone, "timezone", zone, "of the expression: an IANA name such as Europe/Berlin")
	c.Flags().IntVarP(&n, "number", "n", 5, "so many, 1 to 1000")
	bindForm(c, &form, "a list of times with their offsets")
	return c
}

// completeSchedules offers the schedules to the shell.
func (a *app) completeSchedules(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completed(c, begun, func(ctx context.Context, cl *client.Client, offer func(word, about string)) error {
		return cl.Schedules.List(ctx, 0, func(v *pawl.ScheduleView) error {
			offer(v.Name, v.Workflow+" "+v.Cron)
			return nil
		})
	})
}
