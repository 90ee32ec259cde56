package postgres

import (
	"context"
	"testing"
	"time"
)

// freeze has a vacuum freeze every row of the tables.
func freeze(t *testing.T, db *DB, tables ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, table := range tables {
		for frozen := false; !frozen; { // a snapshot that is open at the moment keeps it from that
			if _, err := db.pool.Exec(ctx, "vacuum (freeze, disable_page_skipping) "+table); err != nil {
				t.Fatal(err)
			}
			err := db.pool.QueryRow(ctx, "select not exists (select from "+table+" where age(xmin) <= age(relfrozenxid)) from pg_class where oid = $1::regclass", table).Scan(&frozen)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestAFrozenRowIsStillKnown: a vacuum that freezes rows changes none: what is known of
// them is decided on, once, and what another process has written since is seen (K5).
func TestAFrozenRowIsStillKnown(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	freeze(t, p.a, "job", "step", "worker")
	if !p.knows(p.a) {
		t.Fatal("what was read and written is not known")
	}
	if n := p.look(p.a); n != 1 {
		t.Errorf("decided %d times on frozen rows that nobody has changed, want once", n)
	}
	p.look(p.b)
	freeze(t, p.a, "job", "step", "worker")
	if n := p.look(p.a); n != 2 {
		t.Errorf("decided %d times on a row that another process has written, and that was frozen since, want twice", n)
	}
	j, err := p.b.Job(t.Context(), p.job.Key())
	if err != nil || j.Active != 4 {
		t.Errorf("the job has counted %d transactions, want 4: %v", j.Active, err)
	}
}
