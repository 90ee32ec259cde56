package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
)

// TestAHoldThatFailedHoldsNothing: a name whose note could not be written is
// free, and free again after it was held and released.
func TestAHoldThatFailedHoldsNothing(t *testing.T) { // J9
	t.Parallel()
	url := pgtest.URL(t)
	one, two := open(t, url), open(t, url)
	alter := func(sql string) {
		if _, err := one.pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	alter("alter table hold rename to away")
	if _, err := one.Hold(t.Context(), "it", nil); err == nil {
		t.Fatal("held without a note")
	}
	alter("alter table away rename to hold")
	release, err := one.Hold(t.Context(), "it", nil)
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := two.Hold(t.Context(), "it", nil); err != nil {
		t.Errorf("after the release: %v; want the name free", err)
	}
}

// TestASilentSession: a query on the session ends after an attempt, as one that may be made again,
// and the next one has a new connection (T10).
func TestASilentSession(t *testing.T) {
	t.Parallel()
	h, url := pgtest.Dig(t, pgtest.URL(t))
	db := open(t, url)
	defer h.Close() // before the handle is
	if _, _, err := db.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Swallow()
	if _, _, err := db.Version(t.Context()); pawl.KindOf(err) != pawl.Unavailable || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("on a silent connection: kind %v, %v; want unavailable, for the time that is over", pawl.KindOf(err), err)
	}
	if v, _, err := db.Version(t.Context()); err != nil || v == 0 {
		t.Errorf("after it: version %d, %v", v, err)
	}
}

// TestFewestConnections: a handle that could not look anything up while a transaction is
// under way is refused, with the number that it needs.
func TestFewestConnections(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, -1} {
		_, err := Open(t.Context(), Config{URL: pgtest.URL(t), MaxConns: n})
		if want := fmt.Sprintf("MaxConns: %d: at least 2 are needed", n); pawl.KindOf(err) != pawl.Invalid || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%d connections: %v, want %q", n, err, want)
		}
	}
}

// TestOneConnection: a transaction whose decision has to read something else is
// not left waiting for the connection that it uses itself.
func TestOneConnection(t *testing.T) {
	t.Parallel()
	db, err := Open(t.Context(), Config{URL: pgtest.URL(t), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err = db.Do(ctx, &store.Query{}, func(*store.Facts) (*store.Changes, error) {
		_, err := db.Workers(ctx, store.WorkerFilter{Living: true})
		return nil, err
	})
	if err != nil {
		t.Errorf("a view within a transaction: %v", err)
	}
}
