package crew

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/pawl-dev/pawl"
)

// A Beat is a heartbeat: that a member was alive at an instant, working on the assignment of an
// epoch (C4).
type Beat struct {
	Sequence int64 `json:"seq"`
	Epoch    int64 `json:"epoch"`
	Instant
	At   pawl.Timestamp `json:"at"`             // by the wall clock, for people
	Note string         `json:"note,omitempty"` // what the member says it does
}

// maxBeat is the largest heartbeat that is read, and maxNote the longest note, in bytes.
const (
	maxBeat = 64 << 10
	maxNote = 1000
)

// Beat records a heartbeat of a member that works on the assignment of an epoch. A beat of
// another epoch than the member's is refused: whoever sends it works on what is no longer
// assigned.
func (f *Folder) Beat(id string, epoch int64, note string) (*Beat, error) {
	m, err := f.Load(id)
	if err != nil {
		return nil, err
	}
	if m.Epoch != epoch {
		return nil, pawl.Errorf(pawl.Conflict, "member %s is at epoch %d, and the heartbeat is of epoch %d: that assignment is over", id, m.Epoch, epoch)
	}
	if len(note) > maxNote {
		return nil, pawl.Errorf(pawl.Invalid, "the note has %d bytes; at most %d are allowed", len(note), maxNote)
	}
	b := &Beat{Sequence: 1, Epoch: epoch, Instant: f.Clock(), At: pawl.Timestamp(f.Now().UnixMicro()), Note: note}
	if last, err := f.LastBeat(id); err == nil && last != nil {
		b.Sequence = last.Sequence + 1
	}
	text, err := json.Marshal(b)
	if err != nil {
		return nil, err
	}
	return b, f.Disk.Replace(f.heartbeat(id), append(text, '\n'))
}

// BeatOf is Beat for whoever may not know the epoch: 0 is the present one.
func (c *Crew) BeatOf(id string, epoch int64, note string) (*Beat, error) {
	if epoch == 0 {
		m, err := c.Load(id)
		if err != nil {
			return nil, err
		}
		epoch = m.Epoch
	}
	return c.Beat(id, epoch, note)
}

// LastBeat returns the last heartbeat of a member, or nil if there was none. Any program may write
// the file: one that has no instant of the machine's clock is read as well (see [Folder.Silence]).
func (f *Folder) LastBeat(id string) (*Beat, error) {
	text, err := readFile(f.heartbeat(id), maxBeat)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	b := new(Beat)
	if err := json.Unmarshal(text, b); err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "the heartbeat of member " + id + " is not JSON", Err: err}
	}
	return b, nil
}
