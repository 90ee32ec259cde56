package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trouble"
)

const (
	// tendEvery is how often a session that holds names is checked: this notices a cut
	// connection without a message to the server.
	tendEvery = time.Second

	// pingAfter is how long a session may be unused before the server is asked.
	pingAfter = 5 * time.Second
)

// sessionLimit bounds the end of the session, and the ping of another connection.
const sessionLimit = 5 * time.Second

// A session is one connection outside the pool, for what must never wait behind a transaction:
// the names that this handle holds, and beats. When it breaks it is reopened and every name is
// taken again.
type session struct {
	db   *DB
	done chan struct{} // closed to end the keeper
	over chan struct{} // closed when the keeper has ended

	mu   sync.Mutex // held during every use of conn
	conn *pgx.Conn  // nil until first used, and after it broke
	held map[string][]byte
	gone bool
	used time.Time // when the server last replied

	lacking map[string]bool // held names whose lock was lost with a connection
}

func newSession(db *DB) *session {
	s := &session{db: db, done: make(chan struct{}), over: make(chan struct{}), held: map[string][]byte{}, lacking: map[string]bool{}}
	go s.keep()
	return s
}

// keep reopens a broken session while names are held.
func (s *session) keep() {
	defer close(s.over)
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	log := trouble.New(s.db.log, "the session that holds names is broken; it is opened again", "the session that holds names is open again")
	for {
		select {
		case <-s.done:
			return
		case <-tick.C:
			if !s.holds() {
				log.Forget()
			} else if err := s.tend(); !errors.Is(err, errClosed) {
				log.Note(err)
			}
		}
	}
}

func (s *session) tend() error {
	if !s.needy() {
		return nil
	}
	return s.use(context.Background(), func(ctx context.Context, conn *pgx.Conn) error {
		if len(s.lacking) > 0 {
			s.retake(ctx)
		}
		return conn.Ping(ctx)
	})
}

// holds reports whether names are held.
func (s *session) holds() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held) > 0
}

// needy reports whether names that are held may be lost, as far as is known.
func (s *session) needy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	//lint:ignore SA1019 Ping is a round trip; this looks at the socket only, and use pings what has rested
	return len(s.lacking) > 0 || s.conn == nil || s.conn.IsClosed() || s.conn.PgConn().CheckConn() != nil || time.Since(s.used) >= pingAfter
}

var errClosed = pawl.Errorf(pawl.Unavailable, "the database handle is closed")

// use runs f on the connection, and once more on a new one if it was broken. A context that
// ends does not interrupt f: that would break the connection and free every name. If f takes
// longer than an attempt may, including connecting, it breaks the connection, and the next use
// has a new one.
func (s *session) use(ctx context.Context, f func(context.Context, *pgx.Conn) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return errClosed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), health.Attempt(s.db.silence))
	defer cancel()
	for attempt := 1; ; attempt++ {
		if err := s.open(ctx); err != nil {
			return inTime(ctx, err)
		}
		err := f(ctx, s.conn)
		if err == nil {
			s.used = time.Now()
		}
		if err == nil || !s.conn.IsClosed() || attempt == 2 || ctx.Err() != nil {
			return inTime(ctx, err)
		}
	}
}

// inTime makes the error of an attempt that has taken too long one of kind Unavailable: the limit
// is not the caller's.
func inTime(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || pawl.KindOf(err) != pawl.Internal {
		return err
	}
	return &pawl.Error{Kind: pawl.Unavailable, Message: "the database does not respond", Err: err}
}

// open connects unless there is a connection, and takes the held names again. The server may
// not know yet that the previous connection has ended: open tells it.
func (s *session) open(ctx context.Context) error {
	if s.conn != nil && !s.conn.IsClosed() {
		return nil
	}
	conn, err := s.db.dial(ctx)
	if err != nil {
		return err
	}
	if s.conn != nil {
		_, err := conn.Exec(ctx, "select pg_terminate_backend(pid, 1000) from pg_stat_activity where pid = $1 and application_name = $2",
			int32(s.conn.PgConn().PID()), s.db.application())
		if err != nil {
			s.db.log.Warn("the session before could not be ended", "error", err)
		}
	}
	s.conn = conn
	s.db.running.forget() // it may not be the database that reported them
	for name := range s.held {
		s.lacking[name] = true
	}
	s.retake(ctx)
	return nil
}

