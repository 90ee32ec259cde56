package audit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

type want struct {
	Code     audit.Code
	Sequence int64
}

// checkFault compares a fault with what a case wants; the zero want is no fault.
func checkFault(t *testing.T, f *audit.Fault, w want) {
	t.Helper()
	if f == nil {
		f = &audit.Fault{}
	}
	if diff := cmp.Diff(w, want{f.Code, f.Sequence}); diff != "" {
		t.Errorf("fault %v (-want +got):\n%s", f, diff)
	}
}

// K6: a change of one field of one row is reported at that row.
func TestK6VerifyFindsAnEditedField(t *testing.T) {
	t.Parallel()
	edits := map[string]func(*audit.Entry){
		"entity":           func(e *audit.Entry) { e.Entity = otherID },
		"from":             func(e *audit.Entry) { e.From = lifecycle.JobRunning },
		"to":               func(e *audit.Entry) { e.To = lifecycle.JobFailed },
		"event":            func(e *audit.Entry) { e.Event = lifecycle.JobCancel },
		"reason":           func(e *audit.Entry) { e.Reason += "." },
		"actor":            func(e *audit.Entry) { e.Actor = "somebody" },
		"request id":       func(e *audit.Entry) { e.RequestID = "" },
		"metadata":         func(e *audit.Entry) { e.Metadata = []byte(`{"try":2}`) },
		"no metadata":      func(e *audit.Entry) { e.Metadata = nil },
		"metadata spelled": func(e *audit.Entry) { e.Metadata = []byte(`{"try": 1}`) },
		"at":               func(e *audit.Entry) { e.At++ },
		"hash":             func(e *audit.Entry) { e.Hash[31] ^= 1 },
		"no hash":          func(e *audit.Entry) { e.Hash = audit.Hash{} },
		"moved bytes":      func(e *audit.Entry) { e.Reason, e.Actor = "becaus", "eoperator" },
	}
	for name, edit := range edits {
		for _, row := range []int{0, 1, 5} {
			entries := jobTrail()
			rec := stored(entries)
			edit(&entries[row])
			w := want{audit.FaultHash, int64(row + 1)}
			if name == "entity" {
				w.Code = audit.FaultEntity
			}
			if name == "from" && entries[row].From == jobTrail()[row].From {
				continue // not an edit of this row
			}
			t.Run(name, func(t *testing.T) { checkFault(t, audit.Verify(lifecycle.Job, entries, rec), w) })
		}
	}
}

