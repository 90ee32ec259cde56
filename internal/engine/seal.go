package engine

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
)

// sealNotes seals the payload of notes, and finds the entries of each record.
func (t *tx) sealNotes() error {
	for i := t.sealed; i < len(t.drafts); i++ {
		d := &t.drafts[i]
		// The output or error of a record is not sealed in the entry of a signal: redacting
		// it would withhold the data of the signal.
		if d.note == nil || d.note.Data == nil {
			d.span.add(i)
		}
		if d.note != nil {
			if err := t.sealNote(d, i); err != nil {
				return err
			}
		}
	}
	return nil
}

// sealNote seals the payload of a note, beside the entry i.
func (t *tx) sealNote(d *draft, i int) error {
	if d.note.Data != nil {
		t.attach(i, audit.FieldData, d.note.Data)
		return nil
	}
	payload, err := store.EncodeFailure(d.note.Failure)
	if err != nil {
		return err
	}
	d.span.noted = d.note.Failure
	t.attach(i, audit.FieldFailure, payload).Payload = payload
	return nil
}

// attach seals a field in the entry at i.
func (t *tx) attach(i int, field string, payload []byte) *audit.Seal {
	t.salts = append(t.salts, t.salt())
	salt := &t.salts[len(t.salts)-1]
	return t.attachSeal(i, audit.Seal{Field: field, Sum: audit.Sum(salt, payload), Salt: salt})
}

func (t *tx) attachSeal(i int, s audit.Seal) *audit.Seal {
	e := &t.entries[i]
	if e.Seals == nil {
		t.seals = append(t.seals, s)
		e.Seals = t.seals[len(t.seals)-1 : len(t.seals) : len(t.seals)]
	} else {
		e.Seals = append(e.Seals, s)
	}
	return &e.Seals[len(e.Seals)-1]
}

// sealBody seals a field of a record in one of its entries.
func (t *tx) sealBody(at int32, field string, body []byte) error {
	switch {
	case audit.Empty(body):
	case at == 0:
		return fmt.Errorf("%s: there is no entry that could seal it", field)
	default:
		t.attach(int(at-1), field, body)
	}
	return nil
}

// sealJob seals the initial payload of a job in its first entry, and its result in its last
// entry.
func (t *tx) sealJob(h *held[pawl.Job]) error {
	j, at := h.record, h.last
	if h.made {
		at = h.first
	}
	var err error
	if h.made || !bytes.Equal(j.Inputs, h.loaded[0]) {
		err = t.sealBody(at, audit.FieldInputs, j.Inputs)
	}
	if err == nil && (h.made || !bytes.Equal(j.Metadata, h.loaded[1])) {
		err = t.sealBody(at, audit.FieldMetadata, j.Metadata)
	}
	if err == nil {
		err = t.sealBody(h.last, audit.FieldOutput, j.Output)
	}
	if err == nil {
		err = t.sealError(&h.span, j.Error, &j.Tree)
	}
	if err != nil {
		return fmt.Errorf("job %d: %w", j.Key(), err)
	}
	return nil
}

func (t *tx) sealStep(h *held[pawl.Step]) error {
	s := h.record
	err := t.sealBody(h.last, audit.FieldInput, s.Input)
	if err == nil {
		err = t.sealBody(h.last, audit.FieldOutput, s.Output)
	}
	if err == nil {
		err = t.sealError(&h.span, s.Error, &s.Tree)
	}
	if err != nil {
		return fmt.Errorf("step %s: %w", s.StepKey, err)
	}
	return nil
}

func (t *tx) sealSchedule(h *held[pawl.Schedule]) error {
	if !h.made && bytes.Equal(h.record.Inputs, h.loaded[0]) {
		return nil
	}
	return t.sealBody(h.last, audit.FieldInputs, h.record.Inputs)
}

// sealError seals the error of a record. An error without an entry is owed to the next
// entry.
func (t *tx) sealError(of *span, f *pawl.Failure, tree **pawl.Tree) error {
	var owed *pawl.Owed
	if *tree != nil {
		owed = (*tree).Owed
	}
	switch {
	case f == nil && owed != nil && of.first != 0 && of.noted == nil:
		t.attachSeal(int(of.first-1), audit.Seal{Field: audit.FieldError, Sum: owed.Sum, Salt: &owed.Salt})
		owe(tree, nil)
		return nil
	case f == nil:
		return nil
	case owed != nil:
		owe(tree, nil)
	}
	if f == of.noted {
		return nil
	}
	payload, err := store.EncodeFailure(f)
	switch {
	case err != nil:
		return err
	case of.last != 0:
		t.attach(int(of.last-1), audit.FieldError, payload)
	default:
		salt := t.salt()
		owe(tree, &pawl.Owed{Sum: audit.Sum(&salt, payload), Salt: salt})
	}
	return nil
}

// owe records what a record owes to its next entry.
func owe(tree **pawl.Tree, owed *pawl.Owed) {
	var next pawl.Tree
	if *tree != nil {
		next = **tree
	}
	next.Owed = owed
	if *tree = &next; next == (pawl.Tree{}) {
		*tree = nil
	}
}

// salts returns random bytes, read many at a time. It is safe for concurrent use.
type salts struct {
	mu   sync.Mutex
	rest []byte
}

func (s *salts) next() (salt audit.Salt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rest) == 0 {
		s.rest = make([]byte, 64*audit.SaltSize)
		rand.Read(s.rest)
	}
	copy(salt[:], s.rest)
	clear(s.rest[:audit.SaltSize])
	s.rest = s.rest[audit.SaltSize:]
	return salt
}
