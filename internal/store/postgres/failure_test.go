package postgres

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// execute runs SQL on the database of db, as whoever looks after a database does.
func execute(t testing.TB, db *DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.pool.Exec(context.Background(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// TestUnknownOutcome: the connection breaks while the commit is on its way.
// Settle ends what is still running and tells what became of it (T10).
func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		committed bool
		trigger   string // when the server loses the connection
	}{
		"before the commit": {false, "create constraint trigger lose after insert on job deferrable initially deferred for each row execute function lose()"},
		"long before":       {false, "create trigger lose before insert on job for each row execute function lose()"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := fresh(t)
			execute(t, db, "create function lose() returns trigger language plpgsql as $$ begin perform pg_terminate_backend(pg_backend_pid()); perform pg_sleep(1); return new; end $$")
			execute(t, db, tt.trigger)
			var entry store.Entry
			err := try(db, &store.Query{}, func(_ *store.Facts, d *draft) {
				d.newJob(1)
				entry = d.Entries[1]
			})
			if !errors.Is(err, store.ErrUnknown) {
				t.Fatalf("got %v, want ErrUnknown", err)
			}
			if got, err := db.Settle(t.Context(), entry.EntityKey, &entry.Entry); err != nil || got != tt.committed {
				t.Errorf("settled as %v, %v, want %v", got, err, tt.committed)
			}
			if left := db.lost.list(); len(left) != 0 {
				t.Errorf("%v are still waited for", left)
			}
		})
	}
}

// TestSettleWaitsForTheLostTransaction: a server process that does not know yet
// that its client is gone must not commit after Settle has said no.
func TestSettleWaitsForTheLostTransaction(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	execute(t, db, "create function dawdle() returns trigger language plpgsql as $$ begin perform pg_sleep(20); return new; end $$")
	execute(t, db, "create trigger dawdle before insert on job for each row execute function dawdle()")
	var entry store.Entry
	sent, over := make(chan uint32, 1), make(chan error, 1)
	go func() {
		conn, facts, err := db.begin(context.Background(), &store.Query{})
		if err != nil {
			over <- err
			return
		}
		defer conn.Release()
		d := &draft{now: facts.Now}
		d.newJob(1)
		entry = d.Entries[0]
		w, _ := db.encode(facts, &d.Changes)
		ctx := context.Background()
		sent <- conn.Conn().PgConn().PID()
		go func() {
			await(t, db, "select exists (select 1 from pg_stat_activity where pid = $1 and wait_event = 'PgSleep')", int32(conn.Conn().PgConn().PID()))
			conn.Conn().PgConn().Conn().Close() // the network fails
		}()
		over <- db.commit(ctx, conn, nil, w, writeLimit)
	}()
	pid := <-sent
	if err := <-over; !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("got %v, want ErrUnknown", err)
	}
	if got, err := db.Settle(t.Context(), entry.EntityKey, &entry.Entry); err != nil || got {
		t.Errorf("settled as %v, %v, want false", got, err)
	}
	var alive bool
	if err := db.pool.QueryRow(t.Context(), "select exists (select 1 from pg_stat_activity where pid = $1)", int32(pid)).Scan(&alive); err != nil || alive {
		t.Errorf("the lost transaction is still running (%v)", err)
	}
}

// TestSettleFindsWhatWasCommitted looks entries up by entity, sequence and hash.
func TestSettleFindsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	var entries []store.Entry
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		d.newStep(d.newJob(1), 1, 1)
		d.newWorker()
		d.newSchedule("s")
		entries = d.Entries
	})
	for _, e := range entries {
		if got, err := db.Settle(t.Context(), e.EntityKey, &e.Entry); err != nil || !got {
			t.Errorf("%v: %v, %v", e.EntityKey, got, err)
		}
		e.Hash[0]++
		if got, err := db.Settle(t.Context(), e.EntityKey, &e.Entry); err != nil || got {
			t.Errorf("%v with another hash: %v, %v", e.EntityKey, got, err)
		}
	}
}

// await polls until the query returns true.
func await(t testing.TB, db *DB, sql string, args ...any) {
	conn, err := pgx.Connect(context.Background(), db.cfg.URL)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(context.Background())
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(15 * time.Second)
	for {
		var ok bool
		if err := conn.QueryRow(context.Background(), sql, args...).Scan(&ok); err != nil || ok {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Errorf("waited in vain for %s", sql)
			return
		}
	}
}