// K6: rows taken away, added, moved. The record is the true one.
func TestK6VerifyFindsTamperedRows(t *testing.T) {
	t.Parallel()
	other := func(events ...machine.Event) []audit.Entry { return trailOf(lifecycle.Job, jobID, events...) }
	tests := []struct {
		name   string
		tamper func([]audit.Entry) []audit.Entry
		want   want
	}{
		{"untouched", func(e []audit.Entry) []audit.Entry { return e }, want{}},
		{"sequence edited upwards", func(e []audit.Entry) []audit.Entry { e[2].Sequence = 9; return e }, want{audit.FaultGap, 3}},
		{"sequence edited downwards", func(e []audit.Entry) []audit.Entry { e[2].Sequence = 1; return e }, want{audit.FaultOrder, 1}},
		{"sequence zero", func(e []audit.Entry) []audit.Entry { e[0].Sequence = 0; return e }, want{audit.FaultOrder, 0}},
		{"deleted in the middle", func(e []audit.Entry) []audit.Entry { return slices.Delete(e, 2, 3) }, want{audit.FaultGap, 3}},
		{"deleted and renumbered", func(e []audit.Entry) []audit.Entry { return renumber(slices.Delete(e, 3, 5)) }, want{audit.FaultHash, 4}},
		{"deleted, renumbered, resealed", func(e []audit.Entry) []audit.Entry { return reseal(renumber(slices.Delete(e, 3, 5))) }, want{audit.FaultTail, 5}},
		{"first deleted", func(e []audit.Entry) []audit.Entry { return e[1:] }, want{audit.FaultGap, 1}},
		{"first deleted and renumbered", func(e []audit.Entry) []audit.Entry { return renumber(e[1:]) }, want{audit.FaultHash, 1}},
		{"first deleted, resealed", func(e []audit.Entry) []audit.Entry { return reseal(renumber(e[1:])) }, want{audit.FaultCreate, 1}},
		{"swapped", func(e []audit.Entry) []audit.Entry { e[3], e[4] = e[4], e[3]; return e }, want{audit.FaultOrder, 4}},
		{"swapped and renumbered", func(e []audit.Entry) []audit.Entry { e[3], e[4] = e[4], e[3]; return renumber(e) }, want{audit.FaultHash, 4}},
		{"swapped, resealed", func(e []audit.Entry) []audit.Entry { e[3], e[4] = e[4], e[3]; return reseal(renumber(e)) }, want{audit.FaultTime, 5}},
		{"duplicated", func(e []audit.Entry) []audit.Entry { return slices.Insert(e, 3, e[2]) }, want{audit.FaultOrder, 3}},
		{"duplicated and renumbered", func(e []audit.Entry) []audit.Entry { return renumber(slices.Insert(e, 3, e[2])) }, want{audit.FaultHash, 4}},
		{"last duplicated", func(e []audit.Entry) []audit.Entry { return append(e, e[5]) }, want{audit.FaultOrder, 6}},
		{"tail cut", func(e []audit.Entry) []audit.Entry { return e[:4] }, want{audit.FaultTail, 5}},
		{"all but the creation cut", func(e []audit.Entry) []audit.Entry { return e[:1] }, want{audit.FaultTail, 2}},
		{"all cut", func(e []audit.Entry) []audit.Entry { return nil }, want{audit.FaultTail, 1}},
		{"row added", func(e []audit.Entry) []audit.Entry {
			return other(append([]machine.Event{lifecycle.JobValidate}, lifecycle.JobPause, lifecycle.JobResume, lifecycle.JobPause, lifecycle.JobResume, lifecycle.JobCancel)...)
		}, want{audit.FaultRecord, 7}},
		{"replaced by one of the same length", func(e []audit.Entry) []audit.Entry {
			return other(lifecycle.JobValidate, lifecycle.JobPause, lifecycle.JobResume, lifecycle.JobAllocateResources, lifecycle.JobSuccess)
		}, want{audit.FaultRecord, 6}},
		{"replaced by a shorter one", func(e []audit.Entry) []audit.Entry { return other(lifecycle.JobCancel) }, want{audit.FaultTail, 3}},
		{"replaced by another entity's", func(e []audit.Entry) []audit.Entry {
			return trailOf(lifecycle.Job, otherID, lifecycle.JobValidate, lifecycle.JobAllocateResources, lifecycle.JobPause, lifecycle.JobResume, lifecycle.JobSuccess)
		}, want{audit.FaultEntity, 1}},
		{"edited, resealed", func(e []audit.Entry) []audit.Entry { e[2].Actor = "nobody"; return reseal(e) }, want{audit.FaultRecord, 6}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			entries := jobTrail()
			rec := stored(entries)
			checkFault(t, audit.Verify(lifecycle.Job, tt.tamper(entries), rec), tt.want)
		})
	}
}

// K6: with right hashes, and a record that agrees, a life that is not legal is reported
// as well.
func TestK6VerifyFindsIllegalLives(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		edit func([]audit.Entry)
		want want
	}{
		{"created by another event", func(e []audit.Entry) { e[0].Event = lifecycle.JobValidate }, want{audit.FaultCreate, 1}},
		{"created in another state", func(e []audit.Entry) { e[0].To = lifecycle.JobPending }, want{audit.FaultCreate, 1}},
		{"created from a state", func(e []audit.Entry) { e[0].From = lifecycle.JobPending }, want{audit.FaultCreate, 1}},
		{"created twice", func(e []audit.Entry) { e[1].From, e[1].To, e[1].Event = "", e[0].To, e[0].Event }, want{audit.FaultFrom, 2}},
		{"from another state", func(e []audit.Entry) { e[3].From = lifecycle.JobPending }, want{audit.FaultFrom, 4}},
		{"from an unknown state", func(e []audit.Entry) { e[3].From = "LIMBO" }, want{audit.FaultFrom, 4}},
		{"event of another state", func(e []audit.Entry) { e[3].Event = lifecycle.JobValidate }, want{audit.FaultIllegal, 4}},
		{"unknown event", func(e []audit.Entry) { e[3].Event = "wish" }, want{audit.FaultIllegal, 4}},
		{"to another state", func(e []audit.Entry) { e[5].To = lifecycle.JobFailed }, want{audit.FaultIllegal, 6}},
		{"to an unknown state", func(e []audit.Entry) { e[5].To = "LIMBO" }, want{audit.FaultIllegal, 6}},
		{"to nothing", func(e []audit.Entry) { e[5].To = "" }, want{audit.FaultIllegal, 6}},
		{"out of an end", func(e []audit.Entry) { e[4].Event, e[4].To, e[5].From = "success", "COMPLETED", "COMPLETED" }, want{audit.FaultIllegal, 6}},
		{"back in time", func(e []audit.Entry) { e[3].At = e[2].At - 1 }, want{audit.FaultTime, 4}},
		{"at the same time", func(e []audit.Entry) { e[3].At = e[2].At }, want{}},
		{"of another entity midway", func(e []audit.Entry) { e[3].Entity = otherID }, want{audit.FaultEntity, 4}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			entries := jobTrail()
			tt.edit(entries)
			reseal(entries)
			checkFault(t, audit.Verify(lifecycle.Job, entries, stored(entries)), tt.want)
		})
	}
}

