package postgres

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// An optimistic transaction is one round trip. It decides on cached rows, and writes only if
// every row still has the cached version. The narrow update of a changed row checks this; the
// other rows are verified, and locked until the commit, as if they had been read. Statements
// that are sent together are one transaction: the server commits at their end, if there was no
// error, and replies only then.

// verify returns the statement that locks rows, which must have the known version.
func verify(table string, all []column) string {
	return fmt.Sprintf("select %s from (select 1 from %s u cross join lateral (select 1 from %s k where k.xmin = u.xid%s for share) k) n",
		counted(fmt.Sprintf("$%d", len(all)+1)), given(all), table, matching(all[1:], "k"))
}

// verifyWorker does the same for one worker, the most common case.
var verifyWorker = single("verify_worker", verifyOne, "select 1 from worker k where k.xmin = u.xid and k.id = u.id for share")

var (
	verifyOne  = columns("xid xid, bigint id")
	verifyStep = columns("xid xid, bigint job, bigint ord")

	verifyWorkers = &statement{"verify_workers", verify("worker", verifyOne)}
	verifyJobs    = &statement{"verify_jobs", verify("job", verifyOne)}
	verifySteps   = &statement{"verify_steps", verify("step", verifyStep)}

	// stamp returns the version that the rows of this transaction get.
	stamped = &statement{"stamp", "select pg_current_xact_id(), " + clock}
)

// A stamp is what a commit reports about itself.
type stamp struct {
	xid  xid
	now  int64         // the database's clock
	at   time.Time     // when it arrived, by our clock
	took time.Duration // duration of the whole commit, and so the stamp's maximum age on arrival
}

func (s *stamp) read(c *cursor) { s.xid, s.now, s.at = c.xid(), c.num(), time.Now() }

// tryOptimistic runs a transaction on cached rows. It returns false if they turned out to be
// outdated or are not sufficient: nothing has happened then.
func (db *DB) tryOptimistic(ctx context.Context, r *reading, decide func(*store.Facts) (*store.Changes, error)) (done bool, err error) {
	surely := len(r.jobs)+len(r.steps)+len(r.workers)+len(r.Keys) == 0 // nothing could be outdated
	ch, err := decide(r.Facts)
	if err != nil || ch == nil {
		db.counts.rollbacks.Add(1)
		return surely, err
	}
	if len(ch.Workers) > 0 || r.unanswered(ch) { // others may hold a share lock on workers
		return false, nil
	}
	w, err := db.encode(r, ch)
	if err != nil {
		return surely, err
	}
	limited, cancel := context.WithTimeout(ctx, db.patience)
	defer cancel()
	conn, err := db.pool.Acquire(limited)
	if err != nil {
		return false, nil // the reading half reports the reason
	}
	defer conn.Release()
	if !quiet(conn.Conn().PgConn().Conn()) {
		return false, nil // a commit sent to a server that is gone would have an unknown outcome
	}
	w.condense(&db.fusedStatements)
	// Limited like a reading half: it may have to wait for locks, or on a silent connection.
	if err = db.commit(ctx, conn, nil, w, db.patience); err == nil {
		db.cache.put(r, ch, &w.stamp)
		db.running.see(w, ch)
		return true, nil
	}
	db.cache.invalidate(r.q) // the next try reads
	held := len(r.Keys) > 0 && code(err) == codeLockTimeout
	return surely || !errors.Is(err, store.ErrStale) && !held, err
}

// verifyTheWorkers queues the statements that verify the rows of workers that no narrow update
// of this writing verifies; likewise for jobs and for steps.
func (w *writing) verifyTheWorkers(f *reading) {
	if !f.optimistic {
		return
	}
	r := collect(verifyOne, len(f.workers))
	r.flat = len(f.workers) == 1
	for _, key := range slices.Sorted(maps.Keys(f.workers)) {
		r.xid(f.workers[key])
		r.num(int64(key))
	}
	if r.flat {
		w.addParts(verifyWorker, r, 1)
		return
	}
	w.verify(verifyWorkers, r)
}

func (w *writing) verifyTheJobs(f *reading) {
	if !f.optimistic && !f.recalled {
		return
	}
	r := collect(verifyOne, len(f.jobs))
	for _, key := range slices.Sorted(unverified(f.jobs)) {
		r.xid(f.jobs[key].xid)
		r.num(int64(key))
	}
	w.verify(verifyJobs, r)
}

func (w *writing) verifyTheSteps(f *reading) {
	if !f.optimistic && !f.recalled {
		return
	}
	r := collect(verifyStep, len(f.steps))
	for _, key := range slices.SortedFunc(unverified(f.steps), pawl.StepKey.Compare) {
		r.xid(f.steps[key].xid)
		r.num(int64(key.Job))
		r.num(int64(key.Ord))
	}
	w.verify(verifySteps, r)
}

// unverified returns the keys of cached rows that no update has verified: mostly very few.
func unverified[K comparable, R any](found map[K]*foundRow[R]) iter.Seq[K] {
	return func(yield func(K) bool) {
		for key, f := range found {
			if f.cached && !yield(key) {
				return
			}
		}
	}
}

func (w *writing) verify(s *statement, r *rows) {
	if r.len() > 0 {
		w.add(s, append(r.params(), num(int64(r.len())))...)
	}
}
