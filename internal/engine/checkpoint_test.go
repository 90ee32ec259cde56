package engine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
)

func checkpoint(t *testing.T, s store.Store) []byte {
	t.Helper()
	var b bytes.Buffer
	head, err := trail.WriteCheckpoint(t.Context(), s, time.Now(), &b, t.TempDir())
	must(t, err)
	if n := int64(bytes.Count(b.Bytes(), []byte("\n"))) - 1; n != head.Leaves || n < 2 {
		t.Fatalf("%d leaves, and the header says %d", n, head.Leaves)
	}
	return b.Bytes()
}

func compare(t *testing.T, old, is []byte, s store.Store) (*trail.Comparer, []trail.Difference) {
	t.Helper()
	var found []trail.Difference
	c := &trail.Comparer{Found: func(d trail.Difference) { found = append(found, d) }}
	var err error
	c.Old, err = trail.ReadCheckpoint(bytes.NewReader(old))
	must(t, err)
	c.New, err = trail.ReadCheckpoint(bytes.NewReader(is))
	must(t, err)
	if s != nil {
		c.Row = trail.RowOf(s)
	}
	must(t, c.Run(t.Context()))
	return c, found
}

// TestK6Checkpoint: two checkpoints, or one and the database, show what was removed, put
// back or changed; normal progress does not show.
func TestK6Checkpoint(t *testing.T) {
	t.Parallel()
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: secretHandlers(10)})
		var ids []pawl.ID
		for range 3 {
			ids = append(ids, p.submit(define(t, inner), `{"secret":"x"}`))
		}
		for _, id := range ids {
			p.wait(id)
		}
		waiting := p.submit(define(t, "name: waits\nsteps: [{id: gate, approval: {prompt: x}}]\n"), "")
		p.waiting(waiting, "gate")
		old := checkpoint(t, p.store)
		if c, found := compare(t, old, checkpoint(t, p.store), p.store); len(found) > 0 || c.Same < 5 || c.Added+c.WentOn+c.Removed != 0 {
			t.Fatalf("nothing has changed: %+v, %v", c, found)
		}
		must(t, errorOf(p.engine.Approve(t.Context(), waiting, "gate", nil, ann)))
		p.wait(waiting)
		added := p.submit(define(t, inner), `{"secret":"x"}`)
		p.wait(added)
		if c, found := compare(t, old, checkpoint(t, p.store), p.store); len(found) > 0 || c.Checked < 1 || c.WentOn != 0 || c.Added != 1 {
			t.Errorf("some went on: %+v, %v", c, found)
		}
		if c, found := compare(t, old, checkpoint(t, p.store), nil); len(found) > 0 || c.WentOn < 1 || c.Checked != 0 {
			t.Errorf("two files: %+v, %v", c, found)
		}
		if _, err := p.engine.RedactJob(t.Context(), ids[0], "", because, nil); err != nil {
			t.Fatal(err)
		}
		if _, found := compare(t, old, checkpoint(t, p.store), p.store); len(found) > 0 {
			t.Errorf("a redaction: %v", found)
		}
		p.stop()
		l := &ledger{T: t, db: db, store: p.store}
		other := l.bytes(bytes.Repeat([]byte{7}, 32), false)
		for _, x := range []struct {
			what, kind string
			of         pawl.ID
			sql        []string
		}{
			{"removed with all its rows", trail.DifferenceMissing, ids[1], []string{"delete from job where id = %d", "delete from step where job = %[1]d", "delete from audit where job = %[1]d"}},
			{"set back", trail.DifferenceBack, ids[2], []string{"update job set seq = 1 where id = %d"}},
			{"hashed anew", trail.DifferenceChanged, ids[2], []string{"update job set head = " + other + " where id = %d"}},
			{"hashed anew, and gone on", trail.DifferenceChanged, waiting, []string{"update audit set hash = " + other + " where job = %d and ord = 0"}},
			{"its row removed, and gone on", trail.DifferenceMissing, waiting, []string{"delete from audit where job = %d and ord = 0"}},
		} {
			l.unpack(x.of.JobKey())
			for _, table := range []string{"job", "step", "audit"} {
				db.sql("create table was_" + table + " as select * from " + table)
			}
			for _, sql := range x.sql {
				db.sql(fmt.Sprintf(sql, x.of.JobKey()))
			}
			_, found := compare(t, old, checkpoint(t, p.store), p.store)
			if len(found) != 1 || found[0].Kind != x.kind || found[0].Entity != x.of.Public(pawl.JobPrefix) {
				t.Errorf("%s: %v, want it %s", x.what, found, x.kind)
			}
			for _, table := range []string{"job", "step", "audit"} {
				db.sql("delete from " + table)
				db.sql("insert into " + table + " select * from was_" + table)
				db.sql("drop table was_" + table)
			}
		}
		c := &trail.Comparer{Found: func(trail.Difference) {}}
		var err error
		c.Old, err = trail.ReadCheckpoint(strings.NewReader(strings.Replace(string(old), `"sequence":2`, `"sequence":3`, 1)))
		must(t, err)
		c.New, err = trail.ReadCheckpoint(bytes.NewReader(old))
		must(t, err)
		if err := c.Run(t.Context()); pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), "digest") {
			t.Errorf("an edited checkpoint: %v", err)
		}
	})
}

