package audit_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
)

// redactEntry is the entry of a job that withholds a scope.
func redactEntry(after []audit.Entry, s audit.Scope) audit.Entry {
	last := after[len(after)-1]
	return audit.Entry{Entity: last.Entity, Sequence: last.Sequence + 1, From: last.To, To: last.To, Event: lifecycle.JobRedact, Reason: "a token", Actor: "ann",
		Metadata: s.Metadata(), At: last.At, Version: audit.Version2}
}

// K6: what a redact entry withholds: the job, a step with its instances, an entry that it
// names by its hash.
func TestK6Withheld(t *testing.T) {
	t.Parallel()
	trail := jobTrail()
	named := trail[1]
	at := func(node, instance int64) int64 { return node<<20 | instance }
	by := func(scopes ...audit.Scope) *audit.Withheld {
		list := slices.Clone(trail)
		for _, s := range scopes {
			list = append(list, redactEntry(list, s))
		}
		return audit.WithheldBy(list)
	}
	other := named
	other.Hash[0]++
	for _, x := range []struct {
		name string
		by   *audit.Withheld
		ord  int64
		e    audit.Entry
		want bool
	}{
		{"nothing", by(), at(3, 0), named, false},
		{"the job", by(audit.Scope{Job: true}), 0, named, true},
		{"a step of the job", by(audit.Scope{Job: true}), at(3, 7), named, true},
		{"a step", by(audit.Scope{Step: "load", Node: 3}), at(3, 0), named, true},
		{"an instance", by(audit.Scope{Step: "load", Node: 3}), at(3, 7), named, true},
		{"another step", by(audit.Scope{Step: "load", Node: 3}), at(4, 0), named, false},
		{"the job of a step", by(audit.Scope{Step: "load", Node: 3}), 0, named, false},
		{"two steps", by(audit.Scope{Step: "load", Node: 3}, audit.Scope{Step: "x", Node: 4}), at(4, 1), named, true},
		{"named", by(audit.Scope{Entries: []audit.Named{named.Name(trail[0].Hash)}}), 0, named, true},
		{"named with another hash", by(audit.Scope{Entries: []audit.Named{named.Name(trail[0].Hash)}}), 0, other, false},
		{"nil", nil, at(3, 0), named, false},
	} {
		if got := x.by.Covers(x.ord, &x.e); got != x.want {
			t.Errorf("%s: covered %v, want %v", x.name, got, x.want)
		}
	}
}

// K6: an entry of version 1 that was redacted is believed only if the job's trail names
// it, and as it was left; so in an export.
func TestK6WithheldOldEntry(t *testing.T) {
	t.Parallel()
	build := func(name bool) []audit.Entry {
		list := jobTrail()
		list[3].Reason, list[3].Metadata = "it is s3cret", []byte(`{"failure":{"class":"x"}}`)
		list = reseal(list)
		s := audit.Scope{Job: true}
		if name {
			s.Entries = []audit.Named{list[3].Name(list[2].Hash)}
		}
		r := redactEntry(list, s)
		r.Seal(list[len(list)-1].Hash)
		if !list[3].HoldsPayload() || !list[3].Withhold() || list[3].HoldsPayload() || list[3].Withhold() {
			t.Fatal("the payload of the entry is not there, or is twice")
		}
		return append(list, r)
	}
	tests := []struct {
		name   string
		named  bool
		tamper func([]audit.Entry)
		want   want
	}{
		{"named", true, func([]audit.Entry) {}, want{}},
		{"not named", false, func([]audit.Entry) {}, want{audit.FaultHash, 4}},
		{"edited", true, func(e []audit.Entry) { e[3].Actor = "nobody" }, want{audit.FaultHash, 4}},
		{"another hash", true, func(e []audit.Entry) { e[3].Hash[0]++ }, want{audit.FaultHash, 4}},
		{"another one instead", true, func(e []audit.Entry) { e[4].Reason, e[4].Metadata = "", []byte(`{"redacted":true}`) }, want{audit.FaultHash, 5}},
		{"the naming edited", true, func(e []audit.Entry) {
			last := &e[len(e)-1]
			last.Metadata = bytes.Replace(last.Metadata, []byte(`"sequence":4`), []byte(`"sequence":5`), 1)
		}, want{audit.FaultHash, 4}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			list := build(test.named)
			test.tamper(list)
			checkFault(t, audit.Verify(lifecycle.Job, list, stored(list)), test.want)
			var b strings.Builder
			if err := audit.WriteLines(&b, list); err != nil {
				t.Fatal(err)
			}
			if _, err := audit.VerifyLines(strings.NewReader(b.String())); (err == nil) != (test.want == want{}) {
				t.Errorf("export: %v", err)
			}
		})
	}
}
