package engine

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/workflow"
)

// Entries are sealed when all commands of a transaction have been decided: instances,
// then nodes, which have counted them out, then all others.

// A draft is what becomes of an entry of the same place in the transaction.
type draft struct {
	record *pawl.Record
	span   *span
	note   *workflow.Note // with payload; mostly nil
}

// A span is which entries of the transaction are those of a record, while they are
// sealed; -1 is none.
type span struct {
	first, last int
	noted       *pawl.Failure // the last one that an entry keeps beside it
}

// A counting is a step that the transaction counts out.
type counting struct {
	pawl.StepKey
	seq   int64
	entry int        // of its last row, or -1: head
	head  audit.Hash // of the row that it had before
}

// fold counts a step out of its job, or of its fan-out.
func (t *tx) fold(j *pawl.Job, s *pawl.Step) {
	if j.Tree.N < 0 {
		return // older than trees
	}
	tree := &j.Tree.Tree
	t.jobs[j.Key()].dirty = true
	if s.Ord.Instance() != 0 {
		k := pawl.StepKey{Job: s.Job, Ord: s.Ord.Parent()}
		tree = &t.step(k).Tree.Tree
		t.steps[k].dirty = true
	}
	tree.N++
	h := t.steps[s.StepKey]
	s.Folded, h.dirty = tree.N, true
	c := counting{StepKey: s.StepKey, seq: s.Seq, entry: -1, head: s.Head}
	if h.made || h.was != s.Seq {
		for c.entry = len(t.entries) - 1; t.entries[c.entry].EntityKey.StepKey != s.StepKey || t.entries[c.entry].Sequence != s.Seq; {
			c.entry--
		}
	}
	t.counted = append(t.counted, c)
}

// uncounted returns an error if the command has made a trail longer that had been
// counted out, and has not counted it out again.
func (t *tx) uncounted() error {
	for i := range t.journal.steps {
		if was := &t.journal.steps[i]; was.before.Folded != 0 && was.record.Folded == 0 {
			return pawl.Errorf(pawl.Internal, "step %s was counted out of its job, and goes on", was.record.StepKey)
		}
	}
	return nil
}

// seal seals the payload that the transaction stores, and all its entries.
func (t *tx) seal() error {
	if err := t.sealPayload(); err != nil {
		return err
	}
	t.hash(func(k *store.EntityKey) bool { return k.Ord.Instance() != 0 })
	t.branch(func(c *counting) *audit.Tree {
		if c.Ord.Instance() == 0 {
			return nil
		}
		return &t.steps[pawl.StepKey{Job: c.Job, Ord: c.Ord.Parent()}].record.Tree.Tree
	})
	t.hash(func(k *store.EntityKey) bool { return k.Ord != 0 && k.Ord.Instance() == 0 })
	t.branch(func(c *counting) *audit.Tree {
		if c.Ord.Instance() != 0 {
			return nil
		}
		return &t.jobs[c.Job].record.Tree.Tree
	})
	t.hash(func(k *store.EntityKey) bool { return k.Ord == 0 })
	return nil
}

// hash seals the entries of some kind of entity, in their order.
func (t *tx) hash(of func(*store.EntityKey) bool) {
	for i := range t.entries {
		if e := &t.entries[i]; of(&e.EntityKey) {
			e.Tree = t.treeOf(e)
			r := t.drafts[i].record
			e.Seal(r.Head)
			r.Head = e.Hash
		}
	}
}

// treeOf returns the tree that an entry seals, or nil: it ends a job, or a node of
// which instances were counted out.
func (t *tx) treeOf(e *store.Entry) *audit.Tree {
	var tree audit.Tree
	switch {
	case e.From == e.To:
		return nil
	case e.Kind == lifecycle.Job.Name && lifecycle.Job.Ended(e.To):
		if tree = t.jobs[e.Job].record.Tree.Tree; tree.N < 0 {
			return nil
		}
	case e.Kind == lifecycle.Step.Name && e.Ord.Instance() == 0 && lifecycle.Step.Ended(e.To):
		if tree = t.steps[e.StepKey].record.Tree.Tree; tree.N <= 0 {
			return nil
		}
	default:
		return nil
	}
	return &tree
}

// branch folds what was counted out of some trees.
func (t *tx) branch(of func(*counting) *audit.Tree) {
	for i := range t.counted {
		c := &t.counted[i]
		if tree := of(c); tree != nil {
			head := c.head
			if c.entry >= 0 {
				head = t.entries[c.entry].Hash
			}
			tree.Acc = audit.Branch(tree.Acc, int64(c.Ord), c.seq, head)
		}
	}
}

