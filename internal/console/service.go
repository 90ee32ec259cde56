package console

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// ServiceHistory returns the rows of a history, in the service's own states.
func ServiceHistory(moves []pawl.Transition, zone *time.Location) [][]string {
	rows, was := [][]string{{"AT", "MOVE", "EVENT", "BY", "WHY"}}, ""
	for i := range moves {
		m := &moves[i]
		var more struct {
			State  string                  `json:"state"`
			Action supervisor.ActionStatus `json:"action"`
		}
		_ = json.Unmarshal(m.Metadata, &more) // without metadata, the states of the table are shown
		rows = append(rows, []string{Stamp(m.At.Time(), zone), serviceMove(m, was, more.State, &more.Action), string(m.Event), m.Actor, m.Reason})
		was = more.State
	}
	return rows
}

// serviceMove describes a transition of a service, in the service's own states.
func serviceMove(m *pawl.Transition, was, now string, a *supervisor.ActionStatus) string {
	switch {
	case m.Refused || now == "":
		return move(m)
	case m.Event == lifecycle.ServiceAct && a.ActionName != "":
		return a.ActionName + " accepted"
	case m.Event == lifecycle.ServiceSettle && a.ActionName != "":
		return a.ActionName + " " + outcomeOf(a)
	case was == now:
		return now + " (stays)"
	case was == "":
		return now
	}
	return was + " -> " + now
}

// outcomeOf says how an attempt of an action ended.
func outcomeOf(a *supervisor.ActionStatus) string {
	switch {
	case a.Succeeded:
		return "succeeded"
	case a.Failed:
		return "failed"
	case a.Kind == supervisor.KindRetriable:
		return "will be retried"
	case a.Kind == supervisor.KindTimeout:
		return "timed out"
	}
	return string(a.Kind)
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// noteOf returns the most important fact about a service besides its state.
func noteOf(s *control.Service) string {
	if u := s.Unrecorded; u != nil && u.Moves > 0 {
		return joined(Plural(int64(u.Moves), "move")+" not recorded", aboutOf(s))
	}
	return aboutOf(s)
}

// aboutOf returns why a service is in its state, or what it reports about itself.
func aboutOf(s *control.Service) string {
	switch {
	case len(s.Why) > 0:
		return OneLine(WhyOf(s)[0])
	case s.Status != "":
		return OneLine(s.Status)
	}
	return OneLine(s.Reason)
}

// WhyOf returns why a service is in its state, and the command that would start it.
func WhyOf(s *control.Service) []string {
	if !s.Startable || len(s.Why) == 0 {
		return s.Why
	}
	why := slices.Clone(s.Why)
	why[0] += "; start it with: pawl service start " + s.ID
	return why
}

// Service writes a service for people; host names the process that runs it.
func Service(w io.Writer, s *control.Service, host string, now time.Time, zone *time.Location) {
	facts := [][2]string{
		{"service", s.ID},
		{"host", host},
		{"state", s.State + " for " + Duration(now.Sub(s.Since))},
		{"reason", s.Reason},
		{"wanted", wantedBy(s)},
		{"pid", number(s.PID)},
		{"started", joined(moment(s.StartedAt, zone), Plural(int64(s.Starts), "time"))},
		{"last exit", s.Exit},
		{"needs", strings.Join(s.Needs, ", ")},
		{"says", s.Status},
		{"action", s.Action},
		{"log", s.Log},
		{"unrecorded", unrecordedText(s.Unrecorded)},
	}
	for _, why := range WhyOf(s) {
		facts = append(facts, [2]string{"why", why})
	}
	for i := range s.Probes {
		facts = append(facts, [2]string{s.Probes[i].Kind, probeText(&s.Probes[i], now)})
	}
	for _, fact := range facts {
		if fact[1] != "" {
			fmt.Fprintf(w, "%-10s %s\n", fact[0], OneLine(fact[1]))
		}
	}
}

func wantedBy(s *control.Service) string {
	if s.By != "" {
		return s.Wanted + ", by " + s.By
	}
	return s.Wanted
}

func probeText(p *control.Probe, now time.Time) string {
	switch {
	case p.At.IsZero():
		return p.What + ": not probed yet"
	case p.OK:
		return fmt.Sprintf("%s: ok, %d in a row, %s ago", p.What, p.Streak, Duration(now.Sub(p.At)))
	}
	return fmt.Sprintf("%s: failed, %d in a row, %s ago: %s", p.What, p.Streak, Duration(now.Sub(p.At)), p.Error)
}

// ServiceWhy writes why a service is in its state.
func ServiceWhy(w io.Writer, s *control.Service) {
	lines := WhyOf(s)
	if len(lines) == 0 {
		lines = []string{fmt.Sprintf("it is in the wanted state: %s", wantedBy(s))}
	}
	if text := unrecordedText(s.Unrecorded); text != "" {
		lines = append(slices.Clip(lines), text)
	}
	for _, line := range lines {
		fmt.Fprintf(w, "%s  %s: %s\n", s.ID, s.State, OneLine(line))
	}
	if s.Exit != "" && s.PID == 0 && !strings.Contains(strings.Join(lines, "\n"), s.Exit) {
		fmt.Fprintf(w, "  last exit: %s\n", OneLine(s.Exit))
	}
}

// unrecordedText says what is missing from the history of a service.
func unrecordedText(u *control.Unrecorded) string {
	var parts []string
	if u != nil && u.Moves > 0 {
		parts = append(parts, fmt.Sprintf("%s not in its history yet, to be written as soon as possible: %s", Plural(int64(u.Moves), "move"), u.Error))
	}
	if u != nil && u.LeftOut > 0 {
		parts = append(parts, Plural(int64(u.LeftOut), "move")+" left out of its history, since it could not be written for too long")
	}
	return strings.Join(parts, "; ")
}

// StateLine says that something entered a state, as a line of plain text. The time keeps its
// own zone.
func StateLine(at time.Time, id, state, more string) string {
	if more != "" {
		more = " (" + OneLine(more) + ")"
	}
	return Stamp(at, at.Location()) + " " + id + " " + state + more
}

func ServiceRows(all []control.Found, zone *time.Location) [][]string {
	rows := [][]string{{"HOST", "SERVICE", "STATE", "SINCE", "PID", "STARTS", "NOTE"}}
	for i := range all {
		s := &all[i]
		rows = append(rows, []string{s.Client.Name(), s.ID, s.State, moment(s.Since, zone), number(s.PID), strconv.Itoa(s.Starts), noteOf(&s.Service)})
	}
	return rows
}

// ProgressOf says what a service waits for, or why it is in its state.
func ProgressOf(s *control.Service) string {
	if s.Phase == lifecycle.ServiceTryingToStart {
		return noteOf(s)
	}
	return s.Reason
}
