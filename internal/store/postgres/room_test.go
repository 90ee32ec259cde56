package postgres

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// TestSpace: pieces do not overlap, and do not grow into each other; a block is used again, is as
// long as was wanted, and not longer than is kept.
func TestSpace(t *testing.T) {
	t.Parallel()
	const most = 1000
	var s space[byte]
	fill := func(sizes ...int) {
		t.Helper()
		var pieces [][]byte
		for i, n := range sizes {
			p := s.take(n)
			if len(p) != n || cap(p) != n {
				t.Fatalf("a piece of %d bytes has %d, and room for %d", n, len(p), cap(p))
			}
			for at := range p {
				p[at] = byte(i)
			}
			pieces = append(pieces, p)
			_ = append(p, 0xff)
		}
		for i, p := range pieces {
			if !bytes.Equal(p, bytes.Repeat([]byte{byte(i)}, len(p))) {
				t.Errorf("piece %d has bytes of another one", i)
			}
		}
		s.empty(most)
	}
	fill(10, 20, 30)
	block := cap(s.block)
	if block < 60 {
		t.Errorf("a block of %d bytes is kept, want 60 at least", block)
	}
	fill(30, 20, 10)
	if first := &s.block[:1][0]; &s.take(1)[0] != first || cap(s.block) != block {
		t.Error("the block is not used again")
	}
	fill(most, 10, most)
	if cap(s.block) != most {
		t.Errorf("a block of %d bytes is kept, want %d", cap(s.block), most)
	}
}

// TestRooms: no two transactions have the same one, and one that is kept refers to nothing.
func TestRooms(t *testing.T) {
	t.Parallel()
	var l rooms
	for range maxRooms + 1 {
		l.put(new(room))
	}
	if len(l.free) != maxRooms {
		t.Errorf("%d are kept, want %d", len(l.free), maxRooms)
	}
	a, b := l.take(), l.take()
	if a == b {
		t.Fatal("two transactions have one")
	}
	for range 2 { // the first time it has no block
		found := a.job(foundRow[pawl.Job]{was: pawl.Job{Workspace: "main"}})
		if a.job(foundRow[pawl.Job]{}); found.was.Workspace != "main" {
			t.Errorf("a row is %q after another was found", found.was.Workspace)
		}
		a.step(foundRow[pawl.Step]{was: pawl.Step{Route: 7}})
		l.put(a)
		if got := l.take(); got != a {
			t.Fatal("it is not used again")
		}
	}
	if n := len(a.jobs.block) + len(a.steps.block); n != 0 || cap(a.jobs.block) < 2 || cap(a.steps.block) < 1 {
		t.Errorf("%d rows are left, with room for %d and %d", n, cap(a.jobs.block), cap(a.steps.block))
	}
	for _, f := range a.jobs.block[:cap(a.jobs.block)] {
		if f.was.Workspace != "" {
			t.Error("a row is kept")
		}
	}
	for _, f := range a.steps.block[:cap(a.steps.block)] {
		if f.was.Route != 0 {
			t.Error("a step is kept")
		}
	}
}

// TestARoomIsKeptUnlessADecisionPanics: it is used again after a commit, after one that has failed,
// and after a decision against one, whether rows were read for it or not.
func TestARoomIsKeptUnlessADecisionPanics(t *testing.T) {
	t.Parallel()
	db, d := fresh(t), &draft{now: 1}
	d.newJob(1)
	twice := &store.Changes{NewJobs: []*pawl.Job{d.NewJobs[0], d.NewJobs[0]}}
	do := func(decide func(*store.Facts) (*store.Changes, error)) error {
		defer func() { _ = recover() }()
		return db.Do(t.Context(), &store.Query{}, decide)
	}
	for _, how := range []string{"read", "optimistic"} {
		for what, ch := range map[string]*store.Changes{"nothing": nil, "a failure": twice} {
			err := do(func(*store.Facts) (*store.Changes, error) { return ch, nil })
			if (err != nil) != (ch == twice) || len(db.rooms.free) != 1 {
				t.Errorf("%s, %s: %v, and %d rooms are kept", how, what, err, len(db.rooms.free))
			}
		}
		_ = do(func(*store.Facts) (*store.Changes, error) { panic("undecided") })
		if len(db.rooms.free) != 0 {
			t.Errorf("%s: the room of a panic is kept", how)
		}
		if err := do(func(*store.Facts) (*store.Changes, error) { return &d.Changes, nil }); err != nil || len(db.rooms.free) != 1 || !db.cache.timely() {
			t.Fatalf("%s: %v, and %d rooms are kept", how, err, len(db.rooms.free))
		}
		d = &draft{now: 1}
		d.newJob(1)
	}
}

// TestParametersInAUsedRoom are the same as in new memory, whatever it has held.
func TestParametersInAUsedRoom(t *testing.T) {
	t.Parallel()
	for _, jobs := range []int{1, 40} {
		d := &draft{now: 1}
		for i := range jobs {
			d.newStep(d.newJob(rowkey.Route(i+1)), 1, 1)
		}
		written := func(room *room) (params [][][]byte) {
			r := newReading(&store.Query{})
			r.room = room
			w, err := new(DB).encode(r, &d.Changes)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range w.calls {
				params = append(params, c.params)
			}
			return params
		}
		used := &room{params: space[byte]{block: bytes.Repeat([]byte{0xff}, 1<<20)[:0]}}
		if diff := cmp.Diff(written(nil), written(used)); diff != "" {
			t.Errorf("%d jobs: (-new memory +used)\n%s", jobs, diff)
		}
		if len(used.params.block) == 0 {
			t.Errorf("%d jobs: it was not used", jobs)
		}
	}
}