// sealPayload seals what the transaction stores beside its entries: in the entry that
// brings it, or else the last one of the record; what a new record has in its first.
func (t *tx) sealPayload() error {
	for _, h := range t.jobs {
		h.first, h.last, h.noted = -1, -1, nil
	}
	for _, h := range t.steps {
		h.first, h.last, h.noted = -1, -1, nil
	}
	for _, h := range t.schedules {
		h.first, h.last = -1, -1
	}
	for i := range t.drafts {
		d := &t.drafts[i]
		if d.span.first < 0 {
			d.span.first = i
		}
		d.span.last = i
		if d.note != nil {
			if err := t.sealNote(d, i); err != nil {
				return err
			}
		}
	}
	for _, h := range t.jobs {
		if h.dirty {
			if err := t.sealJob(h); err != nil {
				return err
			}
		}
	}
	for _, h := range t.steps {
		if h.dirty {
			if err := t.sealStep(h); err != nil {
				return err
			}
		}
	}
	for _, h := range t.schedules {
		if h.dirty && (h.made || !bytes.Equal(h.record.Inputs, h.loaded[0])) {
			if err := t.attach(h.last, audit.FieldInputs, h.record.Inputs); err != nil {
				return err
			}
		}
	}
	return nil
}

// sealNote seals what a note has beside the entry i.
func (t *tx) sealNote(d *draft, i int) error {
	if d.note.Data != nil {
		return t.attach(i, audit.FieldData, d.note.Data)
	}
	payload, err := store.EncodeFailure(d.note.Failure)
	if err != nil {
		return err
	}
	d.span.noted = d.note.Failure
	s := audit.Sealed(audit.FieldFailure, t.salt(), payload)
	s.Payload = payload
	t.entries[i].Seals = append(t.entries[i].Seals, s)
	return nil
}

// attach seals a field in the entry at i.
func (t *tx) attach(i int, field string, payload []byte) error {
	if payload == nil {
		return nil
	}
	if i < 0 {
		return fmt.Errorf("%s: there is no entry that could seal it", field)
	}
	t.entries[i].Seals = append(t.entries[i].Seals, audit.Sealed(field, t.salt(), payload))
	return nil
}

func (t *tx) sealJob(h *held[pawl.Job]) error {
	j, at := h.record, h.last
	if h.made {
		at = h.first
	}
	for i, f := range [...]struct {
		name string
		body []byte
	}{{audit.FieldInputs, j.Inputs}, {audit.FieldMetadata, j.Metadata}} {
		if h.made || !bytes.Equal(f.body, h.loaded[i]) {
			if err := t.attach(at, f.name, f.body); err != nil {
				return fmt.Errorf("job %d: %w", j.Key(), err)
			}
		}
	}
	if err := t.attach(h.last, audit.FieldOutput, j.Output); err != nil {
		return fmt.Errorf("job %d: %w", j.Key(), err)
	}
	return t.sealError(&h.span, j.Error, &j.Tree.Owed)
}

func (t *tx) sealStep(h *held[pawl.Step]) error {
	s := h.record
	if err := t.attach(h.last, audit.FieldInput, s.Input); err != nil {
		return fmt.Errorf("step %s: %w", s.StepKey, err)
	}
	if err := t.attach(h.last, audit.FieldOutput, s.Output); err != nil {
		return fmt.Errorf("step %s: %w", s.StepKey, err)
	}
	return t.sealError(&h.span, s.Error, &s.Tree.Owed)
}

// sealError seals the error of a record. One for which there is no entry is owed to
// the next one.
func (t *tx) sealError(of *span, f *pawl.Failure, owed *pawl.Owed) error {
	if f == nil {
		if *owed != (pawl.Owed{}) && of.first >= 0 && of.noted == nil {
			salt := owed.Salt
			t.entries[of.first].Seals = append(t.entries[of.first].Seals, audit.Seal{Field: audit.FieldError, Sum: owed.Sum, Salt: &salt})
			*owed = pawl.Owed{}
		}
		return nil
	}
	*owed = pawl.Owed{}
	if f == of.noted {
		return nil
	}
	payload, err := store.EncodeFailure(f)
	if err != nil {
		return err
	}
	if of.last >= 0 {
		return t.attach(of.last, audit.FieldError, payload)
	}
	salt := t.salt()
	*owed = pawl.Owed{Sum: audit.Sum(&salt, payload), Salt: salt}
	return nil
}

// A salts hands random bytes out, many at a time. It is safe for concurrent use.
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
