package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestUnstored: an engine whose commits have failed for a while stores nothing, until one succeeds or none was
// tried for long; it is logged once (S14).
func TestUnstored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := &bytes.Buffer{}
		c := &committer{unstored: unstored{log: slog.New(slog.NewTextHandler(log, nil))}}
		e := &Engine{committer: c}
		full := &pawl.Error{Kind: pawl.Unavailable, Message: "the disk is full"}
		is := func(what string, want bool) {
			t.Helper()
			if got := !e.Unstored().IsZero(); got != want {
				t.Errorf("%s: unstored is %t, want %t", what, got, want)
			}
		}
		fail := func(seconds int) {
			for range seconds {
				c.unstored.note(full)
				time.Sleep(time.Second)
			}
		}
		is("at first", false)
		for range 20 {
			c.unstored.note(&pawl.Error{Kind: pawl.Unavailable, Message: "busy", Err: &store.BusyError{Err: errors.New("locked")}})
			time.Sleep(time.Second)
		}
		is("while others keep it busy", false)
		fail(5)
		is("after 4 s", false)
		fail(20)
		is("after 24 s", true)
		c.unstored.note(errors.New("a fault of one command"))
		is("after a fault of another kind", true)
		c.unstored.note(nil)
		is("after a success", false)
		fail(1)
		is("after a failure", false)
		fail(10)
		time.Sleep(unstoredFor)
		is("without an attempt", false)
		fail(2)
		is("after a failure that is alone", false)
		if n := strings.Count(log.String(), "nothing can be stored"); n != 2 || strings.Count(log.String(), "commits succeed again") != 1 {
			t.Errorf("logged:\n%s", log)
		}
	})
}

// A full is a ledger on a full disk: it decides, and stores nothing.
type full struct{ store.Ledger }

func (f full) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	stop := &pawl.Error{Kind: pawl.Unavailable, Message: "the disk is full"}
	return f.Ledger.Do(ctx, q, func(f *store.Facts) (*store.Changes, error) {
		if ch, err := decide(f); err != nil || ch == nil {
			return nil, err
		}
		return nil, stop
	})
}

// TestACommitThatStoresNothingIsNoSuccess: of commits, only those that were to store something count.
func TestACommitThatStoresNothingIsNoSuccess(t *testing.T) {
	t.Parallel()
	e := testEngine(t)
	id := e.submitOne(t)
	do := func(f func(t *tx) error) {
		t.Helper()
		if _, err := e.committer.do(t.Context(), &script{q: store.Query{Jobs: []rowkey.Job{id.JobKey()}}, f: f}); err != nil {
			t.Fatal(err)
		}
	}
	pause := func(t *tx) error {
		return t.moveJob(t.job(id.JobKey()), lifecycle.JobPause, decide.Note{Reason: "test"})
	}
	look := func(*tx) error { return nil }
	is := func(what string, want bool) {
		t.Helper()
		if got := e.committer.unstored.failing.Load(); got != want {
			t.Errorf("%s: failing is %t, want %t", what, got, want)
		}
	}
	sound := e.committer.store
	is("after a commit", false)
	e.committer.store = full{sound}
	do(look)
	is("after one that has nothing to store", false)
	do(pause)
	is("after one that failed", true)
	do(look)
	is("after that, one that has nothing to store", true)
	e.committer.store = sound
	do(pause)
	is("after one that was stored", false)
}
