package store

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
)

// Of sets the fields that come from the record of a job or a step.
func (t *TrailOf) Of(r *pawl.Record, tree *pawl.Tree, folded int64) {
	t.Record, t.Folded = *r, folded
	if r.Seq > 0 {
		t.Tree = TreeOf(tree)
	}
}

// TreeOf returns the tree of what was counted out of a record; nil if the record is older than
// trees.
func TreeOf(t *pawl.Tree) *audit.Tree {
	switch {
	case t == nil:
		return &audit.Tree{}
	case t.N < 0:
		return nil
	}
	return &t.Tree
}

// Complete sorts the entries of a trail, and sets the number by which the last one was counted
// out.
func (t *TrailOf) Complete() {
	Chain(t.ID, t.Entries)
	if n := len(t.Entries); n > 0 && t.Entries[n-1].Sequence == t.Record.Seq {
		t.Entries[n-1].Folded = t.Folded
	}
}

// nothingCounted is the stored form of a tree without any counted trails.
var nothingCounted = []byte{0}

// EncodeTree returns the stored form of a tree; nil for a record older than trees. The bytes
// must not be changed.
func EncodeTree(t *pawl.Tree) []byte {
	switch {
	case t == nil:
		return nothingCounted
	case t.N < 0 && t.Owed == nil:
		return nil
	}
	b := make([]byte, 8, 8+len(t.Acc)+len(pawl.Owed{}.Sum)+len(pawl.Owed{}.Salt))
	binary.BigEndian.PutUint64(b, uint64(t.N))
	b = append(b, t.Acc[:]...)
	if t.Owed != nil {
		b = append(append(b, t.Owed.Sum[:]...), t.Owed.Salt[:]...)
	}
	return b
}

// DecodeTree reads what EncodeTree wrote.
func DecodeTree(b []byte) (*pawl.Tree, error) {
	switch {
	case len(b) == 0:
		return &pawl.Tree{Tree: audit.Tree{N: -1}}, nil
	case bytes.Equal(b, nothingCounted):
		return nil, nil
	}
	var owed pawl.Owed
	t := &pawl.Tree{}
	plain := 8 + len(t.Acc)
	if len(b) != plain && len(b) != plain+len(owed.Sum)+len(owed.Salt) {
		return nil, fmt.Errorf("a tree of %d bytes", len(b))
	}
	t.N = int64(binary.BigEndian.Uint64(b))
	b = b[8:]
	if b = b[copy(t.Acc[:], b):]; len(b) > 0 {
		b = b[copy(owed.Sum[:], b):]
		copy(owed.Salt[:], b)
		t.Owed = &owed
	}
	return t, nil
}
