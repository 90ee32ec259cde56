package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"
	_ "time/tzdata" // time zones of schedules, on hosts without a time zone database

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

const scheduleLong = `Create jobs of a registered workflow at the times of a cron expression.

A cron expression has five fields: minute, hour, day of the month, month and weekday,
such as "30 2 * * MON-FRI". @hourly, @daily, @weekly, @monthly, @yearly and "@every 90s"
replace a whole expression. "pawl schedule next" shows the times of an expression.

Every running engine, such as that of "pawl dev", follows the schedules of all
workspaces. Each time creates one job, however many engines run. While none runs, no
jobs are created; --catch-up says how late a job may be created for a missed time.`

func newSchedule(a *app) *cobra.Command {
	c := group(&cobra.Command{
		Use: "schedule", Short: "Run workflows at given times", Long: scheduleLong,
		Example: "  pawl schedule add nightly --workflow report --cron \"30 2 * * *\" --timezone Europe/Berlin\n  pawl schedule list\n  pawl schedule pause nightly --reason \"holidays\"",
	})
	c.AddCommand(newScheduleAdd(a), newScheduleUpdate(a), newScheduleList(a), newScheduleShow(a), newScheduleNext(a), newScheduleTrigger(a),
		newScheduleMove(a, lifecycle.SchedulePause, "paused", "Pause a schedule",
			"Pause a schedule: its times create no jobs until it is resumed, and are not made up for\nafterwards. Jobs that it has created continue."),
		newScheduleMove(a, lifecycle.ScheduleResume, "resumed", "Resume a paused schedule",
			"Resume a paused schedule: its times create jobs again, from now on."),
		newScheduleMove(a, lifecycle.ScheduleRemove, "removed", "Remove a schedule",
			"Remove a schedule. Jobs that it has created continue, its history stays in the audit\ntrail, and its name is free."))
	return c
}

// A scheduleFlags holds the command line's settings of a schedule.
type scheduleFlags struct {
	plan   pawl.SchedulePlan
	inputs inputFlags
	reason string
	form   string
}

func (f *scheduleFlags) bind(c *cobra.Command, a *app) {
	flags := c.Flags()
	flags.StringVar(&f.plan.Workflow, "workflow", "", "what it runs: NAME, in its newest version each time, or NAME@VERSION")
	flags.StringVar(&f.plan.Cron, "cron", "", `when: a cron expression such as "30 2 * * *", or "@every 90s"`)
	flags.StringVar(&f.plan.TimeZone, "timezone", "UTC", "time zone of the cron expression: an IANA name such as Europe/Berlin")
	flags.DurationVar(&f.plan.CatchUp, "catch-up", 0, "create the job of a missed time if it is less late than this, at most 720h")
	flags.StringVar(&f.plan.Overlap, "overlap", schedule.DefaultOverlap, "at a time when the last job still runs: skip, queue or cancel_old")
	flags.IntVar(&f.plan.Priority, "priority", 0, "jobs with a higher priority start first, -1000 to 1000")
	f.inputs.bind(c)
	bindReason(c, &f.reason)
	bindForm(a, c, &f.form, "the schedule")
	_ = c.RegisterFlagCompletionFunc("workflow", func(c *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		return a.completeWorkflows(c, nil, begun)
	})
}

// merge returns the old plan with the changes of the command line.
func (f *scheduleFlags) merge(c *cobra.Command, old pawl.SchedulePlan) pawl.SchedulePlan {
	for flag, take := range map[string]func(){
		"workflow": func() { old.Workflow = f.plan.Workflow },
		"cron":     func() { old.Cron = f.plan.Cron },
		"timezone": func() { old.TimeZone = f.plan.TimeZone },
		"catch-up": func() { old.CatchUp = f.plan.CatchUp },
		"overlap":  func() { old.Overlap = f.plan.Overlap },
		"priority": func() { old.Priority = f.plan.Priority },
	} {
		if c.Flags().Changed(flag) {
			take()
		}
	}
	return old
}

