package audit

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// A Tree is what was counted out of a job, or of the node of a fan-out: how many trails, and a
// digest over their ends in the order of counting. Folding a trail into the two values needs
// no reading.
type Tree struct {
	N   int64
	Acc Hash
}

// Branch returns the digest of a tree extended by another trail: the SHA-256 of the old
// digest, of the place of the step and the sequence of its last row, each as 8 bytes in
// big-endian order, and of the hash of that row.
func Branch(acc Hash, ord, sequence int64, head Hash) Hash {
	var b [2*sha256.Size + 16]byte
	copy(b[:], acc[:])
	binary.BigEndian.PutUint64(b[sha256.Size:], uint64(ord))
	binary.BigEndian.PutUint64(b[sha256.Size+8:], uint64(sequence))
	copy(b[sha256.Size+16:], head[:])
	return sha256.Sum256(b[:])
}

// A leaf is the end of a trail when it was counted out.
type leaf struct {
	n, ord, seq int64
	head        Hash
}

// A Member is what the trail of a job or a step says about the job's trees.
type Member struct {
	Entity string
	Ord    int64 // of the step: the node times 1<<20, and the instance; 0 is the job
	Folded int64 // the number by which it was counted out, or 0
	Ended  bool

	first   int // version of the first entry
	seq     int64
	head    Hash
	sealed  *Tree  // in the row that ended it
	earlier []leaf // the ends with which it was counted out before it grew
}

const instanceBits = 20

func nodeOf(ord int64) int64     { return ord >> instanceBits }
func instanceOf(ord int64) int64 { return ord & (1<<instanceBits - 1) }

// place describes the place of a step within its job.
func place(ord int64) string {
	if i := instanceOf(ord); i != 0 {
		return fmt.Sprintf("step %d[%d]", nodeOf(ord), i)
	}
	return fmt.Sprintf("step %d", nodeOf(ord))
}

// Trees checks the trees of one job: the steps are those that were counted out, and each trail
// ends as it did then. The zero value is ready. The job comes first, then its steps by ord.
type Trees struct {
	job       Member
	now       *Tree // the tree of the job's record; nil: not known
	leaves    []leaf
	uncounted *Member // the first step that was not counted out

	node      Member // the current one
	nodeNow   *Tree
	inside    []leaf // its instances
	within    *Member
	instances int64
}

// Job begins a job. now is the tree of its record, or nil if that is not known.
func (t *Trees) Job(m Member, now *Tree) { *t = Trees{job: m, now: now} }

// Step adds a step, and returns the first fault or nil. now is the tree of the step's record,
// or nil.
func (t *Trees) Step(m Member, now *Tree) *Fault {
	if t.job.first != Version2 {
		return nil // created before there were trees
	}
	if instanceOf(m.Ord) != 0 {
		return t.instance(m)
	}
	if f := t.closeNode(); f != nil {
		return f
	}
	if want := nodeOf(t.node.Ord) + 1; nodeOf(m.Ord) != want {
		return t.fault("%s is missing (ord %d)", place(want<<instanceBits), want<<instanceBits)
	}
	t.node, t.nodeNow, t.inside, t.within, t.instances = m, now, t.inside[:0], nil, 0
	t.leaves = m.appendLeaves(t.leaves)
	if m.Folded == 0 && t.uncounted == nil {
		t.uncounted = &m
	}
	return nil
}

func (t *Trees) instance(m Member) *Fault {
	want := t.node.Ord + t.instances + 1
	if nodeOf(m.Ord) != nodeOf(t.node.Ord) {
		want = nodeOf(m.Ord) << instanceBits
	}
	if m.Ord != want {
		return t.fault("%s is missing (ord %d)", place(want), want)
	}
	t.instances++
	t.inside = m.appendLeaves(t.inside)
	if m.Folded == 0 && t.within == nil {
		t.within = &m
	}
	return nil
}

// appendLeaves appends all that was folded of a member.
func (m *Member) appendLeaves(leaves []leaf) []leaf {
	for _, l := range m.earlier {
		l.ord = m.Ord
		leaves = append(leaves, l)
	}
	if m.Folded != 0 {
		leaves = append(leaves, leaf{m.Folded, m.Ord, m.seq, m.head})
	}
	return leaves
}

// End checks the last node, and the job itself.
func (t *Trees) End() *Fault {
	if t.job.first != Version2 {
		return nil
	}
	if f := t.closeNode(); f != nil {
		return f
	}
	next := (nodeOf(t.node.Ord) + 1) << instanceBits
	switch {
	case t.job.Ended && t.job.sealed == nil:
		return t.fault("it has ended, and no row seals what was counted out")
	case t.job.Ended && t.uncounted != nil:
		return t.fault("%s (ord %d) is there, and was never counted out", place(t.uncounted.Ord), t.uncounted.Ord)
	case t.job.Ended:
		return t.match(t.leaves, t.job.sealed, next)
	case t.now != nil:
		return t.match(t.leaves, t.now, next)
	}
	return nil
}

// closeNode checks the instances of the last node.
func (t *Trees) closeNode() *Fault {
	if t.node.Ord == 0 {
		return nil
	}
	next := t.node.Ord + t.instances + 1
	switch {
	case t.node.Ended && t.within != nil:
		return t.fault("%s (ord %d) is there, and was never counted out", place(t.within.Ord), t.within.Ord)
	case t.node.Ended && t.node.sealed != nil:
		return t.match(t.inside, t.node.sealed, next)
	case t.node.Ended:
		return t.match(t.inside, &Tree{}, next)
	case t.nodeNow != nil:
		return t.match(t.inside, t.nodeNow, next)
	}
	return nil
}

// match compares leaves with a tree. next is the place of the first missing step, if the last
// ones are missing.
func (t *Trees) match(leaves []leaf, tree *Tree, next int64) *Fault {
	slices.SortFunc(leaves, func(a, b leaf) int { return cmp.Compare(a.n, b.n) })
	var acc Hash
	for i, l := range leaves {
		switch {
		case l.n > int64(i)+1:
			return t.fault("%s (ord %d), or one before it, is missing: nothing is left of what was counted out as number %d", place(next), next, i+1)
		case l.n < int64(i)+1:
			return t.fault("%s (ord %d) is counted out as number %d, and so is another", place(l.ord), l.ord, l.n)
		}
		acc = Branch(acc, l.ord, l.seq, l.head)
	}
	switch n := int64(len(leaves)); {
	case n < tree.N:
		return t.fault("%s (ord %d) is missing: %d were counted out, and %d are left", place(next), next, tree.N, n)
	case n > tree.N:
		last := leaves[tree.N]
		return t.fault("%s (ord %d) is there, and was never counted out", place(last.ord), last.ord)
	case acc != tree.Acc:
		return t.fault("what was counted out is not what is there: the ends of its %d trails are others", n)
	}
	return nil
}

func (t *Trees) fault(format string, args ...any) *Fault {
	return &Fault{Entity: t.job.Entity, Sequence: t.job.seq, Code: FaultTree, Message: fmt.Sprintf(format, args...)}
}

// note records the next entry of the member's trail, which follows a row with the hash
// prev.
func (m *Member) note(e *Entry, prev Hash, ended bool) {
	if e.Again != 0 {
		m.earlier = append(m.earlier, leaf{n: e.Again, seq: e.Sequence - 1, head: prev})
	}
	if e.Tree != nil {
		m.sealed = e.Tree
	}
	m.Entity, m.seq, m.head, m.Folded, m.Ended = e.Entity, e.Sequence, e.Hash, e.Folded, ended
}