// K6: the record has to be where its trail leads.
func TestK6VerifyComparesTheRecord(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		entries []audit.Entry
		edit    func(*audit.Stored)
		want    want
	}{
		{"same", jobTrail(), func(*audit.Stored) {}, want{}},
		{"entity not given", jobTrail(), func(r *audit.Stored) { r.Entity = "" }, want{}},
		{"other entity", jobTrail(), func(r *audit.Stored) { r.Entity = otherID }, want{audit.FaultEntity, 1}},
		{"other state", jobTrail(), func(r *audit.Stored) { r.State = lifecycle.JobFailed }, want{audit.FaultRecord, 6}},
		{"other head", jobTrail(), func(r *audit.Stored) { r.Head[0] ^= 1 }, want{audit.FaultRecord, 6}},
		{"ahead", jobTrail(), func(r *audit.Stored) { r.Seq++ }, want{audit.FaultTail, 7}},
		{"behind", jobTrail(), func(r *audit.Stored) { r.Seq -= 2 }, want{audit.FaultRecord, 5}},
		{"below nothing", jobTrail(), func(r *audit.Stored) { r.Seq = -1 }, want{audit.FaultRecord, 6}},
		{"gone", jobTrail(), func(r *audit.Stored) { r.Seq = 0 }, want{audit.FaultRecord, 1}},
		{"without a trail", nil, func(r *audit.Stored) { r.Seq, r.State = 3, lifecycle.JobRunning }, want{audit.FaultTail, 1}},
		{"gone, and its trail too", nil, func(*audit.Stored) {}, want{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rec := audit.Stored{Entity: jobID}
			if len(tt.entries) > 0 {
				rec = stored(tt.entries)
			}
			tt.edit(&rec)
			checkFault(t, audit.Verify(lifecycle.Job, tt.entries, rec), tt.want)
		})
	}
}

// K6: a fault is readable: entity, row, code, and what is wrong.
func TestK6FaultsAreReadable(t *testing.T) {
	t.Parallel()
	entries := jobTrail()
	entries[3].Event = lifecycle.JobValidate
	f := audit.Verify(lifecycle.Job, reseal(entries), stored(entries))
	const want = jobID + `: entry 4: illegal: the table of job does not allow event "validate" from "RUNNING" to "RUNNING"`
	if f == nil || f.Error() != want {
		t.Errorf("got  %v\nwant %s", f, want)
	}
}

