package engine

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Entries are sealed when all commands of a transaction have been decided: first instances,
// then nodes, which have counted them out, then jobs.

// A draft is the data to be added to the entry at the same index in the transaction.
type draft struct {
	record *pawl.Record
	span   *span
	tree   **pawl.Tree  // of a job or a step
	note   *decide.Note // with payload; usually nil
}

// A span is the range of the transaction's entries that belong to a record, without those
// of signals, counted from 1; 0 is none. It is known when they are sealed.
type span struct {
	first, last int32
	noted       *pawl.Failure // the last failure that an entry keeps beside it
}

// add adds the entry i, counted from 0.
func (s *span) add(i int) {
	if s.last = int32(i + 1); s.first == 0 {
		s.first = s.last
	}
}

// A counting is a step that the transaction counts out.
type counting struct {
	pawl.StepKey
	seq   int64
	entry int        // of its last row; -1: use head
	head  audit.Hash // of its last row before this transaction
}

// fold counts a step out of its job, or of its fan-out.
func (t *tx) fold(j *pawl.Job, s *pawl.Step) {
	if j.Tree != nil && j.Tree.N < 0 {
		return // older than trees
	}
	tree := &j.Tree
	t.jobs[j.Key()].dirty = true
	if s.Ord.Instance() != 0 {
		k := pawl.StepKey{Job: s.Job, Ord: s.Ord.Parent()}
		tree = &t.step(k).Tree
		t.steps[k].dirty = true
	}
	next := &pawl.Tree{}
	if *tree != nil {
		*next = **tree
	}
	next.N++
	*tree = next
	h := t.steps[s.StepKey]
	s.Folded, h.dirty = next.N, true
	c := counting{StepKey: s.StepKey, seq: s.Seq, entry: -1, head: s.Head}
	if h.made || h.was != s.Seq {
		for c.entry = len(t.entries) - 1; t.entries[c.entry].EntityKey.StepKey != s.StepKey || t.entries[c.entry].Sequence != s.Seq; {
			c.entry--
		}
	}
	t.counted = append(t.counted, c)
}

// uncounted returns an error if the command has extended the trail of a step that was
// counted out, and has not counted it out again.
func (t *tx) uncounted() error {
	for i := range t.journal.steps {
		if was := &t.journal.steps[i]; was.before.Folded != 0 && was.record.Folded == 0 {
			return pawl.Errorf(pawl.Internal, "step %s was counted out of its job, and goes on", was.record.StepKey)
		}
	}
	return nil
}

// hash seals all entries after their payload, but those that are sealed.
func (t *tx) hash() {
	var nodes []int32
	jobs := make([]int32, 0, len(t.entries)-t.sealed)
	for i := t.sealed; i < len(t.entries); i++ {
		switch e, d := &t.entries[i], &t.drafts[i]; {
		case d.tree == nil || e.Ord.Instance() != 0 || e.Ord != 0 && *d.tree == nil:
			t.hashEntry(i)
		case e.Ord != 0:
			nodes = append(nodes, int32(i))
		default:
			jobs = append(jobs, int32(i))
		}
	}
	t.branch(true)
	for _, i := range nodes {
		t.hashEntry(int(i))
	}
	t.branch(false)
	for _, i := range jobs {
		t.hashEntry(int(i))
	}
	t.sealed, t.branched = len(t.entries), len(t.counted)
}

// hashEntry seals an entry. An entry that ends a job, or a node whose instances were
// counted out, seals the tree; the job then no longer needs it.
func (t *tx) hashEntry(i int) {
	e, d := &t.entries[i], &t.drafts[i]
	switch {
	case d.tree == nil || e.From == e.To:
	case e.Ord != 0:
		if tree := *d.tree; tree != nil && tree.N > 0 && lifecycle.Step.Ended(e.To) {
			e.Tree = &tree.Tree
		}
	case lifecycle.Job.Ended(e.To):
		if e.Tree = store.TreeOf(*d.tree); e.Tree != nil && (*d.tree == nil || (*d.tree).Owed == nil) {
			*d.tree = nil
		}
	}
	e.Seal(d.record.Head)
	d.record.Head = e.Hash
}

// branch folds what was counted out: instances into their nodes, or nodes into their jobs.
// This transaction made their trees.
func (t *tx) branch(instances bool) {
	for i := t.branched; i < len(t.counted); i++ {
		c := &t.counted[i]
		if instances != (c.Ord.Instance() != 0) {
			continue
		}
		head := c.head
		if c.entry >= 0 {
			head = t.entries[c.entry].Hash
		}
		var tree *pawl.Tree
		if instances {
			tree = t.steps[pawl.StepKey{Job: c.Job, Ord: c.Ord.Parent()}].record.Tree
		} else {
			tree = t.jobs[c.Job].record.Tree
		}
		tree.Acc = audit.Branch(tree.Acc, int64(c.Ord), c.seq, head)
	}
}