// given returns the inputs of a schedule, which are bound when a job is created: the old ones
// or those of --inputs, overridden by those of -i.
func (f *scheduleFlags) given(def *workflow.Definition, old json.RawMessage) (json.RawMessage, error) {
	from := f.inputs
	if from.whole == "" {
		from.whole = string(old)
	}
	given, err := from.object()
	if err != nil {
		return nil, err
	}
	changed, err := valuesOf("--input", "write -i region=eu", f.inputs.pairs, def.ParseInput)
	if err != nil {
		return nil, err
	}
	maps.Copy(given, changed)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err = enc.Encode(given)
	return bytes.TrimSpace(b.Bytes()), err
}

const scheduleAddLong = `Add a schedule, and show its next three times. The workflow has to be registered, and
the inputs have to fit it. A workflow that declares the input scheduled_at gets the time
for which each job was due, in RFC 3339 and UTC.

--overlap says what happens at a time when the last job of the schedule has not ended:
skip lets the time pass, queue keeps one time waiting until that job has ended, and
cancel_old cancels that job.`

func newScheduleAdd(a *app) *cobra.Command {
	var f scheduleFlags
	c := &cobra.Command{
		Use: "add NAME --workflow WORKFLOW[@VERSION] --cron EXPR", Short: "Add a schedule", Long: scheduleAddLong,
		Example: "  pawl schedule add nightly --workflow report --cron \"30 2 * * *\" --timezone Europe/Berlin\n  pawl schedule add poll --workflow poll@3 --cron \"@every 90s\" -i region=eu --overlap queue\n  pawl schedule add hourly --workflow report --cron @hourly --catch-up 6h",
		Args:    want(1, 1, "a NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			for _, flag := range []string{"workflow", "cron"} {
				if !c.Flags().Changed(flag) {
					return usage("usage: "+c.UseLine(), "%s needs --%s", c.CommandPath(), flag)
				}
			}
			plan := f.plan
			plan.Workspace, plan.Name = a.workspace, args[0]
			return a.putSchedule(c.Context(), &f, func(*client.Client) (pawl.SchedulePlan, error) { return plan, nil }, false)
		},
	}
	f.bind(c, a)
	return c
}

func newScheduleUpdate(a *app) *cobra.Command {
	var f scheduleFlags
	c := &cobra.Command{
		Use: "update NAME", Short: "Change a schedule",
		Long:    "Change the settings of a schedule that flags name. -i changes single inputs, --inputs\nreplaces all. A paused schedule stays paused. Existing jobs do not change.",
		Example: "  pawl schedule update nightly --cron \"0 3 * * *\"\n  pawl schedule update nightly -i region=us --reason \"the other region\"",
		Args:    want(1, 1, "a NAME"), ValidArgsFunction: a.completeSchedules,
		RunE: func(c *cobra.Command, args []string) error {
			return a.putSchedule(c.Context(), &f, func(cl *client.Client) (pawl.SchedulePlan, error) {
				v, err := cl.Schedules.Get(c.Context(), args[0], 0)
				if err != nil {
					return pawl.SchedulePlan{}, err
				}
				return f.merge(c, planOf(v)), nil
			}, true)
		},
	}
	f.bind(c, a)
	for _, flag := range []string{"timezone", "overlap"} {
		c.Flags().Lookup(flag).DefValue = "" // the default is the old value
	}
	return c
}

func planOf(v *pawl.ScheduleView) pawl.SchedulePlan {
	return pawl.SchedulePlan{Workspace: v.Workspace, Name: v.Name, Workflow: v.Workflow, Inputs: v.Inputs, Cron: v.Cron, TimeZone: v.TimeZone,
		CatchUp: time.Duration(v.CatchUp), Overlap: v.Overlap, Priority: v.Priority}
}

// addedTimes is how many next times are shown for a schedule that was added or changed.
const addedTimes = 3

