package postgres

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
)

// TestSharedValuesAreSentOnce: of a column in which all rows are the same the parameter is the value,
// of any other the array that it would be without that; long texts are not compared.
func TestSharedValuesAreSentOnce(t *testing.T) {
	t.Parallel()
	cs := columns("bigint id, bigint shared, text name, text same, bytea null, bytea first, text last, text long, bool flag")
	long := strings.Repeat("x", longest+1)
	fill := func(r *rows) {
		for i := range 3 {
			r.num(int64(i))
			r.num(7)
			r.text(fmt.Sprint("name ", i/2))
			r.body([]byte("\x01same"))
			r.null()
			if i == 0 {
				r.null()
				r.text("")
			} else {
				r.blob([]byte{})
				r.body([][]byte{nil, []byte(""), nil}[i])
			}
			r.text(long)
			r.flag(true)
		}
	}
	plain, picked := collect(cs, 3), collect(cs, 1)
	picked.pick = true
	fill(plain)
	fill(picked)
	arrays := plain.params()
	same := picked.alike()
	got := picked.split(same)
	want := map[string][]byte{"shared": num(7), "same": []byte(storable("\x01same")), "null": nil, "flag": {1}}
	for i, c := range cs {
		value, shared := want[c.name]
		switch {
		case shared != same.has(i):
			t.Errorf("%s is shared: %t", c.name, same.has(i))
		case shared && !bytes.Equal(got[i], value):
			t.Errorf("%s is %q, want %q", c.name, got[i], value)
		case !shared && !bytes.Equal(got[i], arrays[i]):
			t.Errorf("%s is %q, want %q", c.name, got[i], arrays[i])
		}
	}
	if diff := cmp.Diff(arrays, picked.params()); diff != "" {
		t.Errorf("as arrays after all (-want +got):\n%s", diff)
	}
}

// TestRowsThatAreTheSame: one column remains an array, whose length is the number of rows.
func TestRowsThatAreTheSame(t *testing.T) {
	t.Parallel()
	r := collect(columns("bigint a, bigint b"), 2)
	r.pick = true
	for range 2 {
		r.num(1)
		r.num(2)
	}
	same := r.alike()
	got := r.split(same)
	if diff := cmp.Diff([][]byte{num(1), nums([]int64{2, 2})}, got); diff != "" || same != 1 {
		t.Errorf("columns %b have a value (-want +got):\n%s", same, diff)
	}
}

// TestTooManyStatementsForSharedValues: rows that would need another one use the known one that sends
// most values, or none.
func TestTooManyStatementsForSharedValues(t *testing.T) {
	t.Parallel()
	ids := make([]pawl.ID, fewRows+4)
	for i := range ids {
		ids[i] = newID()
	}
	usual, full := fresh(t), fresh(t)
	full.alikeStatements.all = make(map[alikeKey]*statement)
	for i := range maxAlike {
		full.alikeStatements.all[alikeKey{same: columnSet(i)}] = new(statement)
	}
	for _, db := range []*DB{usual, full} {
		writeBatch(t, db, ids, 0, batches["of two workflows"])
	}
	key := alikeKey{newJobs, 0b110}
	full.alikeStatements.all = map[alikeKey]*statement{key: {}, {newJobs, 0b10}: {}, {newJobs, 0b1110000}: {}, {newSteps, 0b100}: {}}
	for i := range maxAlike - 4 {
		full.alikeStatements.all[alikeKey{same: columnSet(i)}] = new(statement)
	}
	if s, same := full.alikeStatements.of(newJobs, 0b10110); s != full.alikeStatements.all[key] || same != key.same {
		t.Errorf("the nearest set is %b, want %b", same, key.same)
	}
	if n := len(usual.alikeStatements.all); n < 3 {
		t.Errorf("%d statements are for shared values, want those of jobs, steps and entries", n)
	}
	if n := len(full.alikeStatements.all); n != maxAlike {
		t.Errorf("%d statements, want %d", n, maxAlike)
	}
	if diff := cmp.Diff(contents(t, usual), contents(t, full)); diff != "" {
		t.Errorf("-values +arrays:\n%s", diff)
	}
}

// TestNamesOfAlikeStatements: they are not those of other statements. A connection prepares each by
// its name, and the server refuses a second one.
func TestNamesOfAlikeStatements(t *testing.T) {
	t.Parallel()
	var b alikeStatements
	for n := 1; n <= fewEntries; n++ {
		if s, _ := b.of(newEntries, columnSet(n)); s.name == newFewEntries[n].alone.name {
			t.Errorf("%s is the name of two statements", s.name)
		}
	}
}
