package pawl

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"crypto/sha256"

	"github.com/pawl-dev/pawl/internal/rowkey"
)

// A Wait is what a step that the engine owns waits for: a person, a time, a signal or a
// child job (T1). It is the step's Input.
type Wait struct {
	Kind   string          `json:"kind"`             // approval, sleep, event or workflow
	Prompt string          `json:"prompt,omitempty"` // of an approval
	Form   json.RawMessage `json:"form,omitempty"`   // of an approval: the fields, by name, as inputs are declared
	Event  string          `json:"event,omitempty"`  // the name of the signal
	Until  Timestamp       `json:"until,omitzero"`   // when it ends by itself
	Job    string          `json:"job,omitempty"`    // the child
	By     string          `json:"by,omitempty"`     // who decided, or sent the signal
	Reason string          `json:"reason,omitempty"` // the reason that they gave
}

// Blanks returns the flags of "pawl approve" for the required fields of the form, each
// after a blank: " --set n=INTEGER".
func (w *Wait) Blanks() string {
	var fields map[string]struct {
		Type     string `json:"type"`
		Required bool   `json:"required"`
	}
	if len(w.Form) == 0 || json.Unmarshal(w.Form, &fields) != nil {
		return ""
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if f := fields[name]; f.Required {
			fmt.Fprintf(&b, " --set %s=%s", name, strings.ToUpper(cmp.Or(f.Type, "string")))
		}
	}
	return b.String()
}

// A Signal is an event that was sent to a job. One step takes it.
type Signal struct {
	Job   rowkey.Job
	Seq   int64 // of the job's audit entry that records it
	Name  string
	Data  json.RawMessage
	At    int64
	Actor string
	Taken Ord // the step that took it, or 0
}

// A Version is a workflow as it was registered under its name. It never changes.
type Version struct {
	Workspace  string
	Name       string
	Version    int // from 1
	Definition rowkey.Definition
	Dir        string // the folder of the file that it was registered from
	At         int64
	Actor      string
	Reason     string
}

// A WorkflowName is the name of a registered workflow.
type WorkflowName struct{ Workspace, Name string }

// A Quota is a limit that an operator has set in a workspace: depth/0 to
// depth/5 for the slots of running jobs of that depth, queue/NAME for the steps
// of a queue in progress at once.
type Quota struct {
	Workspace string
	Name      string
	Slots     int
	At        int64
	Actor     string
	Reason    string
}

// Version returns a number that rises with each change of the limit.
func (q *Quota) Version() int64 { return q.At }

// A Schedule makes jobs of a registered workflow at the times of a cron
// expression.
type Schedule struct {
	Record    // DueAt is the next time
	ID        ID
	Workspace string
	Name      string
	Workflow  string // NAME, or NAME@VERSION
	Inputs    json.RawMessage
	Cron      string
	TimeZone  string        // IANA name
	CatchUp   time.Duration // times missed by at most this are caught up with; 0: none
	Overlap   string        // skip, queue or cancel_old
	Priority  int
	Due       int64      // of the last time: when it was due
	LastJob   rowkey.Job // the job of the last time, or 0
	Waiting   int64      // of overlap queue: the time whose job waits for the last job to end, or 0
}

// Version returns a number that rises with each move of the schedule.
func (s *Schedule) Version() int64 { return s.Seq }

// Key returns the key of the schedule.
func (s *Schedule) Key() rowkey.Schedule { return s.ID.ScheduleKey() }

// SchedulePrefix is the prefix of the public ids of schedules.
const SchedulePrefix = "sc_"

// Priorities of jobs and steps.
const (
	MinPriority = -1000
	MaxPriority = 1000
)

// priorityWorth is how much longer a step or job waits for each point of lower
// priority: priorities age, so nothing starves.
const priorityWorth = int64(time.Minute / time.Microsecond)

// RankAt returns the rank of what was enqueued at the time at, in microseconds. Lower
// ranks go first.
func RankAt(at int64, priority int) int64 { return at - int64(priority)*priorityWorth }

// PoolKey returns the key of a pool of slots in a workspace: "depth" and its
// number, "queue" and its name, "key" and the workflow with the key.
func PoolKey(workspace string, parts ...string) rowkey.Pool {
	var b []byte
	for _, s := range append([]string{workspace}, parts...) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	sum := sha256.Sum256(b)
	return rowkey.Pool(binary.BigEndian.Uint64(sum[:8])>>1) | 1
}
