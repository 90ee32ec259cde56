package postgres

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// TestSilentConnections: a connection that says nothing any more holds up no
// transaction for long: it is begun anew on another one, and if there is none it
// ends with a clear word, and nothing was decided (T10).
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	h, url := pgtest.Dig(t, pgtest.URL(t))
	db := open(t, url)
	defer h.Close() // before the handle is
	submit(t, db, 1, 1)
	h.Swallow()
	db.cache.clear()
	db.patience = 5 * time.Second // for the new connection, too
	submit(t, db, 1, 1)

	// What is optimistic may have been committed, and is begun anew by whoever has
	// found out that it was not.
	h.Swallow()
	db.patience = 300 * time.Millisecond
	if err := db.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { return &store.Changes{}, nil }); !errors.Is(err, store.ErrUnknown) {
		t.Errorf("an optimistic transaction on a silent connection: %v; want an unknown outcome", err)
	}
	db.patience = 5 * time.Second
	submit(t, db, 1, 1)

	db.cache.clear()
	h.Deafen(true)
	h.Swallow()
	db.patience = 300 * time.Millisecond
	decided := false
	err := db.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { decided = true; return nil, nil })
	var e *pawl.Error
	if !errors.As(err, &e) || e.Kind != pawl.Unavailable || !strings.Contains(err.Error(), "the database does not respond") || e.Hint == "" || decided {
		t.Errorf("decided: %v, %v; want that the database does not respond, with a hint", decided, err)
	}

	h.Deafen(false)
	db.patience = time.Minute
	submit(t, db, 1, 1)
	if jobs, err := db.Jobs(t.Context(), store.JobFilter{}); err != nil || len(jobs) != 4 {
		t.Errorf("%d jobs, %v; want 4", len(jobs), err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := db.Do(ended, &store.Query{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

// TestUnansweredCommits (T10): a server that has committed and cannot say so leaves the
// outcome unknown, of one statement as of several, and never outdated: that would have it
// decided again. Settle finds what was committed.
func TestUnansweredCommits(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"fused", "long"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h, url := pgtest.Dig(t, pgtest.URL(t))
			p := &pair{T: t, a: open(t, url)}
			defer h.Close()
			do(t, p.a, &store.Query{}, func(_ *store.Facts, d *draft) { p.worker = d.newWorker() })
			p.job = running(t, p.a)
			p.q = &store.Query{Jobs: []rowkey.Job{p.job.Key()}, Watched: []rowkey.Worker{p.worker.Key()}}
			p.look(p.a)
			if !p.knows(p.a) {
				t.Fatal("it would not be optimistic")
			}
			h.Mute()
			p.a.patience = time.Second
			var entry store.Entry
			decided := 0
			err := try(p.a, p.q, func(f *store.Facts, d *draft) {
				decided++
				f.Jobs[p.job.Key()].Active++
				p.keep(f, d)
				if kind == "long" {
					for range fewRows + 1 {
						d.newStep(f.Jobs[p.job.Key()], 3+len(d.NewSteps), 1)
					}
				}
				entry = d.Entries[0]
			})
			if !errors.Is(err, store.ErrUnknown) || decided != 1 || len(p.a.fusedStatements.all) != map[string]int{"fused": 1}[kind] {
				t.Fatalf("decided %d times, %d fused statements, %v; want once, and an unknown outcome", decided, len(p.a.fusedStatements.all), err)
			}
			p.a.patience = time.Minute
			if got, err := p.a.Settle(t.Context(), entry.EntityKey, &entry.Entry); err != nil || !got {
				t.Errorf("settled as %v, %v; want that it was committed", got, err)
			}
			if n := p.look(p.a); n != 1 {
				t.Errorf("decided %d times afterwards, want once", n)
			}
			if j, err := p.a.Job(t.Context(), p.job.Key()); err != nil || j.Active != 3 {
				t.Errorf("counted to %d, %v; want 3", j.Active, err)
			}
		})
	}
}
