package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

func newServiceHistory(a *app) *cobra.Command {
	v := &serviceCommand{show: func(ctx context.Context, s *found, form string) error {
		moves, err := s.host.History(ctx, s.ID)
		if err != nil {
			return err
		}
		if form == formJSON {
			return writeJSON(a.stdout, moves)
		}
		return writeTable(a.stdout, serviceMoves(moves, a.outZone()))
	}}
	return v.bind(a, &cobra.Command{
		Use: "history", Short: "Show every move of a service",
		Long:    "Show every move of a service, over the restarts of its supervisor too: when, from which\nstate to which or what became of an action, by which event, who, and why. In JSON the\nstates are those of the table \"service\" (pawl machine show service), and the\nservice's own state is in \"metadata\".",
		Example: "  pawl service history web\n  pawl service history web -o json",
	}, "a list of moves")
}

// serviceMoves are the rows of a history, in the service's own states.
func serviceMoves(moves []pawl.Transition, zone *time.Location) [][]string {
	rows, was := [][]string{{"AT", "MOVE", "EVENT", "BY", "WHY"}}, ""
	for i := range moves {
		m := &moves[i]
		var more struct {
			State  string                  `json:"state"`
			Action supervisor.ActionStatus `json:"action"`
		}
		_ = json.Unmarshal(m.Metadata, &more) // a move without is shown by the table's states
		rows = append(rows, []string{stamp(m.At.Time(), zone), serviceMove(m, was, more.State, &more.Action), string(m.Event), m.Actor, m.Reason})
		was = more.State
	}
	return rows
}

// serviceMove says what a move of a service was, in its own states.
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

// outcomeOf says how an attempt of an action has ended.
func outcomeOf(a *supervisor.ActionStatus) string {
	switch {
	case a.Succeeded:
		return "succeeded"
	case a.Failed:
		return "failed"
	case a.Kind == supervisor.KindRetriable:
		return "is to be retried"
	case a.Kind == supervisor.KindTimeout:
		return "timed out"
	}
	return string(a.Kind)
}
