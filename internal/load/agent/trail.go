package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// entityPrefix and the id of a run are the entity of its trail.
const entityPrefix = "ag_"

// A trail is the audit trail of one run: a file of sealed rows.
type trail struct {
	path  string
	run   string
	actor string
	last  *audit.Entry // nil: there are no rows
	rows  []*loadpb.Transition
}

// rowData is the metadata of a row.
type rowData struct {
	Code string `json:"code,omitempty"` // of the error
}

// openTrail returns the trail of a run, with what its file has. A torn last row is cut off.
func openTrail(dir, run, actor string) (*trail, error) {
	t := &trail{path: filepath.Join(dir, run+".jsonl"), run: run, actor: actor}
	if _, err := (durable.Disk{}).Mend(t.path); err != nil {
		return nil, err
	}
	b, err := os.ReadFile(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return t, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		row := new(audit.Entry)
		if err := row.UnmarshalJSON(line); err != nil {
			return nil, fmt.Errorf("the trail %s: %w", t.path, err)
		}
		t.add(row)
	}
	return t, nil
}

// add takes a row that is in the file.
func (t *trail) add(row *audit.Entry) *loadpb.Transition {
	sent := &loadpb.Transition{From: string(row.From), Event: string(row.Event), To: string(row.To), Sequence: row.Sequence, AtNs: row.At * 1000, Reason: row.Reason}
	t.last, t.rows = row, append(t.rows, sent)
	return sent
}

// state returns where the trail leads.
func (t *trail) state() machine.State {
	if t.last == nil {
		return ""
	}
	return t.last.To
}

// fault returns the error that the last row has.
func (t *trail) fault() *loadpb.Error {
	if t.last == nil {
		return &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST, Message: lostMessage}
	}
	var d rowData
	_ = json.Unmarshal(t.last.Metadata, &d) // without it, the code is not known
	return &loadpb.Error{Code: loadpb.ErrorCode(loadpb.ErrorCode_value["ERROR_CODE_"+strings.ToUpper(d.Code)]), Message: t.last.Reason}
}

// move appends the row of an event, synced, and returns it as it is sent. It returns a
// *machine.Refusal for an event that the state does not allow. If the disk refuses the row, the
// trail stays as it was.
func (t *trail) move(event machine.Event, reason, code string, at time.Time) (*loadpb.Transition, error) {
	row := &audit.Entry{Entity: entityPrefix + t.run, Sequence: 1, To: lifecycle.Agent.Initial, Event: event,
		Reason: clip(reason), Actor: t.actor, At: at.UnixMicro()}
	prev := audit.Hash{}
	if t.last != nil {
		to, err := lifecycle.Agent.Next(t.last.To, event)
		if err != nil {
			return nil, err
		}
		row.From, row.To, row.Sequence, prev = t.last.To, to, t.last.Sequence+1, t.last.Hash
		row.At = max(row.At, t.last.At)
	}
	if code != "" {
		row.Metadata, _ = json.Marshal(rowData{code}) // it is one string
	}
	row.Seal(prev)
	line, err := row.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if _, err := (durable.Disk{}).Append(t.path, append(line, '\n')); err != nil {
		return nil, fmt.Errorf("write the trail of run %s: %w", t.run, err)
	}
	return t.add(row), nil
}

// maxReason is how much of a reason a row has, in bytes: the audit format takes 4 KiB.
const maxReason = 1000

func clip(s string) string {
	if len(s) > maxReason {
		s = s[:maxReason] + "…"
	}
	return text(s)
}
