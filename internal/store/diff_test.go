package store_test

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// TestDiff: whatever the record before, what is read is what was written, in every field that is
// stored, and a record like the one before takes a byte.
func TestDiff(t *testing.T) {
	t.Parallel()
	testDiff(t, store.Jobs)
	testDiff(t, store.Steps)
	testDiff(t, store.Workers)
}

func testDiff[R any](t *testing.T, table *store.Table[R]) {
	t.Helper()
	records := []*R{new(R), filled[R]()}
	for _, before := range records {
		for _, r := range records {
			p := &store.Parcel{Rest: table.AppendDiff(nil, r, before)}
			if r == before && len(p.Rest) != 1 {
				t.Errorf("%s: the same takes %d bytes", table.Name, len(p.Rest))
			}
			got := table.ReadDiff(p, before)
			if p.Err != nil || len(p.Rest) != 0 {
				t.Errorf("%s: %v, and %d bytes are left", table.Name, p.Err, len(p.Rest))
			}
			if diff := cmp.Diff(r, got); diff != "" {
				t.Errorf("%s: %s", table.Name, diff)
			}
		}
	}
}

// filled returns a record none of whose fields is zero.
func filled[R any]() *R {
	r := new(R)
	for _, path := range fieldsOf(reflect.TypeFor[R]()) {
		setField(reflect.ValueOf(r).Elem().FieldByIndex(path))
	}
	return r
}

// FuzzReadDiff: bytes that nobody has written are read, or refused, without a panic.
func FuzzReadDiff(f *testing.F) {
	f.Add(store.Jobs.AppendDiff(nil, filled[pawl.Job](), new(pawl.Job)))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &store.Parcel{Rest: b}
		if store.Jobs.ReadDiff(p, new(pawl.Job)); p.Err != nil && p.Rest != nil {
			t.Error("what follows a fault is read")
		}
	})
}
