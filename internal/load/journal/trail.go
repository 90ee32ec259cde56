package journal

import (
	"encoding/json"
	"fmt"
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
	lines *Lines // each is on the disk before the next

	last  map[string]*audit.Entry // of each entity
	rows  []byte                  // all lines
	phase controller.Phase
	lost  map[int]bool // agents whose failure has a row
}

func newTrail(run, actor, path string) *trail {
	return &trail{run: run, actor: actor, lines: NewLines(trailFile(path)), last: map[string]*audit.Entry{}, lost: map[int]bool{}}
}

// A trailFile is a file that rows are written to and synced.
type trailFile string

func (f trailFile) Write(p []byte) (int, error) {
	if _, err := (durable.Disk{}).Append(string(f), p); err != nil {
		return 0, err
	}
	return len(p), nil
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
		row := audit.Entry{Event: into[v.Phase], Reason: v.Reason}
		if v.Phase == controller.Ending {
			if row.Event = lifecycle.LoadFail; v.Outcome == report.Aborted {
				row.Event = lifecycle.LoadAbort
				if by != nil {
					row.Actor, row.RequestID, row.Reason = by.Actor, by.RequestID, by.Reason
				}
			}
		}
		t.add(lifecycle.Load, t.load(), row)
	}
	for i := range v.Agents {
		if a := &v.Agents[i]; a.Failure != nil && !t.lost[a.Index] {
			t.lost[a.Index] = true
			t.add(lifecycle.Load, t.load(), audit.Entry{Event: lifecycle.LoadAgentFailed, Reason: a.Name + ": " + a.Failure.GetMessage(),
				Metadata: metadata(map[string]any{"agent": a.Index, "code": a.Failure.GetCode().String()})})
		}
	}
}

// ended adds what agents have reported in their results only, and the row that ends the load.
func (t *trail) ended(run *report.Run) {
	for i := range run.Agents {
		for _, m := range run.Agents[i].Transitions() {
			t.moved(run.Agents[i].Index, m)
		}
	}
	end := map[string]machine.Event{report.Completed: lifecycle.LoadFinish, report.Failed: lifecycle.LoadEndedFailed, report.Aborted: lifecycle.LoadEndedAborted}
	t.add(lifecycle.Load, t.load(), audit.Entry{Event: end[run.Outcome], Reason: run.Reason})
}

// moved adds a transition of an agent, if it is the next one and legal: an agent may be anybody's
// program. The row has the time by the controller's clock, and in its metadata that by the agent's.
func (t *trail) moved(agent int, m *loadpb.Transition) {
	entity := t.agent(agent)
	if n := t.sequence(entity) + 1; m.GetSequence() != n {
		return
	}
	t.add(lifecycle.Agent, entity, audit.Entry{Event: machine.Event(m.GetEvent()), Reason: m.GetReason(), Actor: fmt.Sprintf("agent:%d", agent),
		Metadata: metadata(map[string]any{"agent_at_ns": m.GetAtNs()})})
}

func (t *trail) load() string { return "lr_" + t.run }

func (t *trail) agent(index int) string { return fmt.Sprintf("ag_%s.%d", t.run, index) }

func (t *trail) sequence(entity string) int64 {
	if last := t.last[entity]; last != nil {
		return last.Sequence
	}
	return 0
}

// add seals a row and adds it. What the table does not allow is left out: each row is a legal move.
func (t *trail) add(m *machine.Machine, entity string, row audit.Entry) {
	prev, last := audit.Hash{}, t.last[entity]
	row.Entity, row.Sequence, row.At, row.To = entity, 1, time.Now().UnixMicro(), m.Initial
	if last != nil {
		to, err := m.Next(last.To, row.Event)
		if err != nil {
			return
		}
		row.From, row.To, row.Sequence, prev = last.To, to, last.Sequence+1, last.Hash
		row.At = max(row.At, last.At)
	} else if row.Event != m.Create {
		return
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
