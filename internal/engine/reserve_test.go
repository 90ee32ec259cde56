package engine_test

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// TestReservations: reserved slots count as taken, so a job waits for them; it starts once
// they are released. What is there is never given twice (J4, J7).
func TestReservations(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}, capacity: 4})
		p.limit("depth/0", 3)
		ctx := t.Context()
		var given atomic.Int64
		var ids [8]pawl.ReservationView
		var wg sync.WaitGroup
		for i := range ids {
			wg.Go(func() {
				r, err := p.engine.Reserve(ctx, "", 0, 1, time.Hour, note("busy"))
				switch {
				case err == nil:
					ids[i] = r
					given.Add(1)
				case pawl.KindOf(err) != pawl.Conflict:
					t.Errorf("reserve: %v", err)
				}
			})
		}
		wg.Wait()
		if given.Load() != 3 || p.usage()["depth/0"] != 3 {
			t.Fatalf("%d of 3 slots were given, and %d are taken", given.Load(), p.usage()["depth/0"])
		}
		job := p.submit(define(t, "name: one\nworkers: 1\nsteps: [{id: a, handler: h}]\n"), "")
		behind := p.submit(define(t, "name: two\nworkers: 1\nsteps: [{id: a, handler: h}]\n"), "")
		reasons, err := p.engine.Why(ctx, job, "")
		if err != nil || len(reasons) == 0 {
			t.Fatalf("why the job waits: %v, %v", reasons, err)
		}
		for _, r := range ids {
			if r.ID == "" {
				continue
			}
			id, err := pawl.ParseID(pawl.ReservationPrefix, r.ID)
			must(t, err)
			c := note("done")
			c.RequestID = r.ID
			for range 2 { // the second is replayed
				if got, err := p.engine.Release(ctx, "", id, c); err != nil || got.ID != r.ID {
					t.Errorf("release: %+v, %v", got, err)
				}
			}
			if _, err := p.engine.Release(ctx, "", id, note("again")); pawl.KindOf(err) != pawl.NotFound {
				t.Errorf("released twice: %v, want NotFound", err)
			}
		}
		for _, id := range []pawl.ID{job, behind} {
			if v := p.wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("a job is %s (%v)", v.Status, v.Error)
			}
		}
		p.unused()
	})
}

// TestReservationsExpire: one that is not released gives its slots back in time.
func TestReservationsExpire(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}, capacity: 4})
		p.limit("depth/0", 1)
		r, err := p.engine.Reserve(t.Context(), "", 0, 1, time.Second, note("busy"))
		must(t, err)
		v := p.wait(p.submit(define(t, "name: one\nworkers: 1\nsteps: [{id: a, handler: h}]\n"), ""))
		if v.Status != lifecycle.JobCompleted || v.StartedAt < r.ExpiresAt {
			t.Errorf("the job is %s, started %s, before the reservation expired at %s", v.Status, v.StartedAt, r.ExpiresAt)
		}
	})
}

// TestReservationFaults: each names its field, and reserves nothing.
func TestReservationFaults(t *testing.T) {
	t.Parallel()
	db := &database{t: t, kind: "sqlite", where: filepath.Join(t.TempDir(), "pawl.db")}
	p := start(t, db.open(), setup{})
	for _, tt := range []struct {
		depth, slots int
		ttl          time.Duration
		says         string
	}{
		{-1, 1, time.Second, "depth: -1: want 0 to 5"},
		{6, 1, time.Second, "depth: 6: want 0 to 5"},
		{0, 0, time.Second, "worker_count: 0: want 1 to 10"},
		{0, 11, time.Second, "worker_count: 11: want 1 to 10"},
		{0, 1, 0, "ttl_s: 0s: want 1 to 3600 seconds"},
		{0, 1, time.Hour + time.Second, "ttl_s: 1h0m1s: want 1 to 3600 seconds"},
		{0, 1, 1500 * time.Millisecond, "ttl_s: 1.5s: want 1 to 3600 seconds"},
	} {
		_, err := p.engine.Reserve(t.Context(), "", tt.depth, tt.slots, tt.ttl, note("x"))
		if pawl.KindOf(err) != pawl.Invalid || err.Error() != tt.says {
			t.Errorf("depth %d, %d slots, %s: %v, want %q", tt.depth, tt.slots, tt.ttl, err, tt.says)
		}
	}
}
