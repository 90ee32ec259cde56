package engine_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/worker"
)

// manyDefinitions submits one job for each of n workflows that no other engine has read
// yet.
func manyDefinitions(p *process, n int) (ids []pawl.ID) {
	for i := range n {
		def := define(p.t, fmt.Sprintf("name: cold%d\nsteps: [{id: a, handler: echo}]\n", i))
		ids = append(ids, p.submit(def, ""))
	}
	return ids
}

// TestClaimsOfUnknownDefinitions (T3): a claim that meets workflows its process has not
// read yet still takes them: they are read outside the transaction, with the caller's
// context, and the claim is made again at once.
func TestClaimsOfUnknownDefinitions(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		ids := manyDefinitions(start(t, db.open(), setup{}), 20)
		s := db.open()
		cold := start(t, s, setup{})
		if got := cold.hand("echo").exchange(50); len(got) != len(ids) {
			t.Fatalf("claimed %d of %d steps in one call", len(got), len(ids))
		}
		verify(t, s)
	})
}

// TestEveryConnectionInUse (row locks, and few connections): as many commits as there are
// connections for transactions, each meeting workflows that are not in memory, do not wait
// for one another.
func TestEveryConnectionInUse(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	submitted, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer submitted.Close()
	ids := manyDefinitions(start(t, submitted, setup{}), 40)
	s, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := &process{t: t, store: &pure{Store: s}}
	if p.engine, err = engine.Open(engine.Config{Store: p.store, Lanes: 2, Silence: time.Hour}); err != nil {
		t.Fatal(err)
	}
	defer p.engine.Close()
	var workers sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	for range 3 {
		w, err := worker.Start(ctx, p.engine, worker.Config{Capacity: 4, Handlers: map[string]worker.Handler{"echo": echo}})
		if err != nil {
			t.Fatal(err)
		}
		workers.Go(func() { <-ctx.Done(); w.Drain(context.Background()) })
	}
	for _, id := range ids {
		p.wait(id)
	}
	cancel()
	workers.Wait()
}

// TestLanesNeedConnections: more lanes than the store has connections for transactions
// are refused when the engine is opened, with the numbers.
func TestLanesNeedConnections(t *testing.T) {
	t.Parallel()
	s, err := postgres.Open(t.Context(), postgres.Config{URL: pgtest.URL(t), MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for lanes, want := range map[int]string{1: "", 2: "Lanes: 2: the store has connections for 1 transactions at once", -1: "Lanes: -1: want 0"} {
		e, err := engine.Open(engine.Config{Store: s, Lanes: lanes, Managed: true})
		if err == nil {
			e.Close()
		}
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && (!strings.Contains(got, want) || pawl.KindOf(err) != pawl.Invalid) {
			t.Errorf("%d lanes: %v; want %q", lanes, err, want)
		}
	}
}

var _ store.Store = (*pure)(nil)
