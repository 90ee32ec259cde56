package audit

import (
	"fmt"
	"maps"
	"slices"
)

// VerifyPayload checks that the payload kept beside the entries of one trail, and the payload
// of its record, match the seals of the entries. It returns the first fault or nil. The trail
// itself must have been verified.
//
// bodies are the fields that records of the kind have, as they are stored; nil means empty.
// owed is the seal of an error that no entry has yet, or nil. A field of the record has to
// match the last seal of that field; an entity that is older than seals need not have sealed
// it. Covered payload may be missing, with its random bytes or before them; a nil covered
// covers nothing.
func VerifyPayload(entries []Entry, bodies map[string][]byte, owed *Seal, covered func(*Entry) bool) *Fault {
	if len(entries) == 0 {
		return nil
	}
	type sealed struct {
		*Seal
		by *Entry
	}
	last := make(map[string]sealed)
	for i := range entries {
		e := &entries[i]
		for k := range e.Seals {
			s := &e.Seals[k]
			field := s.Field
			if field == FieldFailure {
				if f := e.beside(s, covered); f != nil {
					return f
				}
				if field = FieldError; e.From == e.To || e.Event == interrupt {
					continue // it is not a field of the record
				}
			}
			last[field] = sealed{s, e}
		}
	}
	end := &entries[len(entries)-1]
	if owed != nil {
		last[FieldError] = sealed{owed, end}
	}
	for _, field := range slices.Sorted(maps.Keys(bodies)) {
		body, l := bodies[field], last[field]
		switch {
		case l.Seal == nil && (Empty(body) || entries[0].Version != Version2):
		case l.Seal == nil:
			return end.payloadFault("the record has %s, and no entry seals it", field)
		case l.Salt == nil && body != nil:
			return l.by.payloadFault("its %s was withheld, and the record has it", field)
		case body == nil && covers(covered, l.by):
		case l.Salt == nil:
			return l.by.payloadFault("its %s is withheld, and "+nobody, field)
		case body == nil:
			return l.by.payloadFault("its %s is missing in the record", field)
		case !l.Opens(body):
			return l.by.payloadFault("the %s of the record is not what it seals", field)
		}
	}
	return nil
}

// interrupt is the event of a step whose failure says why it was interrupted.
const interrupt = "interrupt"

// beside checks payload that is kept with an entry.
func (e *Entry) beside(s *Seal, covered func(*Entry) bool) *Fault {
	switch {
	case s.Payload == nil && covers(covered, e):
	case s.Salt == nil && s.Payload == nil:
		return e.payloadFault("its %s is withheld, and "+nobody, s.Field)
	case s.Payload == nil:
		return e.payloadFault("its %s is missing", s.Field)
	case !s.Opens(s.Payload):
		return e.payloadFault("its %s is not what it seals", s.Field)
	}
	return nil
}

// nobody is the message for payload that is missing without a redact entry.
const nobody = "no redact entry of its job says so"

func covers(covered func(*Entry) bool, e *Entry) bool { return covered != nil && covered(e) }

func (e *Entry) payloadFault(format string, args ...any) *Fault {
	return &Fault{Entity: e.Entity, Sequence: e.Sequence, Code: FaultPayload, Message: fmt.Sprintf(format, args...)}
}

// VerifyData checks the data of the signals of a job against its trail, or a part of it: data
// are the stored values, by the sequence of the entry that records the signal. Signals that
// are older than seals are not checked. Covered data may be missing, as in [VerifyPayload].
func VerifyData(entries []Entry, data map[int64][]byte, covered func(*Entry) bool) *Fault {
	for i := range entries {
		e := &entries[i]
		s := e.SealOf(FieldData)
		stored, there := data[e.Sequence]
		switch {
		case s == nil && stored != nil && e.Version == Version2:
			return e.payloadFault("a signal is stored for it, and it records none")
		case s == nil:
		case !there:
			return e.payloadFault("its signal is missing")
		case stored == nil && covers(covered, e):
		case s.Salt == nil && stored == nil:
			return e.payloadFault("the data of its signal is withheld, and " + nobody)
		case s.Salt == nil:
			return e.payloadFault("the data of its signal was withheld, and is there")
		case !s.Opens(stored):
			return e.payloadFault("the data of its signal is not what it seals")
		}
	}
	for _, seq := range slices.Sorted(maps.Keys(data)) {
		if len(entries) > 0 && (seq < entries[0].Sequence || seq > entries[len(entries)-1].Sequence) {
			return entries[len(entries)-1].payloadFault("there is a signal of an entry %d, which is not there", seq)
		}
	}
	return nil
}
