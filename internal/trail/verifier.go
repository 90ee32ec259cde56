package trail

import (
	"context"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// payloadPage bounds the records whose payload is in memory at once.
const payloadPage = 32

// settleTries bounds how often a record that keeps changing is read again.
const settleTries = 10

// A Verifier checks the trails that Views.Trails passes on: each trail with its record, the
// payload that it seals, and the trees of each job (K6). It takes the trails in their order,
// and keeps at most a page of them, and 60 bytes for each step of a job.
type Verifier struct {
	Views    store.Views
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
	store.TrailOf
	by *audit.Withheld
}

// Take checks the next trail, which has an id. The fault that it returns may belong to an
// earlier one.
func (v *Verifier) Take(ctx context.Context, t store.TrailOf) (*audit.Fault, error) {
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
	switch t.Kind {
	case lifecycle.Worker.Name, lifecycle.Token.Name, lifecycle.Webhook.Name, lifecycle.QueuePause.Name:
		return nil, nil // the trail seals nothing
	}
	v.page = append(v.page, taken{t, v.withheld(&t)})
	for i := range t.Entries {
		v.bytes += store.TrailBytes(&t.Entries[i])
	}
	if len(v.page) < payloadPage && v.bytes < store.TrailPageBytes {
		return nil, nil
	}
	return v.payload(ctx)
}

// leave checks the trees of the last job once all its steps were taken.
func (v *Verifier) leave(next *store.TrailOf) *audit.Fault {
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
func (v *Verifier) match(ctx context.Context, t *taken, p store.Payload, ok bool) (*audit.Fault, error) {
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
func (v *Verifier) withheld(t *store.TrailOf) *audit.Withheld {
	if v.job == t.Job && t.Kind == lifecycle.Step.Name || t.Kind == lifecycle.Job.Name {
		return v.by
	}
	return nil
}

// covers reports whether payload of an entry of the trail may be missing.
func (t *taken) covers(e *audit.Entry) bool { return t.by.Covers(int64(t.Ord), e) }

// redacted reports whether a job was redacted after its own trail had been read. If so, it
// reads that trail and the trail of the step again.
func (v *Verifier) redacted(ctx context.Context, t *store.TrailOf) (bool, error) {
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
