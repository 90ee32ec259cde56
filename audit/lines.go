package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest line that VerifyLines reads, in bytes: 16 MiB.
const MaxLine = 16 << 20

// WriteLines writes the entries as exported lines, each ended by a line feed, in
// their order (K6). It stops at the first entry that MarshalJSON would refuse;
// what was written before it stays written.
func WriteLines(w io.Writer, entries []Entry) error {
	enc := lineEncoder(w)
	for i := range entries {
		l, err := entries[i].line()
		if err != nil {
			return err
		}
		if err := enc.Encode(l); err != nil {
			return err
		}
	}
	return nil
}

// lineEncoder leaves the text of metadata as it is.
func lineEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// VerifyLines checks exported lines without a database (K6), and answers by
// entity where the trails lead. It checks every entry as [Verify] does; the
// machine is known by the prefix of the entity's id, as [MachineOf] has it. An
// entity's lines have to be in the order of their sequence, and those of
// different entities may be mixed. White space around values and escapes in
// strings do not matter.
//
// The error names the line, counted from 1. It wraps the first *Fault, if the
// line was an entry at all. What was replayed before the error is answered with
// it.
//
// A trail has to be whole: see [VerifyCut] for those that are not.
//
// A file cannot say what it never had: that a trail was cut at its end, or left
// out as a whole, shows only when the answer is compared with the heads of the
// records.
func VerifyLines(r io.Reader) (map[string]Replayed, error) {
	f := file{walks: make(map[string]*walk)}
	err := f.read(r)
	return f.replayed(), err
}

func (f *file) replayed() map[string]Replayed {
	replayed := make(map[string]Replayed, len(f.walks))
	for entity, w := range f.walks {
		if w.Seq > 0 {
			replayed[entity] = w.Replayed
		}
	}
	return replayed
}

// file is an export as it is being read.
type file struct {
	walks map[string]*walk // by entity
	lines int

	cuts map[string]int64 // by entity, after which entry; nil: there must be none
	each func(*Cut, *Entry, int)
}

func (f *file) read(r io.Reader) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, MaxLine)
	for s.Scan() {
		f.lines++
		if err := f.take(s.Bytes()); err != nil {
			return fmt.Errorf("line %d: %w", f.lines, err)
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d: longer than %d bytes", f.lines+1, MaxLine)
	}
	return s.Err()
}

func (f *file) take(text []byte) error {
	if f.cuts != nil && bytes.HasPrefix(text, cutLine) {
		return f.cut(text)
	}
	var e Entry
	if err := e.UnmarshalJSON(text); err != nil {
		return err
	}
	w, err := f.walk(e.Entity, e.Sequence)
	if err != nil {
		return err
	}
	if fault := w.take(&e); fault != nil {
		return fault
	}
	if f.each != nil {
		f.each(nil, &e, len(text))
	}
	return nil
}

// walk answers where the trail of an entity is.
func (f *file) walk(entity string, sequence int64) (*walk, error) {
	w := f.walks[entity]
	if w == nil {
		w = &walk{machine: MachineOf(entity), entity: entity}
		f.walks[entity] = w
	}
	if w.machine == nil {
		return nil, w.fault(sequence, FaultEntity, "no machine is known for it: want an id with the prefix j_, st_ or w_")
	}
	return w, nil
}
