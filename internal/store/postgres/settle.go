package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
)

// Kinds of entities, by the names of their machines.
const (
	kindJob      = "job"
	kindStep     = "step"
	kindWorker   = "worker"
	kindSchedule = "schedule"
	kindToken    = "token"
	kindPause    = "queue_pause"
	kindWebhook  = "webhook"
)

// settlePoll is how often Settle asks whether a lost transaction is over.
const settlePoll = 10 * time.Millisecond

// lost remembers the server processes that did not confirm a commit.
type lost struct {
	mu   sync.Mutex
	pids map[uint32]bool
}

func (l *lost) add(pid uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pids == nil {
		l.pids = map[uint32]bool{}
	}
	l.pids[pid] = true
}

func (l *lost) list() []int32 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var pids []int32
	for pid := range l.pids {
		pids = append(pids, int32(pid))
	}
	return pids
}

func (l *lost) forget(pids []int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pid := range pids {
		delete(l.pids, uint32(pid))
	}
}

// Settle reports whether an entry was committed, after ErrUnknown. It ends the server
// processes that may still be committing, and waits until they are gone. It fails while the
// server cannot be reached.
func (db *DB) Settle(ctx context.Context, k store.EntityKey, e *audit.Entry) (bool, error) {
	if err := db.bury(ctx, db.lost.list()); err != nil {
		return false, err
	}
	page, err := db.Trail(ctx, k, e.Sequence-1, 1)
	return len(page) > 0 && page[0].Sequence == e.Sequence && page[0].Hash == e.Hash, err
}

const endBackends = `select count(pg_terminate_backend(pid)) from pg_stat_activity
where pid = any($1) and application_name = $2`

// bury waits for the end of the server processes.
func (db *DB) bury(ctx context.Context, pids []int32) error {
	if len(pids) == 0 {
		return nil
	}
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		var alive int64
		err := db.query(ctx, "wait for a lost transaction", endBackends, func(c *cursor) { alive = c.num() }, pids, db.application())
		if err != nil {
			return err
		}
		if alive == 0 {
			db.lost.forget(pids)
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
