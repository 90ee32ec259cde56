package audit_test

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

const (
	jobID   = "j_019373a1c4007abc8123000000200001"
	otherID = "j_019373a1c4007abc8123000000200002"
	start   = 1_763_719_200_123_456 // 2025-11-21T10:00:00.123456Z
)

// reseal gives the entries the hashes of a chain, as an attacker can who knows how
// hashes are made.
func reseal(entries []audit.Entry) []audit.Entry {
	var head audit.Hash
	for i := range entries {
		entries[i].Seal(head)
		head = entries[i].Hash
	}
	return entries
}

// renumber gives the entries the sequences 1, 2, 3, ...
func renumber(entries []audit.Entry) []audit.Entry {
	for i := range entries {
		entries[i].Sequence = int64(i + 1)
	}
	return entries
}

// trailOf seals a trail of the machine that the events lead through. It stops
// the test program if one of them is not legal.
func trailOf(m *machine.Machine, entity string, events ...machine.Event) []audit.Entry {
	entries := []audit.Entry{{To: m.Initial, Event: m.Create}}
	for _, event := range events {
		from := entries[len(entries)-1].To
		to, err := m.Next(from, event)
		if err != nil {
			panic(err)
		}
		entries = append(entries, audit.Entry{From: from, To: to, Event: event})
	}
	for i := range entries {
		e := &entries[i]
		e.Entity, e.At = entity, start+int64(i)*1000
		e.Reason, e.Actor, e.RequestID = "because", "operator", "r-1"
		e.Metadata = []byte(`{"try":1}`)
	}
	return reseal(renumber(entries))
}

// jobTrail is the trail of a job that was paused, resumed and completed.
func jobTrail() []audit.Entry {
	return trailOf(lifecycle.Job, jobID, lifecycle.JobValidate, lifecycle.JobAllocateResources,
		lifecycle.JobPause, lifecycle.JobResume, lifecycle.JobSuccess)
}

// stored is the record that the trail leads to.
func stored(entries []audit.Entry) audit.Stored {
	last := entries[len(entries)-1]
	return audit.Stored{Entity: last.Entity, State: last.To, Seq: last.Sequence, Head: last.Hash}
}

func clone(entries []audit.Entry) []audit.Entry {
	c := slices.Clone(entries)
	for i := range c {
		c[i].Metadata = slices.Clone(c[i].Metadata)
	}
	return c
}

// drawTrail draws a machine and a walk through it: a valid trail.
func drawTrail(t *rapid.T, machines []*machine.Machine) (*machine.Machine, []audit.Entry) {
	m := rapid.SampledFrom(machines).Draw(t, "machine")
	entries := []audit.Entry{{To: m.Initial, Event: m.Create}}
	for range rapid.IntRange(0, 12).Draw(t, "moves") {
		from := entries[len(entries)-1].To
		allowed := m.Allowed(from)
		if len(allowed) == 0 {
			break
		}
		event := rapid.SampledFrom(allowed).Draw(t, "event")
		entries = append(entries, audit.Entry{From: from, To: m.Table[from][event], Event: event})
	}
	entity := entityOf(m) + rapid.StringMatching(`[0-9a-f]{32}`).Draw(t, "id")
	at := rapid.Int64Range(0, start).Draw(t, "at")
	for i := range entries {
		at += rapid.Int64Range(0, 5_000_000).Draw(t, "later")
		entries[i].Entity, entries[i].At = entity, at
		drawNote(t, &entries[i])
	}
	return m, reseal(renumber(entries))
}

func drawNote(t *rapid.T, e *audit.Entry) {
	note := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{"<a> & b", "\u2028", "\"\\\n"}))
	e.Reason, e.Actor, e.RequestID = note.Draw(t, "reason"), note.Draw(t, "actor"), note.Draw(t, "request id")
	e.Metadata = []byte(rapid.SampledFrom([]string{"", `{}`, `{"b":[1,2.50,-0],"a":null}`, `{"a":"x < y\n","a":1e400}`}).Draw(t, "metadata"))
}

// entityOf is the prefix of ids of the machine's instances.
func entityOf(m *machine.Machine) string {
	for _, prefix := range []string{"j_", "st_", "w_"} {
		if audit.MachineOf(prefix) == m {
			return prefix
		}
	}
	return m.Name + "-"
}

// exported are the machines that VerifyLines knows.
func exported() []*machine.Machine {
	return []*machine.Machine{lifecycle.Job, lifecycle.Step, lifecycle.Worker}
}
