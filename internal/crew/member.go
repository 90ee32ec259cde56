package crew

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

// A Member is the state of a member, as its file has it (C2).
type Member struct {
	ID             string         `json:"worker_id"`
	State          machine.State  `json:"state"`
	Task           text           `json:"task_id"`
	Branch         text           `json:"branch"`
	AssignedAt     pawl.Timestamp `json:"assigned_at"`
	StateChangedAt pawl.Timestamp `json:"state_changed_at"`
	LastHeartbeat  pawl.Timestamp `json:"last_heartbeat"` // as it was at the last change
	PID            int            `json:"pid"`
	Attempt        int            `json:"attempt"` // counted from 1, 0 without a task
	MaxAttempts    int            `json:"max_attempts"`
	LastError      text           `json:"last_error"`
	PullRequest    text           `json:"pr_url"`
	Review         text           `json:"review_state"` // pending, approved or changes_requested
	Version        int64          `json:"version"`      // 1 for the creation, then one more with each change
	Epoch          int64          `json:"epoch"`        // of the assignment: what an earlier one sends changes nothing
	Attention      text           `json:"attention"`    // why a person should look, or empty

	others map[string]json.RawMessage // fields that others have written
}

// A text is null in JSON if it is empty.
type text string

// MarshalJSON implements json.Marshaler.
func (t text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(t))
}

// fields are the names of a Member's fields in JSON.
var fields = func() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Member]()) {
		if name := f.Tag.Get("json"); name != "" {
			names = append(names, name)
		}
	}
	return names
}()

// plain is a Member without its methods.
type plain Member

// MarshalJSON writes the fields of a Member, followed by those that others have written.
func (m Member) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(plain(m))
	if err != nil || len(m.others) == 0 {
		return b, err
	}
	b = b[:len(b)-1]
	for _, name := range slices.Sorted(maps.Keys(m.others)) {
		key, _ := json.Marshal(name)
		b = append(append(append(append(b, ','), key...), ':'), m.others[name]...)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads a Member and keeps the fields that it does not know. Names count as they
// are spelled, unlike in encoding/json.
func (m *Member) UnmarshalJSON(b []byte) error {
	var others map[string]json.RawMessage
	if err := json.Unmarshal(b, &others); err != nil {
		return err
	}
	known := map[string]json.RawMessage{}
	for _, name := range fields {
		if value, ok := others[name]; ok {
			known[name] = value
			delete(others, name)
		}
	}
	b, err := json.Marshal(known)
	if err != nil {
		return err
	}
	p := plain{others: others}
	if err := json.Unmarshal(b, &p); err != nil {
		return err
	}
	*m = Member(p)
	return nil
}

// same reports whether two states agree in all fields but those of others.
func (m *Member) same(o *Member) bool {
	a, b := *m, *o
	a.others, b.others = nil, nil
	return reflect.DeepEqual(a, b)
}

// file returns the contents of a member's file.
func (m *Member) file() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, b, "", "  ")
	out.WriteByte('\n')
	return out.Bytes(), err
}

// entity is the name of a member in its history.
func entity(id string) string { return entityPrefix + id }

const entityPrefix = "mb_"

// idPattern is what the ids of members and tasks look like: such an id is safe as the name of a
// file and as a part of a git ref.
var idPattern = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

const maxID = 64

// CheckID returns an error unless an id may be one of a member.
func CheckID(id string) error {
	if id == Orchestrator {
		return pawl.Errorf(pawl.Invalid, "the id of the member is %q, which is the name of who sends what is from no member", id)
	}
	return checkID("id of the member", id, idPattern, "lower-case letters and digits, with single hyphens between them")
}

// typePattern is for types of messages.
var typePattern = regexp.MustCompile(`^[a-z][a-z0-9_-]*$`)

// taskPattern allows what trackers of tasks use. The names that git refuses are left to CheckTask.
var taskPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// CheckTask returns an error unless an id may be one of a task.
func CheckTask(id string) error {
	err := checkID("id of the task", id, taskPattern, "letters, digits, '.', '_' and '-', beginning with a letter or digit")
	if err == nil && (strings.Contains(id, "..") || strings.HasSuffix(id, ".") || strings.HasSuffix(strings.ToLower(id), ".lock")) {
		err = pawl.Errorf(pawl.Invalid, "the id of the task %q cannot be part of a git branch: it may not contain \"..\", nor end with \".\" or \".lock\"", id)
	}
	return err
}

func checkID(what, id string, pattern *regexp.Regexp, allowed string) error {
	if len(id) > maxID || !pattern.MatchString(id) {
		return pawl.Errorf(pawl.Invalid, "the %s is %q; allowed: 1 to %d %s", what, clip(id), maxID, allowed)
	}
	return nil
}

func clip(s string) string {
	if len(s) > 2*maxID {
		return fmt.Sprintf("%s… (%d bytes)", s[:2*maxID], len(s))
	}
	return s
}