// putSchedule adds or changes a schedule, and shows it.
func (a *app) putSchedule(ctx context.Context, f *scheduleFlags, planned func(*client.Client) (pawl.SchedulePlan, error), replace bool) error {
	return a.withNew(ctx, func(ctx context.Context, cl *client.Client) error {
		plan, err := planned(cl)
		if err != nil {
			return err
		}
		_, def, err := cl.Workflows.Get(ctx, plan.Workflow)
		if err != nil {
			return err
		}
		if plan.Inputs, err = f.given(def, plan.Inputs); err != nil {
			return err
		}
		put := cl.Schedules.Create
		if replace {
			put = cl.Schedules.Replace
		}
		if _, err := put(ctx, plan, a.change(f.reason)); err != nil {
			return err
		}
		v, err := cl.Schedules.Get(ctx, plan.Name, addedTimes)
		if err != nil {
			return err
		}
		if f.form == formJSON {
			return console.JSON(a.stdout, v)
		}
		fmt.Fprintf(a.stdout, "schedule %s is %s\n", v.Name, map[bool]string{false: "added", true: "changed"}[replace])
		if err := console.Times(a.stdout, v); err != nil {
			return err
		}
		return a.hintUnfollowed(ctx, cl)
	})
}

func newScheduleTrigger(a *app) *cobra.Command {
	form, reason, requestID := formText, "", ""
	c := &cobra.Command{
		Use: "trigger NAME", Short: "Create a job of a schedule now",
		Long:    "Create a job of a schedule now, in addition to its times, and print its id. It is created\neven if the last job still runs, whatever --overlap says, and becomes the last job of the\nschedule. A paused schedule refuses.",
		Example: "  pawl schedule trigger nightly --reason \"the report was lost\"",
		Args:    want(1, 1, "a NAME"), ValidArgsFunction: a.completeSchedules,
		RunE: a.on(func(ctx context.Context, cl *client.Client, args []string) error {
			change := a.change(reason)
			change.RequestID = requestID
			id, err := cl.Schedules.Trigger(ctx, args[0], change)
			if err != nil {
				return err
			}
			return a.showNew(ctx, cl, id, form)
		}),
	}
	bindReason(c, &reason)
	bindRequestID(c, &requestID, "job")
	bindForm(a, c, &form, "the job")
	return c
}

// newScheduleMove makes the command for an event of schedules.
func newScheduleMove(a *app, event machine.Event, done, short, long string) *cobra.Command {
	form, reason := formText, ""
	c := &cobra.Command{
		Use: string(event) + " NAME", Short: short, Long: long,
		Example: "  pawl schedule " + string(event) + " nightly --reason \"holidays\"",
		Args:    want(1, 1, "a NAME"), ValidArgsFunction: a.completeSchedules,
		RunE: a.on(func(ctx context.Context, cl *client.Client, args []string) error {
			v, err := cl.Schedules.Get(ctx, args[0], addedTimes)
			if err != nil {
				return err
			}
			if _, err := cl.Schedules.Move(ctx, args[0], event, a.change(reason)); err != nil {
				return err
			}
			if form == formText {
				_, err := fmt.Fprintf(a.stdout, "schedule %s is %s\n", args[0], done)
				return err
			}
			if event == lifecycle.ScheduleRemove {
				v.Status, v.Next = lifecycle.ScheduleRemoved, []pawl.Timestamp{}
			} else if v, err = cl.Schedules.Get(ctx, args[0], addedTimes); err != nil {
				return err
			}
			return console.JSON(a.stdout, v)
		}),
	}
	bindReason(c, &reason)
	bindForm(a, c, &form, "the schedule as it is then")
	return c
}

// hintUnfollowed prints a hint if no engine follows schedules.
func (a *app) hintUnfollowed(ctx context.Context, cl *client.Client) error {
	followed, err := cl.Schedules.Followed(ctx)
	if err == nil && !followed {
		console.Say(a.stderr, "hint", "no engine follows schedules now; start one with: pawl dev"+a.given)
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
		RunE: a.on(func(ctx context.Context, cl *client.Client, _ []string) error {
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
		}),
	}
	bindForm(a, c, &form, "a list of schedules")
	return c
}

