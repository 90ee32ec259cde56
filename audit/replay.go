package audit

import (
	"fmt"

	"github.com/pawl-dev/pawl/machine"
)

// Replayed is the state of an entity according to its trail. The zero value is that of an
// empty trail.
type Replayed struct {
	State     machine.State
	Seq       int64 // of the last entry; 0 if there is none
	Head      Hash  // of the last entry
	CreatedAt int64 // time of the first entry, in microseconds since the Unix epoch
	UpdatedAt int64 // time of the last entry, likewise
}

// Replay walks a trail, from the creation on, and returns the state to which it leads (K6).
// The entries are those of one entity, by sequence.
//
// The error is nil or the first *Fault in the trail; [Verify] lists the checks. The state
// before the fault is returned with it. An empty trail has no fault.
func Replay(m *machine.Machine, entries []Entry) (Replayed, error) {
	w := walk{machine: m}
	if f := w.all(entries); f != nil {
		return w.Replayed, f
	}
	return w.Replayed, nil
}

// A walk is a position in a trail; everything up to it is valid.
type walk struct {
	Replayed
	machine *machine.Machine
	entity  string // empty until it is known
	member  Member

	left func(e *Entry, digest Hash) bool // reports whether the entry is the remainder of a redacted one; nil: none is
}

func (w *walk) all(entries []Entry) *Fault {
	if w.entity == "" && len(entries) > 0 {
		w.entity = entries[0].Entity
	}
	for i := range entries {
		if f := w.take(&entries[i]); f != nil {
			return w.misplaced(f, entries[i:])
		}
	}
	return nil
}

// misplaced turns a gap into a fault of order if the missing entry comes later.
func (w *walk) misplaced(f *Fault, rest []Entry) *Fault {
	if f.Code != FaultGap {
		return f
	}
	for i := range rest {
		if rest[i].Sequence == f.Sequence {
			return w.fault(f.Sequence, FaultOrder, "it comes after entry %d", rest[0].Sequence)
		}
	}
	return f
}

// take advances to the next entry, or returns the fault if the entry breaks a rule.
func (w *walk) take(e *Entry) *Fault {
	for _, rule := range rules {
		if f := rule(w, e); f != nil {
			return f
		}
	}
	if w.Seq == 0 {
		w.CreatedAt = e.At
		w.member.first = e.Version
	}
	w.member.note(e, w.Head, w.machine.Ended(e.To))
	w.State, w.Seq, w.Head, w.UpdatedAt = e.To, e.Sequence, e.Hash, e.At
	return nil
}

// rules are the rules for an entry, in the order in which faults are reported. The
// content of a row is trusted only once its hash is right.
var rules = []func(*walk, *Entry) *Fault{
	(*walk).sameEntity,
	(*walk).nextSequence,
	(*walk).sealed,
	(*walk).legal,
	(*walk).noEarlier,
}

func (w *walk) sameEntity(e *Entry) *Fault {
	if e.Entity == w.entity {
		return nil
	}
	return w.fault(w.Seq+1, FaultEntity, "it is of %q", e.Entity)
}

func (w *walk) nextSequence(e *Entry) *Fault {
	want := w.Seq + 1
	switch {
	case e.Sequence == want:
		return nil
	case e.Sequence > want && w.Seq == 0:
		return w.fault(want, FaultGap, "it is missing: the trail begins with entry %d", e.Sequence)
	case e.Sequence > want:
		return w.fault(want, FaultGap, "it is missing: entry %d follows entry %d", e.Sequence, w.Seq)
	case w.Seq == 0:
		return w.fault(e.Sequence, FaultOrder, "sequences begin with 1")
	default:
		return w.fault(e.Sequence, FaultOrder, "it comes again, or too late: it follows entry %d", w.Seq)
	}
}

func (w *walk) sealed(e *Entry) *Fault {
	digest := e.digest(w.Head)
	if e.Hash == digest {
		return nil
	}
	if e.blanked() {
		if w.left != nil && w.left(e, digest) {
			return nil
		}
		return w.fault(e.Sequence, FaultHash, unnamed)
	}
	return w.fault(e.Sequence, FaultHash, "its hash is not that of its content and of the entry before it")
}

func (w *walk) legal(e *Entry) *Fault {
	m := w.machine
	if w.Seq == 0 {
		if e.From == "" && e.Event == m.Create && e.To == m.Initial {
			return nil
		}
		return w.fault(e.Sequence, FaultCreate, "it is %s, where %s is created by %s", move(e), m.Name, move(&Entry{Event: m.Create, To: m.Initial}))
	}
	if e.From != w.State {
		return w.fault(e.Sequence, FaultFrom, "it starts from %q, where the entry before it led to %q", e.From, w.State)
	}
	to, err := m.Next(e.From, e.Event)
	switch {
	case !m.Has(e.To):
		return w.fault(e.Sequence, FaultIllegal, "it leads to %q, which is not a state of %s", e.To, m.Name)
	case err != nil:
		return w.fault(e.Sequence, FaultIllegal, "the table of %s does not allow %s", m.Name, move(e))
	case to != e.To:
		return w.fault(e.Sequence, FaultIllegal, "it is %s, where the table of %s leads to %q", move(e), m.Name, to)
	}
	return nil
}

// move describes the transition of an entry.
func move(e *Entry) string {
	if e.From == "" {
		return fmt.Sprintf("event %q from nothing to %q", e.Event, e.To)
	}
	return fmt.Sprintf("event %q from %q to %q", e.Event, e.From, e.To)
}

// noEarlier allows several entries to have the same microsecond: one commit makes several
// transitions at one time.
func (w *walk) noEarlier(e *Entry) *Fault {
	if w.Seq == 0 || e.At >= w.UpdatedAt {
		return nil
	}
	return w.fault(e.Sequence, FaultTime, "it is %d µs older than the entry before it", w.UpdatedAt-e.At)
}

func (w *walk) fault(sequence int64, code Code, format string, args ...any) *Fault {
	return &Fault{Entity: w.entity, Sequence: sequence, Code: code, Message: fmt.Sprintf(format, args...)}
}
