package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A Payload is the stored bodies of a record, and the sequence of the record's last entry.
type Payload struct {
	Seq    int64
	Bodies map[string][]byte // by field; nil means empty
	Owed   *pawl.Owed
}

// Size returns the total length of the bodies.
func (p *Payload) Size() (n int) {
	for _, b := range p.Bodies {
		n += len(b)
	}
	return n
}

// Bounds of the payload that is in memory at once. A record has up to some MiB.
const (
	payloadPage      = 32 // records
	PayloadPageBytes = 4 << 20
)

// settleTries bounds how often a record that keeps changing is read again.
const settleTries = 10

// A Verifier checks the trails that Views.Trails passes on: each trail with its record, the
// payload that it seals, and the trees of each job (K6). It takes the trails in their order,
// and keeps at most a page of them, and 60 bytes for each step of a job.
type Verifier struct {
	Views    Views
	Entities int
	Entries  int64

	job   rowkey.Job      // whose steps are being read; 0: none
	by    *audit.Withheld // what the job's own trail withholds
	trees audit.Trees
	page  []taken
	bytes int // approximate size of its entries
}

// A taken is a trail, and what its job withholds; nil means nothing.
type taken struct {
	TrailOf
	by *audit.Withheld
}

// Take checks the next trail, which has an id. The fault that it returns may belong to an
// earlier one.
func (v *Verifier) Take(ctx context.Context, t TrailOf) (*audit.Fault, error) {
	m := lifecycle.ByName(t.Kind)
	if m == nil {
		return nil, pawl.Errorf(pawl.Internal, "%s is of an unknown kind %q", t.ID, t.Kind)
	}
	if f := v.leave(&t); f != nil {
		return f, nil
	}
	v.Entities++
	v.Entries += int64(len(t.Entries))
	if t.Kind == lifecycle.Job.Name {
		v.by = audit.WithheldBy(t.Entries)
	}
	stored := audit.Stored{Entity: t.ID, State: t.Record.State, Seq: t.Record.Seq, Head: t.Record.Head}
	member, f := audit.Check(m, t.Entries, stored, v.withheld(&t))
	if f != nil {
		if again, err := v.redacted(ctx, &t); err != nil || !again {
			return f, err
		}
		if member, f = audit.Check(m, t.Entries, stored, v.by); f != nil {
			return f, nil
		}
	}
	member.Ord = int64(t.Ord)
	switch t.Kind {
	case lifecycle.Job.Name:
		v.job = t.Job
		v.trees.Job(member, t.Tree)
	case lifecycle.Step.Name:
		if f := v.trees.Step(member, t.Tree); f != nil {
			return f, nil
		}
	}
	if t.Kind == lifecycle.Worker.Name {
		return nil, nil // the trail seals nothing
	}
	v.page = append(v.page, taken{t, v.withheld(&t)})
	for i := range t.Entries {
		v.bytes += TrailBytes(&t.Entries[i])
	}
	if len(v.page) < payloadPage && v.bytes < TrailPageBytes {
		return nil, nil
	}
	return v.payload(ctx)
}

// leave checks the trees of the last job once all its steps were taken.
func (v *Verifier) leave(next *TrailOf) *audit.Fault {
	if v.job == 0 || next != nil && next.Kind == lifecycle.Step.Name && next.Job == v.job {
		return nil
	}
	v.job = 0
	return v.trees.End()
}

// End checks what was taken last, and returns its fault.
func (v *Verifier) End(ctx context.Context) (*audit.Fault, error) {
	if f := v.leave(nil); f != nil {
		return f, nil
	}
	return v.payload(ctx)
}

// payload checks the payload of the records of the page.
func (v *Verifier) payload(ctx context.Context) (*audit.Fault, error) {
	page := v.page
	v.page, v.bytes = v.page[:0], 0
	for len(page) > 0 {
		n := 1
		for n < len(page) && page[n].Kind == page[0].Kind {
			n++
		}
		keys := make([]pawl.StepKey, n)
		for i := range keys {
			keys[i] = page[i].StepKey
		}
		stored, through, err := v.Views.Payloads(ctx, page[0].Kind, keys)
		if err != nil {
			return nil, err
		}
		for i := range page[:through] {
			p, ok := stored[keys[i]]
			if f, err := v.match(ctx, &page[i], p, ok); f != nil || err != nil {
				return f, err
			}
		}
		page = page[through:]
	}
	return nil, nil
}