// formed writes leaves as a checkpoint.
func formed(t *testing.T, leaves []store.Leaf) []byte {
	t.Helper()
	var lines bytes.Buffer
	for i := range leaves {
		must(t, json.NewEncoder(&lines).Encode(&leaves[i]))
	}
	head, err := json.Marshal(pawl.Checkpoint{Version: 1, Leaves: int64(len(leaves)), Digest: fmt.Sprintf("%x", sha256.Sum256(lines.Bytes()))})
	must(t, err)
	return append(append(head, '\n'), lines.Bytes()...)
}

// TestK6CheckpointRetention: removed entities are explained as far as anchors count them.
func TestK6CheckpointRetention(t *testing.T) {
	t.Parallel()
	day := pawl.KeyAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	next := pawl.KeyAt(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC))
	leaf := func(key int64) store.Leaf {
		return store.Leaf{Kind: "job", Key: key, ID: fmt.Sprint("j_", key), Sequence: 3}
	}
	anchor := func(n, count int64, of string, head byte) store.Leaf {
		l := store.Leaf{Kind: "anchor.job", Key: n, ID: fmt.Sprintf("anchor %d of job", n), Sequence: n, Removed: &store.Removals{Day: of, Count: count}}
		l.Head[0] = head
		return l
	}
	old := []store.Leaf{anchor(1, 5, "2026-01-01", 1), leaf(day), leaf(day + 1), leaf(day + 2), leaf(next)}
	for _, x := range []struct {
		name    string
		is      []store.Leaf
		found   []string
		removed int64
	}{
		{"all there", old, nil, 0},
		{"removed by the same anchor", []store.Leaf{anchor(1, 7, "2026-01-01", 2), old[3], old[4]}, nil, 2},
		{"removed by another anchor", []store.Leaf{old[0], anchor(2, 1, "2026-01-02", 3), old[1], old[2], old[3]}, nil, 1},
		{"more than that", []store.Leaf{anchor(1, 6, "2026-01-01", 2), old[3], old[4]}, []string{"missing "}, 2},
		{"of another day", []store.Leaf{anchor(1, 9, "2026-01-01", 2), old[1], old[2], old[3]}, []string{"missing j_" + fmt.Sprint(next)}, 0},
		{"an anchor gone", old[1:], []string{"missing anchor 1 of job"}, 0},
		{"an anchor that counts less", append([]store.Leaf{anchor(1, 4, "2026-01-01", 2)}, old[1:]...), []string{"back anchor 1 of job"}, 0},
		{"an anchor hashed anew", append([]store.Leaf{anchor(1, 5, "2026-01-01", 2)}, old[1:]...), []string{"changed anchor 1 of job"}, 0},
	} {
		c, found := compare(t, formed(t, old), formed(t, x.is), nil)
		var got []string
		for _, d := range found {
			got = append(got, d.Kind+" "+d.Entity)
		}
		if fmt.Sprint(got) != fmt.Sprint(x.found) || c.Removed != x.removed {
			t.Errorf("%s: %v, %d removed; want %v, %d", x.name, found, c.Removed, x.found, x.removed)
		}
	}
}
