package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// MaxLine is the longest line that VerifyLines reads, in bytes: 16 MiB.
const MaxLine = 16 << 20

// WriteLines writes the entries as exported lines, each ended by a line feed, in their order
// (K6). It stops at the first entry that MarshalJSON would refuse; the lines before it stay
// written.
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

// lineEncoder returns an encoder that leaves the text of metadata unchanged.
func lineEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc
}

// VerifyLines checks exported lines without a database (K6), and returns the final state of
// each trail, by entity. It checks every entry as [Verify] does; the prefix of the entity's id
// determines the machine, as [MachineOf] says. An entity's lines have to be in the order of
// their sequence; those of different entities may be mixed. White space around values and
// escapes in strings do not matter.
//
// The error names the line, counted from 1. It wraps the first *Fault, if the line was an
// entry at all. The states replayed before the error are returned with it.
//
// A trail has to be whole: see [VerifyCut] for those that are not.
//
// A job that has ended needs all its steps as it sealed them. A file does not show other
// omissions: that a trail was cut at its end, or that a whole job is missing, shows only if
// the result is compared with the heads of the records.
func VerifyLines(r io.Reader) (map[string]Replayed, error) {
	f := file{walks: make(map[string]*walk)}
	err := f.read(r)
	if err == nil {
		err = f.claimed()
	}
	if err == nil {
		if fault := f.trees(); fault != nil {
			err = fault
		}
	}
	return f.replayed(), err
}

// trees checks that the steps in the file match what the jobs sealed.
func (f *file) trees() *Fault {
	type of struct {
		job   *walk
		steps []Member
	}
	jobs := make(map[string]*of)
	for _, entity := range slices.Sorted(maps.Keys(f.walks)) {
		w := f.walks[entity]
		job, ord, step := jobOf(entity)
		if job == "" || w.Seq == 0 {
			continue
		}
		if jobs[job] == nil {
			jobs[job] = &of{}
		}
		if !step {
			jobs[job].job = w
			continue
		}
		m := w.member
		m.Ord = ord
		jobs[job].steps = append(jobs[job].steps, m)
	}
	for _, key := range slices.Sorted(maps.Keys(jobs)) {
		if jobs[key].job == nil {
			continue // a part of an export
		}
		var t Trees
		t.Job(jobs[key].job.member, nil)
		for _, m := range jobs[key].steps { // their ids are in the order of their places
			if fault := t.Step(m, nil); fault != nil {
				return fault
			}
		}
		if fault := t.End(); fault != nil {
			return fault
		}
	}
	return nil
}

// jobOf splits the id of a job or a step: the part shared with its job and, for a step, its
// place in the last 30 bits. For other ids it returns zero values.
func jobOf(entity string) (job string, ord int64, step bool) {
	id, step := strings.CutPrefix(entity, "st_")
	if !step {
		id = strings.TrimPrefix(entity, "j_")
	}
	if len(id) != 32 || !step && len(id) == len(entity) {
		return "", 0, false
	}
	low, err := strconv.ParseUint(id[24:], 16, 32)
	if err != nil {
		return "", 0, false
	}
	return id[:24] + string(rune('0'+low>>30)), int64(low & (1<<30 - 1)), step
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

// file is the state of reading an export.
type file struct {
	walks map[string]*walk // by entity
	lines int

	withheld map[string]*Withheld // by the part of the ids that a job and its steps share; see jobOf
	claims   []claim

	cuts map[string]int64 // by entity, the entry after which the trail begins; nil: no cut is allowed
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
	f.redacts(&e)
	if f.each != nil {
		f.each(nil, &e, len(text))
	}
	return nil
}

// walk returns the walk of an entity's trail.
func (f *file) walk(entity string, sequence int64) (*walk, error) {
	w := f.walks[entity]
	if w == nil {
		w = &walk{machine: MachineOf(entity), entity: entity, left: f.looksRedacted}
		f.walks[entity] = w
	}
	if w.machine == nil {
		return nil, w.fault(sequence, FaultEntity, "no machine is known for it: want an id with the prefix j_, st_ or w_")
	}
	return w, nil
}