// retake takes the names that were lost with a connection. A name that another process has
// taken meanwhile is retried with every tick.
func (s *session) retake(ctx context.Context) {
	for name := range s.lacking {
		if err := s.db.take(ctx, s.conn, name, s.held[name]); err != nil {
			s.db.log.Error("a name could not be taken again after the connection broke", "name", name, "error", err)
			continue
		}
		delete(s.lacking, name)
	}
}

// stop closes the connection, which frees every name.
func (s *session) stop() {
	close(s.done)
	<-s.over
	ctx, cancel := context.WithTimeout(context.Background(), sessionLimit)
	defer cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = true
	if s.conn == nil {
		return
	}
	if len(s.held) > 0 {
		// The server would notice the end of the connection a moment later.
		_, _ = s.conn.Exec(ctx, "delete from hold where pid = pg_backend_pid(); select pg_advisory_unlock_all()")
	}
	_ = s.conn.Close(ctx)
}

// dial opens a connection outside the pool. Its small writes do not wait for the disk: a beat
// or a note that is lost in a crash is written again.
func (db *DB) dial(ctx context.Context) (*pgx.Conn, error) {
	return db.cfg.one(ctx, func(c *pgx.ConnConfig) {
		db.tune(c)
		c.RuntimeParams["synchronous_commit"] = "off"
	})
}

// lockKey is the advisory lock of a name; names of other schemas differ.
const lockKey = "hashtextextended(current_schema() || '/' || $1::text, 7061776)"

// take takes the lock of a name, or returns a *store.HeldError.
func (db *DB) take(ctx context.Context, conn *pgx.Conn, name string, note []byte) error {
	var ok bool
	if err := conn.QueryRow(ctx, "select pg_try_advisory_lock("+lockKey+")", storable(name)).Scan(&ok); err != nil {
		return queryError("hold "+name, err)
	}
	if ok {
		_, err := conn.Exec(ctx, `insert into hold (name, note, pid, at) values ($1, $2, pg_backend_pid(), `+clock+`)
			on conflict (name) do update set note = excluded.note, pid = excluded.pid, at = excluded.at`, storable(name), append([]byte{}, note...))
		if err != nil { // the server counts how often the lock was taken
			_, _ = conn.Exec(ctx, "select pg_advisory_unlock("+lockKey+")", storable(name))
		}
		return queryError("note who holds "+name, err)
	}
	held := &store.HeldError{Name: name}
	err := conn.QueryRow(ctx, "select note from hold where name = $1", storable(name)).Scan(&held.Note)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return queryError("read who holds "+name, err)
	}
	return held
}

// Hold takes a name for the life of this handle's process, or until release.
func (db *DB) Hold(ctx context.Context, name string, note []byte) (func(), error) {
	s := db.session
	err := s.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if own, ok := s.held[name]; ok {
			return &store.HeldError{Name: name, Note: own}
		}
		if err := db.take(ctx, conn, name, note); err != nil {
			return err
		}
		s.held[name] = append([]byte{}, note...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { db.release(name) }), nil
}

func (db *DB) release(name string) {
	s := db.session
	s.mu.Lock()
	delete(s.held, name)
	delete(s.lacking, name)
	s.mu.Unlock()
	err := s.use(context.Background(), func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "with gone as (delete from hold where name = $1 and pid = pg_backend_pid()) select pg_advisory_unlock("+lockKey+")", storable(name))
		return err
	})
	if err != nil && !errors.Is(err, errClosed) {
		db.log.Warn("a name could not be released", "name", name, "error", err)
	}
}
