package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/pawl-dev/pawl/machine"
)

// A Cut marks where the beginning of a trail was cut off: it has the hash, state and time of
// the last dropped entry. In a file it is a line of its own, a JSON object, before the first
// remaining entry.
//
// It proves nothing by itself. Hash, state and time show whether the first remaining entry
// follows it; an older copy of the file that has the dropped entry shows whether the hash is
// right.
type Cut struct {
	Entity    string        `json:"cut"`
	Sequence  int64         `json:"sequence"`
	State     machine.State `json:"state"` // to which it led
	CreatedAt int64         `json:"created_at"`
	At        int64         `json:"at"` // like CreatedAt, in microseconds since the Unix epoch
	Hash      Hash          `json:"hash"`
}

// cutLine is the beginning of the line of a Cut.
var cutLine = []byte(`{"cut":`)

// VerifyCut checks lines as [VerifyLines] does, but accepts trails whose beginning was cut
// off: they continue from their Cut, which comes before all their entries. It calls each, if
// not nil, with every valid cut and entry, and the length of its line.
func VerifyCut(r io.Reader, each func(c *Cut, e *Entry, size int)) (map[string]Replayed, error) {
	if each == nil {
		each = func(*Cut, *Entry, int) {}
	}
	f := file{walks: make(map[string]*walk), each: each, cuts: make(map[string]int64)}
	err := f.read(r)
	for entity, at := range f.cuts {
		if w := f.walks[entity]; err == nil && w.Seq == at {
			err = w.fault(at+1, FaultTail, "it is missing: nothing follows where the trail was cut off")
		}
	}
	return f.replayed(), err
}

// cut reads the line of a Cut.
func (f *file) cut(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	var c Cut
	if err := d.Decode(&c); err != nil {
		return fmt.Errorf("cut: %w", err)
	}
	w, err := f.walk(c.Entity, c.Sequence)
	switch {
	case err != nil:
		return err
	case w.Seq > 0:
		return w.fault(c.Sequence, FaultOrder, "the trail is cut off here, after its entry %d", w.Seq)
	case c.Sequence < 1 || !w.machine.Has(c.State):
		return w.fault(c.Sequence, FaultIllegal, "the trail is cut off at state %q: want an entry from 1 on, and a state of %s", c.State, w.machine.Name)
	}
	w.Replayed = Replayed{State: c.State, Seq: c.Sequence, Head: c.Hash, CreatedAt: c.CreatedAt, UpdatedAt: c.At}
	f.cuts[c.Entity] = c.Sequence
	f.each(&c, nil, len(text))
	return nil
}
