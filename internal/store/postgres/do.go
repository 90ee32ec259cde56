package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

const (
	// readAttempts bounds how often the reading half is retried after a deadlock or on a dead
	// connection.
	readAttempts = 8
	// readLimit bounds each try: a connection may be silent although it is not cut, and locks
	// may be held forever. After a try that took this long there is no further one.
	readLimit = 30 * time.Second
	maxSilent = 2
	// writeLimit bounds the writing half, which the caller's context does not interrupt: a
	// decision that was made is committed.
	writeLimit = time.Minute
)

// Do runs one write transaction; see store.Ledger.
func (db *DB) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(q.Pools) == 0 { // pools are waited for without holding anything
		if err := db.cache.reserve(ctx, q.Jobs); err != nil {
			return err
		}
		defer db.cache.release(q.Jobs)
	}
	if r := db.cache.find(q, &db.rooms); r != nil && ctx.Err() == nil {
		done, err := db.tryOptimistic(ctx, r, decide)
		db.rooms.put(r.room)
		if done {
			return err
		}
	}
	outdated, err := db.transact(ctx, q, decide)
	if outdated {
		db.cache.invalidate(q) // so that the next try reads
		_, err = db.transact(ctx, q, decide)
	}
	return err
}

// transact reads, decides, writes and commits. It returns true if nothing has happened because
// rows that were recalled are outdated.
func (db *DB) transact(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) (outdated bool, err error) {
	conn, facts, err := db.begin(ctx, q)
	if err != nil {
		return errors.Is(err, store.ErrStale), err
	}
	// If decide panics, the connection is released within a transaction; the pool then closes
	// it. The room is not used again then.
	defer conn.Release()
	outdated, err = db.decideAndCommit(ctx, conn, facts, decide)
	db.rooms.put(facts.room)
	return outdated, err
}

// decideAndCommit ends the transaction that has read the facts.
func (db *DB) decideAndCommit(ctx context.Context, conn *pgxpool.Conn, facts *reading, decide func(*store.Facts) (*store.Changes, error)) (outdated bool, err error) {
	ch, err := decide(facts.Facts)
	if err != nil || ch == nil {
		db.giveUp(ctx, conn, facts)
		return facts.recalled, err
	}
	w, err := db.encode(facts, ch)
	if err != nil {
		db.giveUp(ctx, conn, facts)
		return false, err
	}
	if err = db.commit(ctx, conn, facts.pipe, w, writeLimit); err == nil {
		db.cache.put(facts, ch, &w.stamp)
		db.running.see(w, ch)
	}
	return facts.recalled && mayBeOutdated(err), err
}

// mayBeOutdated reports whether rows that were recalled may have caused an error of a write.
func mayBeOutdated(err error) bool {
	return errors.Is(err, store.ErrStale) || code(err) == codeLockTimeout
}

// begin opens a transaction and reads what q asks for. A failure here comes before decide is called
// and is retried; what was decided early is discarded.
func (db *DB) begin(ctx context.Context, q *store.Query) (*pgxpool.Conn, *reading, error) {
	silent := 0
	for attempt := 1; ; attempt++ {
		limited, cancel := context.WithTimeout(ctx, db.patience)
		conn, facts, err := db.tryBegin(limited, q, q.Early != nil && ctx.Done() == nil)
		timedOut := limited.Err() != nil && ctx.Err() == nil
		if cancel(); timedOut {
			silent++
		}
		if err == nil {
			return conn, facts, nil
		}
		var unmade *pawl.Error // there is no connection
		again := timedOut || (clash(err) || severed(err)) && !errors.As(err, &unmade)
		if again {
			db.distrust(ctx, err)
		}
		switch {
		case timedOut && silent == maxSilent:
			return nil, nil, &pawl.Error{
				Kind: pawl.Unavailable, Message: fmt.Sprintf("the database does not respond: twice nothing came for %s", db.patience),
				Hint: "check the network to its server, and with pawl doctor who holds a lock", Err: err,
			}
		case !again || attempt == readAttempts || ctx.Err() != nil:
			return nil, nil, queryError("read a transaction", err)
		}
	}
}

func (db *DB) tryBegin(ctx context.Context, q *store.Query, early bool) (*pgxpool.Conn, *reading, error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, nil, connectError(err)
	}
	kept := false
	defer func() {
		if !kept { // also if an early decision panics: the pool then closes the connection
			conn.Release()
		}
	}()
	facts, err := db.read(ctx, conn.Conn().PgConn(), q, early)
	if err == nil {
		kept = true
		return conn, facts, nil
	}
	if !severed(err) {
		db.rollback(ctx, conn)
	}
	return nil, nil, err
}

// distrust closes the idle connections after one was found dead: most likely the server went
// away under all of them.
func (db *DB) distrust(ctx context.Context, err error) {
	if severed(err) && ctx.Err() == nil {
		db.pool.Reset()
		db.lookups.Reset()
		db.cache.clear()
	}
}

// rollback ends the transaction and frees its locks.
func (db *DB) rollback(ctx context.Context, conn *pgxpool.Conn) {
	db.counts.rollbacks.Add(1)
	if idle(conn) { // the server has ended it
		return
	}
	p := db.pipe(conn)
	p.add(rollback, nil)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	if err := p.run(ctx); err != nil {
		// The pool closes a connection that is still in a transaction.
		db.log.Warn("rollback failed", "error", err)
	}
}

// giveUp ends a transaction without a commit.
func (db *DB) giveUp(ctx context.Context, conn *pgxpool.Conn, facts *reading) {
	if facts.pipe != nil {
		_ = facts.pipe.within(writeLimit, facts.pipe.close) // rollback finds what is wrong
	}
	db.rollback(ctx, conn)
}

// commit writes and commits, within the limit, on the pipe p if one is under way. It remembers a
// connection lost meanwhile, so that Settle can wait for its end.
func (db *DB) commit(ctx context.Context, conn *pgxpool.Conn, p *pipe, w *writing, limit time.Duration) error {
	tag := pgconn.NewCommandTag("COMMIT")
	if p == nil {
		p = db.pipe(conn)
	}
	w.queue(p)
	if !w.optimistic {
		p.addTagged(commit, &tag)
	}
	if w.fused && db.spare {
		p.soon = &db.awaiting
	}
	begun := time.Now()
	err := p.runWithin(limit)
	w.stamp.took = time.Since(begun)
	switch {
	case err == nil && tag.String() == "COMMIT" && idle(conn):
		db.counts.commits.Add(1)
		db.counts.inserts.Add(w.inserts)
		db.counts.updates.Add(w.updates)
		db.counts.entries.Add(w.entries)
		return nil
	case err == nil:
		return queryError("commit a transaction, which ended with "+tag.String(), errAborted)
	case severed(err):
		db.lost.add(conn.Conn().PgConn().PID())
		db.distrust(context.WithoutCancel(ctx), err)
	default:
		db.rollback(ctx, conn)
	}
	return writeError(err)
}

// idle reports whether a connection is in no transaction.
func idle(conn *pgxpool.Conn) bool { return conn.Conn().PgConn().TxStatus() == 'I' }

func (db *DB) pipe(conn *pgxpool.Conn) *pipe {
	return &pipe{conn: conn.Conn().PgConn(), log: db.log, faults: &db.faults}
}