// match compares a trail with the payload of its record. It reads the trail again if the
// record has changed or was removed since.
func (v *Verifier) match(ctx context.Context, t *taken, p Payload, ok bool) (*audit.Fault, error) {
	for range settleTries {
		if !ok {
			return nil, nil // removed, or its trail says what is wrong
		}
		if p.Seq == int64(len(t.Entries)) {
			var owed *audit.Seal
			if p.Owed != nil {
				owed = &audit.Seal{Field: audit.FieldError, Sum: p.Owed.Sum, Salt: &p.Owed.Salt}
			}
			f, err := audit.VerifyPayload(t.Entries, p.Bodies, owed, t.covers), error(nil)
			if f == nil && t.Kind == lifecycle.Job.Name {
				f, err = v.signals(ctx, t)
			}
			if f == nil || err != nil {
				return f, err
			}
			if again, err := v.newly(ctx, t); err != nil || !again {
				return f, err
			}
		}
		trail, err := v.Views.Trail(ctx, t.EntityKey, 0, 0)
		if err != nil {
			return nil, err
		}
		if t.Kind == lifecycle.Job.Name {
			t.by = audit.WithheldBy(trail)
		}
		stored, _, err := v.Views.Payloads(ctx, t.Kind, []pawl.StepKey{t.StepKey})
		if err != nil {
			return nil, err
		}
		t.Entries = trail
		p, ok = stored[t.StepKey]
	}
	return nil, nil
}

// signals checks the data of the signals that a job has received.
func (v *Verifier) signals(ctx context.Context, t *taken) (*audit.Fault, error) {
	told := false
	for i := range t.Entries {
		told = told || t.Entries[i].Event == lifecycle.JobSignal
	}
	if !told {
		return nil, nil
	}
	for rest := t.Entries; len(rest) > 0; {
		data, more, err := v.Views.SignalData(ctx, t.Job, rest[0].Sequence-1)
		if err != nil {
			return nil, err
		}
		part := rest
		if more {
			n := slices.Max(slices.Collect(maps.Keys(data))) - rest[0].Sequence + 1
			part = rest[:min(n, int64(len(rest)))]
		}
		// The job may have received more since.
		maps.DeleteFunc(data, func(seq int64, _ []byte) bool { return seq > int64(len(t.Entries)) })
		if f := audit.VerifyData(part, data, t.covers); f != nil {
			return f, nil
		}
		rest = rest[len(part):]
	}
	return nil, nil
}

// withheld returns what the job of a trail withholds, or nil.
func (v *Verifier) withheld(t *TrailOf) *audit.Withheld {
	if v.job == t.Job && t.Kind == lifecycle.Step.Name || t.Kind == lifecycle.Job.Name {
		return v.by
	}
	return nil
}

// covers reports whether payload of an entry of the trail may be missing.
func (t *taken) covers(e *audit.Entry) bool { return t.by.Covers(int64(t.Ord), e) }

// redacted reports whether a job was redacted after its own trail had been read. If so, it
// reads that trail and the trail of the step again.
func (v *Verifier) redacted(ctx context.Context, t *TrailOf) (bool, error) {
	if t.Kind != lifecycle.Step.Name || v.job != t.Job {
		return false, nil
	}
	again := taken{*t, v.by}
	newly, err := v.newly(ctx, &again)
	if err != nil || !newly {
		return false, err
	}
	v.by = again.by
	entries, err := v.Views.Trail(ctx, t.EntityKey, 0, 0)
	t.Entries = entries
	t.Complete()
	return true, err
}

// newly reads again what the job of a trail withholds, and reports whether that is more than
// before.
func (v *Verifier) newly(ctx context.Context, t *taken) (bool, error) {
	if t.Kind != lifecycle.Job.Name && t.Kind != lifecycle.Step.Name {
		return false, nil
	}
	own, err := WithheldOf(ctx, v.Views, t.Job)
	if err != nil {
		return false, err
	}
	was := t.by
	t.by = own
	return was == nil || t.by.Seq > was.Seq, nil
}

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

// PayloadColumns returns the columns that hold the payload of a kind of record, its bodies.
func PayloadColumns(kind string) []string {
	switch kind {
	case lifecycle.Job.Name:
		return bodiesOf(Jobs)
	case lifecycle.Step.Name:
		return bodiesOf(Steps)
	case lifecycle.Schedule.Name:
		return bodiesOf(Schedules)
	}
	return nil
}

func bodiesOf[R any](t *Table[R]) (names []string) {
	for _, c := range t.Of(Body) {
		names = append(names, c.Name)
	}
	return names
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
