package console

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/pawl-dev/pawl"
)

// Times writes the next times of a schedule, in its time zone and in UTC.
func Times(w io.Writer, v *pawl.ScheduleView) error {
	if len(v.Next) == 0 {
		return nil
	}
	zone, err := time.LoadLocation(v.TimeZone)
	if err != nil {
		return err
	}
	var times []time.Time
	for _, at := range v.Next {
		times = append(times, at.Time().In(zone))
	}
	return Table(w, TimeRows(times))
}

func TimeRows(times []time.Time) [][]string {
	rows := [][]string{{"NEXT", "UTC"}}
	for _, at := range times {
		rows = append(rows, []string{at.Format("Mon 2006-01-02 15:04:05 -07:00 MST"), at.UTC().Format("Mon 2006-01-02 15:04:05Z")})
	}
	return rows
}

func Schedules(w io.Writer, json bool, zone *time.Location) *Listing[pawl.ScheduleView] {
	row := func(v *pawl.ScheduleView) []string {
		next := ""
		if len(v.Next) > 0 {
			next = Second(v.Next[0], zone)
		}
		return []string{v.Name, string(v.Status), v.Cron, v.TimeZone, v.Workflow, next, Second(v.LastDue, zone), lastJob(v)}
	}
	head := []string{"NAME", "STATUS", "CRON", "ZONE", "WORKFLOW", "NEXT", "LAST", "LAST JOB"}
	return &Listing[pawl.ScheduleView]{W: w, JSON: json, Head: head, Row: row}
}

func lastJob(v *pawl.ScheduleView) string {
	if v.LastJob == nil {
		return ""
	}
	return *v.LastJob + " " + string(v.LastState)
}

// WithHistory is a schedule with its transitions, as JSON shows it.
type WithHistory struct {
	*pawl.ScheduleView
	History []pawl.Transition `json:"history"`
}

// Schedule writes a schedule and its transitions.
func Schedule(w io.Writer, v *pawl.ScheduleView, moves []pawl.Transition, zone *time.Location) error {
	waiting := ""
	if v.Waiting != 0 {
		waiting = "the job of " + Second(v.Waiting, zone) + ", until the last one has ended"
	}
	for _, fact := range [][2]string{
		{"schedule", v.Name + " (" + v.ID + ")"},
		{"status", string(v.Status)},
		{"workflow", v.Workflow},
		{"inputs", string(v.Inputs)},
		{"cron", v.Cron},
		{"timezone", v.TimeZone},
		{"catch-up", time.Duration(v.CatchUp).String()},
		{"overlap", v.Overlap},
		{"priority", fmt.Sprint(v.Priority)},
		{"waiting", waiting},
		{"last due", Second(v.LastDue, zone)},
		{"last job", lastJob(v)},
	} {
		if fact[1] != "" {
			fmt.Fprintf(w, "%-12s %s\n", fact[0], Printable(fact[1]))
		}
	}
	fmt.Fprintln(w)
	if len(v.Next) > 0 {
		if err := Times(w, v); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	return showMoves(w, moves, zone)
}

// showMoves writes what a schedule did, and what operators did to it.
func showMoves(w io.Writer, history []pawl.Transition, zone *time.Location) error {
	rows := [][]string{{"AT", "EVENT", "DUE", "BY", "JOB", "WHY"}}
	for i := range history {
		h := &history[i]
		var about struct {
			Due pawl.Timestamp
			Job string
		}
		if len(h.Metadata) > 0 {
			if err := json.Unmarshal(h.Metadata, &about); err != nil {
				return err
			}
		}
		due := ""
		if about.Due != 0 {
			due = In(about.Due.Time(), zone).Format(time.RFC3339)
		}
		rows = append(rows, []string{Stamp(h.At.Time(), zone), string(h.Event), due, h.Actor, about.Job, h.Reason})
	}
	return Table(w, rows)
}