// TestDeadConnectionsAreReplaced: a server that restarted costs nobody an error.
func TestDeadConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	for range 3 {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { submit(t, db, 1, 1) })
		}
		wg.Wait()
		if err := killAll(db); err != nil {
			t.Fatal(err)
		}
	}
	submit(t, db, 1, 1)
}

func killAll(db *DB) error {
	conn, err := pgx.Connect(context.Background(), db.cfg.URL)
	if err != nil {
		return err
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = $1", db.application())
	return err
}

// TestDeadlocksAreTriedAgain: a reading that the server gives up for the sake of
// another transaction is begun anew (T10).
func TestDeadlocksAreTriedAgain(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	jobs := submit(t, db, 2, 1)
	a, b := jobs[0].Key(), jobs[1].Key()
	ctx := context.Background()
	tx, err := db.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	lock := "select 1 from job where id = $1 for update"
	if _, err := tx.Exec(ctx, lock, b); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		// Takes a, waits for b.
		done <- db.Do(ctx, &store.Query{Jobs: []rowkey.Job{a, b}}, func(*store.Facts) (*store.Changes, error) { return nil, nil })
	}()
	await(t, db, "select exists (select 1 from pg_locks where not granted)")
	// This one waits for a, and does not look for deadlocks itself.
	if _, err := tx.Exec(ctx, "set local deadlock_timeout = '60s'"); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, lock, a); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("got %v, want success after the other", err)
	}
}

// TestAKeyThatStaysTaken: a transaction waits for one that has taken its key only for a
// moment, and the limit is for that wait alone (J8).
func TestAKeyThatStaysTaken(t *testing.T) {
	t.Parallel()
	ctx, db := t.Context(), fresh(t)
	holder, err := pgx.Connect(ctx, db.cfg.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close(context.Background())
	tx, err := holder.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, takeFrom(someKeys), []string{"w"}, []string{"k"}); err != nil {
		t.Fatal(err)
	}
	q := &store.Query{Keys: []store.IdempotencyKey{{Workspace: "w", Key: "k"}}}
	look := func() (isNew bool, err error) {
		err = db.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) { isNew = f.Keys[q.Keys[0]].New; return nil, nil })
		return isNew, err
	}
	began := time.Now()
	if _, err := look(); !errors.Is(err, store.ErrKeyHeld) || pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("got %v, want ErrKeyHeld", err)
	}
	if took := time.Since(began); took < 400*time.Millisecond {
		t.Errorf("it waited only %s", took)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if isNew, err := look(); err != nil || !isNew {
		t.Errorf("afterwards: new %t, %v", isNew, err)
	}
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	if _, err := db.read(ctx, conn.Conn().PgConn(), q, false); err != nil {
		t.Fatal(err)
	}
	var limit string
	if err := conn.QueryRow(ctx, "show lock_timeout").Scan(&limit); err != nil || limit != "0" {
		t.Errorf("behind the keys lock_timeout is %q, %v", limit, err)
	}
}

// TestIdempotencyKeys: the first transaction of a key stores the answer, others
// wait for it and see it, and an expired one is free again (J8).
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	k, unused := store.IdempotencyKey{Workspace: "w", Key: "k\x00"}, store.IdempotencyKey{Workspace: "w", Key: "unused"}
	q := &store.Query{Keys: []store.IdempotencyKey{k, unused, k}}
	var stored atomic.Int32
	use := func() (status int) {
		effect := int32(0)
		err := db.Do(context.Background(), q, func(f *store.Facts) (*store.Changes, error) { // perhaps several times
			a := f.Keys[k]
			effect = 0
			if !f.Keys[unused].New {
				t.Error("a key that was never answered is taken")
			}
			if !a.New {
				status = a.Status
				if a.Endpoint != "POST /api/jobs" || a.RequestHash != [32]byte{9} || string(a.Body) != `{"id":1}` {
					t.Errorf("answer %+v", a)
				}
				return nil, nil
			}
			effect, status = 1, 201
			return &store.Changes{Answers: map[store.IdempotencyKey]*store.Answer{k: {
				Endpoint: "POST /api/jobs", RequestHash: [32]byte{9}, Status: 201, Body: []byte(`{"id":1}`), ExpiresAt: f.Now + 3600e6,
			}}}, nil
		})
		if err != nil {
			t.Error(err)
		}
		stored.Add(effect)
		return status
	}
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			if use() != 201 {
				t.Error("a racer has no answer")
			}
		})
	}
	wg.Wait()
	if n := stored.Load(); n != 1 {
		t.Fatalf("%d racers had an effect, want 1", n)
	}
	execute(t, db, "update idempotency set expires_at = 5")
	use()
	if stored.Load() != 2 {
		t.Error("an expired key was replayed")
	}
	execute(t, db, "update idempotency set expires_at = 5")
	if err := db.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, db, "select count(*) = 0 from idempotency")
}

