package supervisor

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Keep is how much of the past a FileJournal keeps at least. A service that was removed
// keeps its last lives.
type Keep struct {
	Entries int // of each trail, the last ones; 0: 1000; -1: all
	Lives   int // of each service, before its last; 0: 3; -1: all
}

func (k Keep) validate() error {
	return atLeast(-1, map[string]int{"Keep.Entries": k.Entries, "Keep.Lives": k.Lives})
}

func (k Keep) withDefaults() Keep {
	fill(&k.Entries, 1000)
	fill(&k.Lives, 3)
	return k
}

// Trail implements Trailer.
func (j *FileJournal) Trail(_ context.Context, entity string) ([]audit.Entry, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	t := j.trails[entity]
	if t == nil {
		return nil, nil
	}
	trail := make([]audit.Entry, len(t.spans))
	for i, s := range t.spans {
		e, err := j.entry(s)
		if err != nil {
			return nil, fmt.Errorf("journal %s: trail of %s: %w", j.path, entity, err)
		}
		trail[i] = e
	}
	return trail, nil
}

// Lives implements Trailer.
func (j *FileJournal) Lives(_ context.Context, id string) (first, last int, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	l := j.lives[id]
	if l == nil {
		return 0, 0, nil
	}
	first, last = l.first, l.last
	if t := j.trails[Entity(id, last)]; t == nil || t.last.Sequence == 0 { // its first entry could not be written
		last--
	}
	if last < first {
		return 0, 0, nil
	}
	return first, last, nil
}

// lifeOf returns the service and the number of its life that an entity stands for.
func lifeOf(entity string) (id string, life int) {
	id, number, later := strings.Cut(strings.TrimPrefix(entity, "sv_"), "~")
	if life, err := strconv.Atoi(number); later && err == nil {
		return id, life
	}
	return id, 1
}

func (j *FileJournal) line(s span) ([]byte, error) {
	text := make([]byte, s.size+1)
	_, err := j.file.ReadAt(text, s.at)
	return text, err
}

func (j *FileJournal) entry(s span) (e audit.Entry, err error) {
	text, err := j.line(s)
	if err == nil {
		err = e.UnmarshalJSON(text)
	}
	return e, err
}

// shrink rewrites the file if less than half of it has to be kept. It is called with mu
// held by the goroutine that writes, and releases mu meanwhile. If that fails the file
// keeps growing, and it is tried again later.
func (j *FileJournal) shrink() {
	if j.entries <= 2*j.needed {
		return
	}
	kept := j.kept()
	j.needed = 0
	for _, k := range kept {
		j.needed += len(k.spans)
	}
	if j.entries <= 2*j.needed {
		return
	}
	j.mu.Unlock()
	r := rewriting{journal: j}
	err := r.write(kept)
	j.mu.Lock()
	if err != nil {
		j.needed = j.entries
		return
	}
	r.replace(kept)
}

// A kept is the part of a trail that is kept.
type kept struct {
	fileTrail
	entity string
	cutAt  span // the last deleted entry; size 0: none
	begins span // the first entry before the deletion
}

// kept returns what is kept of each trail. Deleted trails are not in it.
func (j *FileJournal) kept() []kept {
	var all []kept
	for entity, t := range j.trails {
		id, life := lifeOf(entity)
		if l := j.lives[id]; j.keep.Lives >= 0 && life < l.last-j.keep.Lives && lifecycle.Service.Ended(t.last.To) {
			continue
		}
		k, n := kept{fileTrail: *t, entity: entity}, 0
		if n = len(t.spans) - j.keep.Entries; j.keep.Entries >= 0 && n > 0 {
			k.cutAt, k.begins = t.spans[n-1], t.spans[0]
		} else {
			n = 0
		}
		k.spans = slices.Clone(t.spans[n:])
		all = append(all, k)
	}
	return all
}

// A rewriting is a rewrite of the journal's file.
type rewriting struct {
	journal *FileJournal
	file    *os.File
	out     *bufio.Writer
	end     int64
}

// write writes the new file, locks it, and renames it over the old one.
func (r *rewriting) write(all []kept) (err error) {
	j := r.journal
	old, err := j.file.Stat()
	if err != nil {
		return err
	}
	temp := j.path + ".new"
	if r.file, err = os.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, old.Mode().Perm()); err != nil {
		return err
	}
	if err = lock(r.file); err == nil {
		err = r.copy(all)
	}
	if err == nil {
		err = r.file.Sync()
	}
	if err == nil {
		err = os.Rename(temp, j.path)
	}
	if err != nil {
		_ = unlockAndClose(r.file)
		_ = os.Remove(temp)
	}
	return err
}

// copy writes the cuts, then the entries in their order, and updates their positions.
func (r *rewriting) copy(all []kept) error {
	r.out = bufio.NewWriterSize(r.file, 1<<16)
	var spans []*span
	for i := range all {
		k := &all[i]
		if err := r.cut(k); err != nil {
			return err
		}
		for n := range k.spans {
			spans = append(spans, &k.spans[n])
		}
	}
	slices.SortFunc(spans, func(a, b *span) int { return cmp.Compare(a.at, b.at) })
	for _, s := range spans {
		text, err := r.journal.line(*s)
		if err != nil {
			return err
		}
		if s.at, err = r.add(text); err != nil {
			return err
		}
	}
	return r.out.Flush()
}

func (r *rewriting) add(line []byte) (at int64, err error) {
	at = r.end
	r.end += int64(len(line))
	_, err = r.out.Write(line)
	return at, err
}

// cut writes the audit.Cut of a trail, if it was cut off.
func (r *rewriting) cut(k *kept) error {
	if k.cutAt.size > 0 {
		gone, err := r.journal.entry(k.cutAt)
		if err != nil {
			return err
		}
		c := audit.Cut{Entity: k.entity, Sequence: gone.Sequence, State: gone.To, At: gone.At, Hash: gone.Hash}
		if k.fileTrail.cut != nil {
			c.CreatedAt = k.fileTrail.cut.CreatedAt
		} else if first, err := r.journal.entry(k.begins); err == nil {
			c.CreatedAt = first.At
		} else {
			return err
		}
		k.fileTrail.cut = &c
	}
	if k.fileTrail.cut == nil {
		return nil
	}
	text, err := json.Marshal(k.fileTrail.cut)
	if err == nil {
		_, err = r.add(append(text, '\n'))
	}
	return err
}

// replace continues with the new file. It is called with mu held.
func (r *rewriting) replace(all []kept) {
	j := r.journal
	_ = unlockAndClose(j.file)
	j.file, j.end, j.torn, j.unsyncedName = r.file, r.end, false, true
	left := make(map[string]bool, len(all))
	j.entries = 0
	for _, k := range all {
		t := j.trails[k.entity] // it may have newer entries by now
		t.cut, t.spans = k.fileTrail.cut, k.spans
		left[k.entity] = true
		j.entries += len(k.spans)
	}
	for entity, t := range j.trails {
		if !left[entity] && t.last.Sequence > 0 && len(t.spans) > 0 {
			delete(j.trails, entity)
			id, life := lifeOf(entity)
			j.lives[id].first = max(j.lives[id].first, life+1)
		}
	}
}
