package store_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// drawEntries draws the entries that one commit adds to the trails of up to three jobs.
func drawEntries(t *rapid.T) (list []*store.Entry) {
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.SampledFrom([]string{
		`say "no" \\ or C:\new\u0041`, `\`, `"`, "<a> & b\u2028\u2029", "\x7f\ufeff\u0085", "\xff\x00", "two\nlines", strings.Repeat("x", 650), strings.Repeat("y\"", 400_000),
	}))
	for k := range rapid.MapOfN(rapid.Custom(func(t *rapid.T) pawl.StepKey {
		return pawl.StepKey{Job: rowkey.Job(rapid.Int64Range(1, 3).Draw(t, "job")), Ord: pawl.Ord(rapid.Int64Range(0, 20).Draw(t, "ord"))}
	}), rapid.Int64Range(1, 1<<62), 0, 40).Draw(t, "entities") {
		for seq := range rapid.Int64Range(1, 4).Draw(t, "entries") {
			e := &store.Entry{}
			e.StepKey = k
			e.Entry = audit.Entry{Sequence: seq + 1, To: "enqueued", Event: "enqueue", At: rapid.Int64().Draw(t, "at"),
				Reason: text.Draw(t, "reason"), Actor: text.Draw(t, "actor"), RequestID: text.Draw(t, "request id")}
			e.Metadata = []byte(rapid.SampledFrom([]string{"", `{}`, `{"a":"\"\u0000\\ <b>"}`, "{\"a\":\"<\u2028\x7f\xff\"}"}).Draw(t, "metadata"))
			e.Seal(audit.Hash{})
			list = append(list, e)
		}
	}
	return list
}

// TestPack: packed entries come back as they were sealed, once each, and no row is long
// because of other entries (K6).
func TestPack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type key struct {
			pawl.StepKey
			seq int64
		}
		want := map[key]audit.Hash{}
		list := drawEntries(t)
		for _, e := range list {
			want[key{e.StepKey, e.Sequence}] = e.Hash
		}
		for _, row := range store.Pack(list) {
			check := func(ord pawl.Ord, e audit.Entry) {
				k := key{pawl.StepKey{Job: row.Job, Ord: ord}, e.Sequence}
				if was, ok := want[k]; !ok || e.Hash != was || ord < row.Ord {
					t.Fatalf("%+v in the row of %v: known %v", e, row.StepKey, ok)
				}
				if e.Seal(audit.Hash{}); e.Hash != want[k] {
					t.Fatalf("%+v is not what was sealed", e)
				}
				delete(want, k)
			}
			check(row.Ord, row.Entry.Entry)
			if err := store.Unpack(row.More, check); err != nil {
				t.Fatalf("%v: %s", err, row.More)
			}
			if len(row.More) > 8000 {
				t.Fatalf("a list of %d bytes", len(row.More))
			}
		}
		if len(want) > 0 {
			t.Fatalf("%d entries are lost", len(want))
		}
	})
}

// TestUnpackDamaged: a changed list is an error, has an entry that does not match its hash, or
// lacks an entry (K6).
func TestUnpackDamaged(t *testing.T) {
	t.Parallel()
	var list []*store.Entry
	for ord := range pawl.Ord(3) {
		e := &store.Entry{}
		e.StepKey = pawl.StepKey{Job: 1, Ord: ord}
		e.Entry = audit.Entry{Sequence: 1, To: "pending", Event: "create", Reason: `so "be" it`, Actor: "a", Metadata: []byte(`{"a":1}`), At: 1}
		e.Seal(audit.Hash{})
		list = append(list, e)
	}
	more := store.Pack(list)[0].More
	read := func(more []byte) (whole bool, n int, err error) {
		whole = true
		err = store.Unpack(more, func(ord pawl.Ord, e audit.Entry) {
			n++
			was := e.Hash
			e.Seal(audit.Hash{})
			whole = whole && e.Hash == was && ord == pawl.Ord(n)
		})
		return whole && n == 2, n, err
	}
	if whole, _, err := read(more); !whole || err != nil {
		t.Fatal(whole, err)
	}
	for _, bad := range []string{"", "[", "[]", "null", "{}", "[[1,2]]", "[null]", "[[", string(more) + "x", string(more) + string(more), "[" + string(more) + "]"} {
		if _, n, err := read([]byte(bad)); err == nil || n > 0 {
			t.Errorf("%q: %d entries, error %v", bad, n, err)
		}
	}
	for i := range more {
		if _, n, err := read(more[:i]); err == nil || n > 0 {
			t.Errorf("cut off at %d: %d entries, error %v", i, n, err)
		}
		for _, c := range []byte("\x00 \"\\[],0z\xff") {
			changed := slices.Clone(more)
			changed[i] = c
			if whole, _, err := read(changed); whole && err == nil && c != more[i] {
				t.Errorf("byte %d changed to %q: nobody sees it", i, c)
			}
		}
	}
}