// TestOpenErrors: each fault has its kind and a hint.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	base := pgtest.URL(t)
	with := func(change func(*url.URL)) string {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		change(u)
		return u.String()
	}
	newer := open(t, base)
	execute(t, newer, "insert into migration (version) values (99)")
	tests := map[string]struct {
		url  string
		kind pawl.Kind
		hint string
	}{
		"not a url":        {"postgres://%zz", pawl.Invalid, "postgres://USER"},
		"nobody listens":   {"postgres://postgres@127.0.0.1:1/x?sslmode=disable", pawl.Unavailable, "server runs"},
		"no such database": {with(func(u *url.URL) { u.Path = "/nowhere" }), pawl.NotFound, "createdb"},
		"no such user":     {with(func(u *url.URL) { u.User = url.User("nobody") }), pawl.Refused, "password"},
		"no such schema":   {with(func(u *url.URL) { u.RawQuery += "&search_path=none" }), pawl.Invalid, "CREATE SCHEMA"},
		"newer schema":     {base, pawl.Conflict, "newer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), Config{URL: tt.url})
			var e *pawl.Error
			if !errors.As(err, &e) || e.Kind != tt.kind || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("got %#v, want kind %v and a hint with %q", err, tt.kind, tt.hint)
			}
			if e != nil && strings.Contains(e.Error(), "secret") {
				t.Errorf("the error shows the password: %v", e)
			}
		})
	}
}

// TestReadOnly: a database that takes no writes says so.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	u := db.cfg.URL + "&default_transaction_read_only=on"
	if _, err := Open(t.Context(), Config{URL: u}); pawl.KindOf(err) != pawl.Unavailable || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("got %v", err)
	}
}

// TestReadOnlyByDefault: a transaction asks for writing before anything else, also on a new
// connection, where its statements have to be prepared.
func TestReadOnlyByDefault(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	jobs := submit(t, db, 1, 1)
	execute(t, db, "do $$ begin execute format('alter database %I set default_transaction_read_only = on', current_database()); end $$")
	db.pool.Reset()
	for _, event := range []machine.Event{lifecycle.JobPause, lifecycle.JobResume} {
		db.cache.clear()
		err := try(db, &store.Query{Jobs: keysOf(jobs)}, func(f *store.Facts, d *draft) {
			d.moveJob(f.Jobs[jobs[0].Key()], lifecycle.JobPending, event)
		})
		if err != nil {
			t.Errorf("%s: %v", event, err)
		}
	}
}

// TestATableIsMissing: what is wrong is the schema, and not the program.
func TestATableIsMissing(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	execute(t, db, "drop table token cascade")
	err := try(db, &store.Query{Tokens: []rowkey.Token{1}}, func(*store.Facts, *draft) {})
	if pawl.KindOf(err) != pawl.Conflict || !strings.Contains(err.Error(), "lacks a table") {
		t.Errorf("got %v", err)
	}
}

// TestAnUndecodableRowIsLeftOut and does not take the others with it.
func TestAnUndecodableRowIsLeftOut(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	jobs := submit(t, db, 2, 1)
	execute(t, db, "update job set head = 'short' where id = $1", int64(jobs[0].Key()))
	do(t, db, &store.Query{Jobs: keysOf(jobs)}, func(f *store.Facts, d *draft) {
		if f.Jobs[jobs[0].Key()] != nil || f.Jobs[jobs[1].Key()] == nil {
			t.Errorf("jobs %v", f.Jobs)
		}
		d.moveJob(f.Jobs[jobs[1].Key()], lifecycle.JobRunning, lifecycle.JobAllocateResources)
	})
	if list, err := db.Jobs(t.Context(), store.JobFilter{}); err != nil || len(list) != 1 {
		t.Errorf("%d jobs, %v", len(list), err)
	}
}
