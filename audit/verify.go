package audit

import (
	"strings"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Stored is the record of an entity, as the store has it. A missing record has Seq 0; its
// State and Head are ignored.
type Stored struct {
	Entity string // public id; if empty, the id of the first entry is used
	State  machine.State
	Seq    int64 // of its last audit entry
	Head   Hash  // of its last audit entry
}

// Verify checks the whole trail of one entity, by sequence, against the table of its machine
// and against its record, and returns the first fault or nil (K6). A nil *Fault is not a nil
// error: test it before you convert it to an error.
//
// For each entry it checks, in this order: that it belongs to the same entity; that its
// sequence is the next, from 1 on without a gap; its hash, over its content and the entry
// before it; that the first entry is the creation as the machine defines it (its event, from
// nothing to its initial state), and every other one starts in the state to which the one
// before it led and is a transition of the table, to the state that the table says; and that
// it is not older than the entry before it (it may have the same time).
//
// At the end, the record has to be at the sequence, state and hash of the last entry. These
// are faults: an entry beyond the record, a record whose trail ends earlier (FaultTail), a
// record without entries, and entries without a record. No entries and no record is no fault:
// the entity was removed, with its whole trail.
//
// Verify cannot detect that a trail and its record were both rewritten, with new hashes, into
// another legal history; for that, keep heads elsewhere (in an export, for example).
func Verify(m *machine.Machine, entries []Entry, rec Stored) *Fault {
	_, f := Check(m, entries, rec, nil)
	return f
}

// Check is Verify for an entity whose payload may be withheld, as its job's trail says (or its
// own trail, for a job). It also returns what the trail says about the trees of the job.
func Check(m *machine.Machine, entries []Entry, rec Stored, by *Withheld) (Member, *Fault) {
	if by == nil && m == lifecycle.Job {
		by = WithheldBy(entries)
	}
	w := walk{machine: m, entity: rec.Entity, left: by.leaves}
	if f := w.all(entries); f != nil {
		return w.member, f
	}
	return w.member, w.settle(rec)
}

// settle compares the end of the trail with the record.
func (w *walk) settle(rec Stored) *Fault {
	switch {
	case rec.Seq == 0 && w.Seq == 0:
		return nil
	case rec.Seq < 0:
		return w.fault(w.Seq, FaultRecord, "the record is at entry %d, and sequences begin with 1", rec.Seq)
	case rec.Seq == 0:
		return w.fault(1, FaultRecord, "the trail has no record")
	case w.Seq == 0:
		return w.fault(1, FaultTail, "it is missing: there is no trail, and the record is at entry %d", rec.Seq)
	case rec.Seq > w.Seq:
		return w.fault(w.Seq+1, FaultTail, "it is missing: the trail ends with entry %d, and the record is at entry %d", w.Seq, rec.Seq)
	case rec.Seq < w.Seq:
		return w.fault(rec.Seq+1, FaultRecord, "the record does not know it: it is at entry %d", rec.Seq)
	case rec.Head != w.Head:
		return w.fault(w.Seq, FaultRecord, "its hash is not the one that the record has")
	case rec.State != w.State:
		return w.fault(w.Seq, FaultRecord, "it leads to %q, and the record is in %q", w.State, rec.State)
	}
	return nil
}

// prefixes are the prefixes of public ids, with their machines.
var prefixes = []struct {
	prefix  string
	machine *machine.Machine
}{
	{"j_", lifecycle.Job},
	{"st_", lifecycle.Step},
	{"w_", lifecycle.Worker},
	{"sc_", lifecycle.Schedule},
	{"tk_", lifecycle.Token},
	{"qp_", lifecycle.QueuePause},
	{"wh_", lifecycle.Webhook},
	{"sv_", lifecycle.Service},
	{"mb_", lifecycle.Member},
	{"ag_", lifecycle.Agent},
	{"lr_", lifecycle.Load},
}

// MachineOf returns the machine of the entity with the given public id, by the
// id's prefix: j_ for jobs, st_ for steps, w_ for workers, sc_ for schedules,
// tk_ for tokens, qp_ for pauses of queues, wh_ for webhooks, sv_ for services, mb_
// for members of a crew, ag_ for runs of load agents, lr_ for loads. It returns nil for others.
func MachineOf(entity string) *machine.Machine {
	for _, p := range prefixes {
		if strings.HasPrefix(entity, p.prefix) {
			return p.machine
		}
	}
	return nil
}
