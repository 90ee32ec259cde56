package postgres

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/store"
)

// Kinds of entities, by the names of their machines.
const (
	kindJob      = "job"
	kindStep     = "step"
	kindWorker   = "worker"
	kindSchedule = "schedule"
)

// settlePoll is how often Settle asks whether a lost transaction is over.
const settlePoll = 10 * time.Millisecond

// lost remembers the server processes whose commit was not answered.
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

// Settle tells whether an entry was committed, after ErrUnknown. It ends the
// server processes that may still be at it, and waits until they are gone. It
// fails while the server cannot be reached.
func (db *DB) Settle(ctx context.Context, k store.EntityKey, e *audit.Entry) (bool, error) {
	if err := db.bury(ctx, db.lost.list()); err != nil {
		return false, err
	}
	sql, args := "select hash from audit where seq = $1 and job = $2 and ord = $3", []any{e.Sequence, k.Job, int64(k.Ord)}
	if longLived(k.Kind) {
		sql, args = fmt.Sprintf("select hash from %s_audit where seq = $1 and %[1]s = $2", k.Kind), args[:2]
	}
	var found bool
	err := db.query(ctx, "look an audit entry up", sql, func(c *cursor) { found = bytes.Equal(c.next(), e.Hash[:]) }, args...)
	return found, err
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

func (db *DB) application() string { return "pawl " + db.handle }