// shownMoves is how many transitions of a schedule are shown.
const shownMoves = 20

func newScheduleShow(a *app) *cobra.Command {
	form, next, limit := formText, 0, 0
	c := &cobra.Command{
		Use: "show NAME", Short: "Show a schedule and its history",
		Long:    "Show a schedule: what it runs, its next times in its zone and in UTC, its last job, and\nits last moves: which times created a job, waited or passed, and why; who changed it, and\nwhen.",
		Example: "  pawl schedule show nightly\n  pawl schedule show nightly --next 10 --limit 0 -o json",
		Args:    want(1, 1, "a NAME"), ValidArgsFunction: a.completeSchedules,
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 0 {
				return usage("", "--limit %d: want 0 or more; 0 is all", limit)
			}
			if err := inRange("--next", next, 0, maxTimes); err != nil {
				return err
			}
			return a.with(c.Context(), func(ctx context.Context, cl *client.Client) error {
				v, err := cl.Schedules.Get(ctx, args[0], next)
				if err != nil {
					return err
				}
				moves := []pawl.Transition{}
				last := &console.Tail[pawl.Transition]{Limit: limit, F: func(t *pawl.Transition) error { moves = append(moves, *t); return nil }}
				if err := cl.Schedules.History(ctx, args[0], last.Add); err != nil {
					return err
				}
				if err := last.End(); err != nil {
					return err
				}
				return a.show(form, console.WithHistory{ScheduleView: v, History: moves}, func() error {
					if err := console.Schedule(a.stdout, v, moves, a.outZone()); err != nil {
						return err
					}
					return a.hintUnfollowed(ctx, cl)
				})
			})
		},
	}
	c.Flags().IntVar(&next, "next", 5, "how many of the next times to show, 0 to 1000")
	c.Flags().IntVar(&limit, "limit", shownMoves, "how many of the last moves to show; 0 is all")
	bindForm(a, c, &form, "the schedule with its moves")
	return c
}

// maxTimes is how many times are shown at once.
const maxTimes = 1000

const scheduleNextLong = `Show the next times of a cron expression, in its time zone and in UTC. No database is
needed. The expression needs quotes only where the shell would expand it.`

func newScheduleNext(a *app) *cobra.Command {
	form, zone, n := formText, "UTC", 0
	c := &cobra.Command{
		Use: "next EXPR", Short: "Show the times of a cron expression", Long: scheduleNextLong,
		Example: "  pawl schedule next \"30 2 * * MON-FRI\" --timezone Europe/Berlin\n  pawl schedule next @every 90s -n 3 -o json",
		Args:    want(1, -1, "an EXPR"),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := inRange("-n", n, 1, maxTimes); err != nil {
				return err
			}
			cron, err := schedule.Parse(strings.Join(args, " "), zone)
			if err != nil {
				return err
			}
			times := schedule.Upcoming(cron, time.Now(), n)
			return a.show(form, times, func() error { return console.Table(a.stdout, console.TimeRows(times)) })
		},
	}
	c.Flags().StringVar(&zone, "timezone", zone, "time zone of the expression: an IANA name such as Europe/Berlin")
	c.Flags().IntVarP(&n, "number", "n", 5, "how many times to show, 1 to 1000")
	bindForm(a, c, &form, "a list of times with their offsets")
	return c
}

// completeSchedules offers the schedules to the shell.
func (a *app) completeSchedules(c *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	return a.completedFirst(c, args, begun, func(ctx context.Context, cl *client.Client, offer func(word, about string)) error {
		return cl.Schedules.List(ctx, 0, func(v *pawl.ScheduleView) error {
			offer(v.Name, v.Workflow+" "+v.Cron)
			return nil
		})
	})
}
