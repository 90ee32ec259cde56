package audit

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/lifecycle"
)

// A Scope is what a redact entry of a job withholds, and the entry's metadata. It is the whole
// job, or one step with its instances, or named entries.
type Scope struct {
	Job     bool    `json:"job,omitempty"`
	Step    string  `json:"step,omitempty"` // its key, for people
	Node    int64   `json:"node,omitempty"` // its place, from 1 on
	Entries []Named `json:"entries,omitempty"`
}

// MaxNamed bounds the entries that one redact entry names.
const MaxNamed = 100

// A Named is an entry whose payload is withheld although its scope is not, or whose payload
// was hashed with it, as in version 1.
type Named struct {
	Entity   string `json:"entity"`
	Sequence int64  `json:"sequence"`
	Hash     Hash   `json:"hash"`           // as it was sealed
	Left     *Hash  `json:"left,omitempty"` // of version 1: the hash of its remainder
}

// Metadata returns the metadata of a redact entry.
func (s *Scope) Metadata() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // cannot happen: JSON can represent the type
	}
	return b
}

// Withheld is everything that the redact entries of a job withhold. The zero value withholds
// nothing.
type Withheld struct {
	Seq int64 // of the last entry of the job that was read

	job   bool
	nodes map[int64]bool
	named map[nameKey]Named
}

type nameKey struct {
	entity   string
	sequence int64
}

// WithheldBy returns what the redact entries of a job's own trail withhold. It does not verify
// the trail.
func WithheldBy(trail []Entry) *Withheld {
	w := &Withheld{}
	for i := range trail {
		w.Note(&trail[i])
	}
	return w
}

// Note adds what the next entry of the trail withholds.
func (w *Withheld) Note(e *Entry) {
	w.Seq = e.Sequence
	var s Scope
	if e.Event != lifecycle.JobRedact || json.Unmarshal(e.Metadata, &s) != nil {
		return
	}
	w.job = w.job || s.Job
	if s.Node > 0 {
		if w.nodes == nil {
			w.nodes = make(map[int64]bool)
		}
		w.nodes[s.Node] = true
	}
	if w.named == nil && len(s.Entries) > 0 {
		w.named = make(map[nameKey]Named)
	}
	for _, n := range s.Entries {
		w.named[nameKey{n.Entity, n.Sequence}] = n
	}
}

// None reports whether nothing is withheld.
func (w *Withheld) None() bool { return w == nil || !w.job && len(w.nodes) == 0 && len(w.named) == 0 }

// Job reports whether the whole job is withheld.
func (w *Withheld) Job() bool { return w != nil && w.job }

// Step reports whether the step at that place, or the fan-out that it is an instance of, is
// withheld.
func (w *Withheld) Step(ord int64) bool {
	return w != nil && (w.job || ord != 0 && w.nodes[nodeOf(ord)])
}

// Nodes returns the places of the withheld steps, in order.
func (w *Withheld) Nodes() []int64 {
	var nodes []int64
	for n := range w.nodes {
		nodes = append(nodes, n)
	}
	slices.Sort(nodes)
	return nodes
}

// Covers reports whether the payload of an entry may be missing. The entry belongs to the step
// at that place, or to the job at 0.
func (w *Withheld) Covers(ord int64, e *Entry) bool {
	return w.Step(ord) || w.Names(e)
}

// Names reports whether a redact entry names the entry.
func (w *Withheld) Names(e *Entry) bool {
	if w == nil {
		return false
	}
	n, ok := w.named[nameKey{e.Entity, e.Sequence}]
	return ok && n.Hash == e.Hash
}

// leaves reports whether an entry of version 1 whose digest differs from its hash is the
// remainder of a redacted one.
func (w *Withheld) leaves(e *Entry, digest Hash) bool {
	if w == nil {
		return false
	}
	n, ok := w.named[nameKey{e.Entity, e.Sequence}]
	return ok && n.Hash == e.Hash && n.Left != nil && *n.Left == digest
}

// blank replaces the metadata of a redacted entry of version 1.
const blank = `{"redacted":true}`

// Redacted reports whether payload of the entry was withheld.
func (e *Entry) Redacted() bool { return e.Withheld() || e.blanked() }

func (e *Entry) blanked() bool {
	return e.Version != Version2 && string(e.Metadata) == blank && e.Reason == ""
}

// HoldsPayload reports whether an entry of version 1 may hold payload: the failure of a step
// in its metadata, or the text of the failure as the reason. In that version it cannot be
// distinguished from a reason that an operator gave.
func (e *Entry) HoldsPayload() bool {
	if e.Version == Version2 || e.blanked() {
		return false
	}
	var told struct {
		Failure json.RawMessage `json:"failure"`
	}
	return e.Reason != "" || len(e.Metadata) > 0 && (json.Unmarshal(e.Metadata, &told) != nil || told.Failure != nil)
}

// Name returns how a redact entry names the entry. prev is the hash of the entry before it.
func (e *Entry) Name(prev Hash) Named {
	n := Named{Entity: e.Entity, Sequence: e.Sequence, Hash: e.Hash}
	if e.Version != Version2 {
		left := *e
		left.Withhold()
		digest := left.digest(prev)
		n.Left = &digest
	}
	return n
}

// Withhold removes the payload of the entry, and reports whether there was any: the payload
// beside it and the random bytes of its seals or, in version 1, its reason and its metadata.
// Its hash stays.
func (e *Entry) Withhold() bool {
	if e.Version != Version2 {
		there := e.HoldsPayload()
		if there {
			e.Reason, e.Metadata = "", []byte(blank)
		}
		return there
	}
	there := false
	for i := range e.Seals {
		s := &e.Seals[i]
		there = there || s.Salt != nil
		s.Salt, s.Payload = nil, nil
	}
	return there
}

// Take removes the payload of an entry of the job if it is withheld, and reports whether there
// was any. The entry belongs to the step at that place, or to the job at 0.
func (w *Withheld) Take(ord int64, e *Entry) bool {
	if e.Version == Version2 && w.Covers(ord, e) || w.Names(e) {
		return e.Withhold()
	}
	return false
}

// A claim is an entry of an export that looks like the remainder of a redacted one.
type claim struct {
	entry  Entry
	digest Hash
	line   int
}

// looksRedacted accepts an entry until all lines are read: the trail of its job may come
// later.
func (f *file) looksRedacted(e *Entry, digest Hash) bool {
	f.claims = append(f.claims, claim{*e, digest, f.lines})
	return true
}

// redacts records what a redact entry withholds.
func (f *file) redacts(e *Entry) {
	if e.Event != lifecycle.JobRedact {
		return
	}
	job, _, _ := jobOf(e.Entity)
	if f.withheld == nil {
		f.withheld = make(map[string]*Withheld)
	}
	if f.withheld[job] == nil {
		f.withheld[job] = &Withheld{}
	}
	f.withheld[job].Note(e)
}

// claimed checks that the trails of their jobs name all entries that look redacted.
func (f *file) claimed() error {
	for _, c := range f.claims {
		if job, _, _ := jobOf(c.entry.Entity); !f.withheld[job].leaves(&c.entry, c.digest) {
			return fmt.Errorf("line %d: %w", c.line, &Fault{Entity: c.entry.Entity, Sequence: c.entry.Sequence, Code: FaultHash, Message: unnamed})
		}
	}
	return nil
}

// unnamed is the message for an entry that looks redacted and is not.
const unnamed = "it looks redacted, and no redact entry of its job names it as it is"
