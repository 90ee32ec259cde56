package journal

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/load/controller"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A trail is the audit trail of a load and of its agents, as its controller has it: sealed rows. It
// is of the goroutine that runs the load.
type trail struct {
	run   string
	actor string
	lines *Lines
	log   *slog.Logger

	last  map[string]*audit.Entry // of each entity
	rows  []byte                  // all lines
	phase controller.Phase
	lost  map[int]bool // agents whose failure has a row
	moves map[int]*moves
}

// moves is what an agent has reported.
type moves struct {
	last    int64 // the sequence of its last move
	rows    int
	refused bool // one of them, which was logged
}

// maxMoves is how many moves of an agent become rows. A run has about ten.
const maxMoves = 100

func newTrail(run, actor string, to io.Writer, log *slog.Logger) *trail {
	return &trail{run: run, actor: actor, lines: NewLines(to), log: log, last: map[string]*audit.Entry{}, lost: map[int]bool{}, moves: map[int]*moves{}}
}

// A trailFile is a file to which the rows that wait are added, and synced, at once.
type trailFile struct {
	path string
	rows []byte
}

func (f *trailFile) Write(p []byte) (int, error) {
	f.rows = append(f.rows, p...)
	return len(p), nil
}

// Flush writes the rows.
func (f *trailFile) Flush() error {
	if len(f.rows) == 0 {
		return nil
	}
	_, err := (durable.Disk{}).Append(f.path, f.rows)
	f.rows = f.rows[:0]
	return err
}

// The events that lead into a phase.
var into = map[controller.Phase]machine.Event{
	controller.Connecting: lifecycle.LoadBegin, controller.Preparing: lifecycle.LoadAgentsConnected,
	controller.Starting: lifecycle.LoadAgentsReady, controller.Running: lifecycle.LoadStart,
}

// changed adds a row for the phase that a run has entered, and one for each agent that has failed. by
// is who has asked for the end, if anybody has.
func (t *trail) changed(v controller.View, by *Request) {
	if v.Phase != t.phase {
		t.phase = v.Phase
		if v.Phase == controller.Ending {
			t.ending(v.Outcome, v.Reason, by)
		} else {
			_ = t.add(lifecycle.Load, t.load(), audit.Entry{Event: into[v.Phase], Reason: v.Reason})
		}
	}
	for i := range v.Agents {
		if a := &v.Agents[i]; a.Failure != nil && !t.lost[a.Index] {
			t.lost[a.Index] = true
			_ = t.add(lifecycle.Load, t.load(), audit.Entry{Event: lifecycle.LoadAgentFailed, Reason: a.Name + ": " + a.Failure.GetMessage(),
				Metadata: metadata(map[string]any{"agent": a.Index, "code": a.Failure.GetCode().String()})})
		}
	}
}

// ending adds a row that says why the load ends early.
func (t *trail) ending(outcome, reason string, by *Request) {
	row := audit.Entry{Event: lifecycle.LoadFail, Reason: reason}
	if outcome == report.Aborted {
		row.Event = lifecycle.LoadAbort
		if by != nil {
			row.Actor, row.RequestID, row.Reason = by.Actor, by.RequestID, by.Reason
		}
	}
	_ = t.add(lifecycle.Load, t.load(), row)
}

// ended adds what agents have reported in their results only, and the row that ends the load.
func (t *trail) ended(run *report.Run, by *Request) {
	for i := range run.Agents {
		for _, m := range run.Agents[i].Transitions() {
			t.moved(run.Agents[i].Index, m)
		}
	}
	if run.Outcome != report.Completed && t.phase != controller.Ending { // it was forced to end at once
		t.ending(run.Outcome, run.Reason, by)
	}
	end := map[string]machine.Event{report.Completed: lifecycle.LoadFinish, report.Failed: lifecycle.LoadEndedFailed, report.Aborted: lifecycle.LoadEndedAborted}
	_ = t.add(lifecycle.Load, t.load(), audit.Entry{Event: end[run.Outcome], Reason: run.Reason})
}

// moved adds a transition of an agent, if it is the next one and legal: an agent may be anybody's
// program. One that is not legal is logged, and the next ones are rows again if they are. The row has the
// time by the controller's clock, and in its metadata what the agent has said.
func (t *trail) moved(agent int, m *loadpb.Transition) {
	of := t.moves[agent]
	if of == nil {
		of = &moves{}
		t.moves[agent] = of
	}
	if m.GetSequence() != of.last+1 {
		return
	}
	of.last++
	err := fmt.Errorf("there are more than %d", maxMoves)
	if of.rows < maxMoves {
		err = t.add(lifecycle.Agent, t.agent(agent), audit.Entry{Event: machine.Event(m.GetEvent()), Reason: m.GetReason(), Actor: fmt.Sprintf("agent:%d", agent),
			Metadata: metadata(map[string]any{"agent_at_ns": m.GetAtNs(), "agent_sequence": m.GetSequence()})})
	}
	switch {
	case err == nil:
		of.rows++
	case !of.refused:
		of.refused = true
		t.log.Warn("the trail of a run is without a move of an agent, and without others that cannot be rows", "run", t.run, "agent", agent, "sequence", of.last, "event", clip(m.GetEvent()), "error", err)
	}
}

func (t *trail) load() string { return "lr_" + t.run }

func (t *trail) agent(index int) string { return fmt.Sprintf("ag_%s.%d", t.run, index) }

// add seals a row and adds it. What the table does not allow is left out, and an error: each row is a legal
// move.
func (t *trail) add(m *machine.Machine, entity string, row audit.Entry) error {
	prev, last := audit.Hash{}, t.last[entity]
	row.Entity, row.Sequence, row.At, row.To = entity, 1, time.Now().UnixMicro(), m.Initial
	if last != nil {
		to, err := m.Next(last.To, row.Event)
		if err != nil {
			return err
		}
		row.From, row.To, row.Sequence, prev = last.To, to, last.Sequence+1, last.Hash
		row.At = max(row.At, last.At)
	} else if row.Event != m.Create {
		return fmt.Errorf("the first move is not %s", m.Create)
	}
	if row.Actor == "" {
		row.Actor = t.actor
	}
	row.Reason = clip(row.Reason)
	row.Seal(prev)
	line, err := row.MarshalJSON()
	line = append(line, '\n')
	t.last[entity], t.rows = &row, append(t.rows, line...)
	t.lines.add(line, err, false)
	return err
}

func metadata(v map[string]any) []byte {
	b, _ := json.Marshal(v) // numbers and texts
	return b
}

// maxReason is how much of a reason a row has, in bytes: the audit format takes 4 KiB.
const maxReason = 1000

func clip(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason] + "…"
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