// K6: replay yields what the record has.
func TestK6Replay(t *testing.T) {
	t.Parallel()
	entries := jobTrail()
	got, err := audit.Replay(lifecycle.Job, entries)
	if err != nil {
		t.Fatal(err)
	}
	want := audit.Replayed{State: lifecycle.JobCompleted, Seq: 6, Head: entries[5].Hash, CreatedAt: start, UpdatedAt: start + 5000}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestK6ReplayOfNothing(t *testing.T) {
	t.Parallel()
	if got, err := audit.Replay(lifecycle.Job, nil); err != nil || got != (audit.Replayed{}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestK6ReplayStopsAtTheFault(t *testing.T) {
	t.Parallel()
	entries := jobTrail()
	entries[2].Reason = "edited"
	got, err := audit.Replay(lifecycle.Job, entries)
	var f *audit.Fault
	if !errors.As(err, &f) {
		t.Fatalf("error %v, want a *Fault", err)
	}
	checkFault(t, f, want{audit.FaultHash, 3})
	if got.Seq != 2 || got.State != lifecycle.JobPending {
		t.Errorf("replayed %+v, want the two entries before", got)
	}
}

// K6: every walk of every machine verifies, and replays to where it went.
func TestK6WalksVerify(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, entries := drawTrail(t, lifecycle.All())
		rec := stored(entries)
		if f := audit.Verify(m, entries, rec); f != nil {
			t.Fatal(f)
		}
		got, err := audit.Replay(m, entries)
		last := entries[len(entries)-1]
		want := audit.Replayed{State: last.To, Seq: int64(len(entries)), Head: last.Hash, CreatedAt: entries[0].At, UpdatedAt: last.At}
		if err != nil || got != want {
			t.Fatalf("replayed %+v, %v; want %+v", got, err, want)
		}
	})
}

// K6: whatever single field of whatever row is changed, at whatever byte, is
// found, and no later than at that row.
func TestK6AnyMutationIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, entries := drawTrail(t, lifecycle.All())
		rec := stored(entries)
		if rapid.Bool().Draw(t, "entity not given") {
			rec.Entity = ""
		}
		bad := clone(entries)
		row := rapid.IntRange(0, len(bad)-1).Draw(t, "row")
		field := mutate(t, &bad[row])
		f := audit.Verify(m, bad, rec)
		if f == nil {
			t.Fatalf("row %d: a changed %s was not found", row+1, field)
		}
		if want := int64(row + 1); f.Sequence > want && field != "entity" {
			t.Fatalf("row %d: a changed %s was found at %v", row+1, field, f)
		}
	})
}

// K6: rows dropped, doubled or reordered are found, renumbered or not.
func TestK6AnyRearrangementIsFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, entries := drawTrail(t, lifecycle.All())
		rows := rapid.SliceOfN(rapid.IntRange(0, len(entries)-1), 0, len(entries)+1).Draw(t, "rows")
		var bad []audit.Entry
		same := len(rows) == len(entries)
		for i, row := range rows {
			bad = append(bad, entries[row])
			same = same && i == row
		}
		if rapid.Bool().Draw(t, "renumbered") {
			renumber(bad)
		}
		if f := audit.Verify(m, bad, stored(entries)); (f == nil) != same {
			t.Fatalf("rows %v: fault %v", rows, f)
		}
	})
}

// mutate changes one field of e and returns its name.
func mutate(t *rapid.T, e *audit.Entry) string {
	texts := map[string]*string{"entity": &e.Entity, "from": (*string)(&e.From), "to": (*string)(&e.To),
		"event": (*string)(&e.Event), "reason": &e.Reason, "actor": &e.Actor, "request id": &e.RequestID}
	fields := []string{"entity", "from", "to", "event", "reason", "actor", "request id", "metadata", "sequence", "at", "hash"}
	field := rapid.SampledFrom(fields).Draw(t, "field")
	delta := rapid.Int64().Filter(func(n int64) bool { return n != 0 }).Draw(t, "delta")
	switch field {
	case "metadata":
		e.Metadata = []byte(change(t, string(e.Metadata)))
	case "sequence":
		e.Sequence += delta
	case "at":
		e.At += delta
	case "hash":
		e.Hash = audit.Hash([]byte(flip(t, string(e.Hash[:]))))
	default:
		*texts[field] = change(t, *texts[field])
	}
	return field
}

// change flips a bit of s, cuts it, or adds to it.
func change(t *rapid.T, s string) string {
	switch how := rapid.IntRange(0, 2).Draw(t, "how"); {
	case s == "" || how == 0:
		return s + rapid.StringN(1, 3, -1).Draw(t, "added")
	case how == 1:
		return strings.Clone(s[:rapid.IntRange(0, len(s)-1).Draw(t, "cut")])
	default:
		return flip(t, s)
	}
}

func flip(t *rapid.T, s string) string {
	b := []byte(s)
	b[rapid.IntRange(0, len(b)-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
	return string(b)
}
