package postgres

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
)

// A keyWriter stores responses under keys, and makes a job with them.
type keyWriter struct {
	*testing.T
	url     string
	db      *DB
	decided int // calls of the last decision
}

func newKeyWriter(t *testing.T) *keyWriter {
	url := pgtest.URL(t)
	w := &keyWriter{T: t, url: url, db: open(t, url)}
	do(t, w.db, &store.Query{}, func(_ *store.Facts, d *draft) { d.newJob(1) }) // the clock is known
	return w
}

// write stores a response under each key that is new, unless it is to be left out, and returns which were.
func (w *keyWriter) write(omit string, keys ...string) (isNew string, err error) {
	w.Helper()
	q := &store.Query{}
	for _, k := range keys {
		q.Keys = append(q.Keys, store.IdempotencyKey{Workspace: "w", Key: k})
	}
	w.decided = 0
	err = w.db.Do(w.Context(), q, func(f *store.Facts) (*store.Changes, error) {
		w.decided++
		isNew = ""
		d := &draft{now: f.Now, Changes: store.Changes{Answers: map[store.IdempotencyKey]*store.Answer{}}}
		for _, k := range q.Keys {
			if f.Keys[k].New {
				if isNew += k.Key; k.Key != omit {
					d.Answers[k] = &store.Answer{Endpoint: "e", RequestHash: [32]byte{1}, Status: 200, Body: []byte(k.Key), ExpiresAt: f.Now + 3600e6}
				}
			}
		}
		if isNew == "" {
			return nil, nil
		}
		d.newJob(1)
		return &d.Changes, nil
	})
	return isNew, err
}

// want fails unless keys are found new, in so many decisions, and leave so many rows.
// hearClock has the cache know the clock of the database, without which nothing is written at once.
func (w *keyWriter) hearClock() { do(w, w.db, &store.Query{}, func(*store.Facts, *draft) {}) }

func (w *keyWriter) want(isNew string, decided, rows int, omit string, keys ...string) {
	w.Helper()
	w.hearClock()
	got, err := w.write(omit, keys...)
	if err != nil || got != isNew || w.decided != decided {
		w.Errorf("of %q new were %q in %d decisions, %v; want %q in %d", keys, got, w.decided, err, isNew, decided)
	}
	await(w, w.db, fmt.Sprintf("select count(*) = %d from idempotency where length(body) > 0 and expires_at > 5", rows))
}

// TestNewKeysAreTakenAtOnce: keys that nobody has used are stored with their responses in one round trip,
// and what is known about the others is found in a second one (J8).
func TestNewKeysAreTakenAtOnce(t *testing.T) {
	t.Parallel()
	w := newKeyWriter(t)
	jobs := func(n int) {
		t.Helper()
		await(t, w.db, fmt.Sprintf("select count(*) = %d from job", n))
	}
	w.want("a", 1, 1, "", "a")
	w.want("bcd", 1, 4, "", "b", "c", "d")
	jobs(3)
	w.want("", 2, 4, "", "a")
	w.want("e", 2, 5, "", "a", "e")
	jobs(4)
	w.want("fg", 2, 6, "g", "f", "g") // nothing would have verified that g is new
	w.want("g", 1, 7, "", "g")
	execute(t, w.db, "update idempotency set expires_at = 5")
	w.want("bcx", 1, 3, "", "b", "c", "x")
	jobs(7)
}

// TestHeldKeysAreNotTaken: a key that a transaction of a user has locked, or another one has stored and
// not committed, is not waited for long, and is not taken (J8).
func TestHeldKeysAreNotTaken(t *testing.T) {
	t.Parallel()
	w := newKeyWriter(t)
	conn, err := pgx.Connect(t.Context(), w.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	for sql, held := range map[string]bool{lockKeys.sql: true, takeFrom(someKeys): false} {
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), sql, []string{"w"}, []string{"a"}); err != nil {
			t.Fatal(err)
		}
		for _, keys := range [][]string{{"a"}, {"a", "b"}} {
			w.hearClock()
			_, err := w.write("", keys...)
			if held && (err != nil || w.decided != 2) || !held && (!errors.Is(err, store.ErrKeyHeld) || pawl.KindOf(err) != pawl.Conflict) {
				t.Errorf("%q, held %t: %v in %d decisions", keys, held, err, w.decided)
			}
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(t, w.db, "select not exists (select from idempotency where key = 'a')")
	}
	w.want("a", 1, 2, "", "a")
	var limit string
	if err := w.db.pool.QueryRow(t.Context(), "show lock_timeout").Scan(&limit); err != nil || limit != "0" {
		t.Errorf("afterwards lock_timeout is %q, %v", limit, err)
	}
}
