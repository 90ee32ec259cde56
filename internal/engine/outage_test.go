package engine_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// These tests check liveness at the default timings, on a PostgreSQL of the test's own (J9,
// T10).

// ownCluster starts a PostgreSQL that the test may kill.
func ownCluster(t *testing.T) *pgtest.Cluster {
	t.Helper()
	if os.Getenv("PAWL_TEST_POSTGRES") == "" { // else it is installed
		if err := pgtest.Install(os.Stderr); err != nil {
			t.Fatal(err)
		}
	}
	c, err := pgtest.Start(t.Context(), true) // confirmed commits outlive a kill
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	return c
}

// A looked is a store that counts the successful reads of the living workers.
type looked struct {
	store.Store
	looks atomic.Int64
}

func (l *looked) Look(ctx context.Context, q store.LookQuery) (*store.Agenda, error) {
	a, err := l.Store.Look(ctx, q)
	if err == nil && q.Living {
		l.looks.Add(1)
	}
	return a, err
}

// beats is a store that counts the beats that found no connection.
type beats struct {
	store.Store
	refused atomic.Int64
}

func (b *beats) Beat(ctx context.Context, p link.Pulse) (*link.Pulsed, error) {
	said, err := b.Store.Beat(ctx, p)
	if err != nil && strings.Contains(err.Error(), "too many connections") {
		b.refused.Add(1)
	}
	return said, err
}

// A plant is a server and workers at the default timings, each with a handle of its
// own as processes have.
type plant struct {
	t       *testing.T
	server  *process
	looks   *looked
	beats   []*beats // of the workers
	gate    *gate
	effects *sync.Map // by step and claim: how often it ran
}

// newPlant starts a server and workers, each of which reaches the database by its url.
func newPlant(t *testing.T, server string, workers ...string) *plant {
	t.Helper()
	open := func(url string) store.Store {
		s, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	p := &plant{t: t, gate: newGate(false), effects: new(sync.Map)}
	p.looks = &looked{Store: open(server)}
	p.server = &process{t: t, store: p.looks, engine: engine.New(engine.Config{Store: p.looks})}
	t.Cleanup(p.server.engine.Close)
	for _, url := range workers {
		s := &beats{Store: open(url)}
		p.beats = append(p.beats, s)
		e := engine.New(engine.Config{Store: s, Passive: true})
		t.Cleanup(e.Close)
		w, err := worker.Start(t.Context(), e, worker.Config{Capacity: 2, Handlers: map[string]worker.Handler{"h": p.run}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = w.Drain(context.Background()) })
	}
	t.Cleanup(p.gate.release)
	return p
}

func (p *plant) run(ctx context.Context, t *worker.Task) worker.Result {
	n, _ := p.effects.LoadOrStore(fmt.Sprint(t.StepID, " claim ", t.Claim), new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	return p.gate.run(ctx, t)
}

const fourSteps = `
name: outage
steps: [{id: a, handler: h}, {id: b, handler: h}, {id: c, handler: h}, {id: d, handler: h}]
`

// begin starts a job that keeps every slot of two workers busy.
func (p *plant) begin() pawl.ID {
	p.t.Helper()
	id := p.server.submit(define(p.t, fourSteps), "")
	for range 4 {
		p.gate.wait(p.t)
	}
	return id
}

// watched waits until the server has judged the living workers that many more times.
func (p *plant) watched(times int64) {
	p.t.Helper()
	from := p.looks.looks.Load()
	until(p.t, fmt.Sprintf("the server looks %d times", times), func() bool { return p.looks.looks.Load() >= from+times })
}

// unharmed ends the job, and checks that each step ran once, under one claim.
func (p *plant) unharmed(id pawl.ID) {
	p.t.Helper()
	p.gate.release()
	v := p.server.wait(id)
	if v.Status != lifecycle.JobCompleted {
		p.t.Errorf("the job is %s: %v", v.Status, v.Error)
	}
	stored, err := p.server.store.Steps(p.t.Context(), id.JobKey(), 0, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, s := range stored {
		if s.Losses != 0 || s.Claims != 1 || s.Attempts != 1 {
			p.t.Errorf("step %s: %d losses, %d claims, %d attempts; want no loss and one claim", s.StepKey, s.Losses, s.Claims, s.Attempts)
		}
	}
	effects := 0
	p.effects.Range(func(key, n any) bool {
		effects++
		if n := n.(*atomic.Int64).Load(); n != 1 {
			p.t.Errorf("%s ran %d times", key, n)
		}
		return true
	})
	if late := p.server.refused(id); effects != len(stored) || len(late) > 0 {
		p.t.Errorf("%d effects of %d steps, and %d results came too late", effects, len(stored), len(late))
	}
	verify(p.t, p.server.store)
}

// TestAnOutageOfTheDatabaseLosesNoStep: the database is killed and restarted, or frozen.
func TestAnOutageOfTheDatabaseLosesNoStep(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		away time.Duration
		hurt func(t *testing.T, c *pgtest.Cluster) (heal func())
	}{
		{"killed for 5 s", 5 * time.Second, killed},
		{"killed for 15 s", 15 * time.Second, killed},
		{"stopped for 9 s", 9 * time.Second, stopped},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := ownCluster(t)
			p := newPlant(t, c.URL, c.URL, c.URL)
			id := p.begin()
			heal := tt.hurt(t, c)
			over := time.NewTimer(tt.away)
			defer over.Stop()
			<-over.C // the duration of the outage is under test
			heal()
			p.watched(4) // the last of them more than a silence after the database is back
			p.unharmed(id)
		})
	}
}

func killed(t *testing.T, c *pgtest.Cluster) func() {
	c.Kill()
	return func() {
		if err := c.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func stopped(_ *testing.T, c *pgtest.Cluster) func() {
	c.Pause()
	return c.Resume
}

// sessions ends the connections to the server on which names are held, as an operator
// or a balancer may. They are known by what they hold.
const endSessions = `select pg_terminate_backend(pid) from pg_locks where locktype = 'advisory' and granted`

// TestALostSessionReleasesNothing: only the connections that hold the workers' names are
// lost; the names are taken again before any process can act on it.
func TestALostSessionReleasesNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	p := newPlant(t, url, url, url)
	id := p.begin()
	for range 3 {
		if err := execPostgres(url, endSessions+" and database = (select oid from pg_database where datname = current_database())"); err != nil {
			t.Fatal(err)
		}
		p.watched(1)
	}
	p.watched(3)
	p.unharmed(id)
}

// TestAHalfOpenConnectionReleasesNothing: requests to the database and its responses are
// lost silently, on the existing connections.
func TestAHalfOpenConnectionReleasesNothing(t *testing.T) {
	t.Parallel()
	direct := pgtest.URL(t)
	hole, url := pgtest.Dig(t, direct)
	p := newPlant(t, direct, url, url)
	t.Cleanup(hole.Close) // before the workers drain
	id := p.begin()
	hole.Swallow()
	p.watched(4)
	p.unharmed(id)
}

// TestConnectionsExhaustedAfterARestart: a restarted server has no connections left for the
// workers when they reconnect.
func TestConnectionsExhaustedAfterARestart(t *testing.T) {
	t.Parallel()
	c := ownCluster(t)
	for _, statement := range []string{"create role pawl login", "create database pawl owner pawl"} {
		if err := execPostgres(c.URL, statement); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(c.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/pawl"
	server := u.String()
	u.User = url.User("pawl")
	first, err := postgres.Open(t.Context(), postgres.Config{URL: u.String()}) // the tables are of that role
	if err != nil {
		t.Fatal(err)
	}
	first.Close()
	p := newPlant(t, server, u.String(), u.String())
	id := p.begin()
	if err := execPostgres(c.URL, "alter role pawl connection limit 0"); err != nil {
		t.Fatal(err)
	}
	c.Kill()
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "every worker is refused again and again", func() bool {
		return !slices.ContainsFunc(p.beats, func(b *beats) bool { return b.refused.Load() < 3 })
	})
	if err := execPostgres(c.URL, "alter role pawl connection limit -1"); err != nil {
		t.Fatal(err)
	}
	p.watched(4)
	p.unharmed(id)
}

// TestAKilledWorkerIsRescuedInTime: at the default timings other workers have its steps
// within 10 s, even if every server was restarted as it died.
func TestAKilledWorkerIsRescuedInTime(t *testing.T) {
	t.Parallel()
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("servers restarted %v", restarted), func(t *testing.T) {
			onShared(t, func(t *testing.T, db *database) {
				serve := func() *engine.Engine { return engine.New(engine.Config{Store: db.open()}) }
				server := serve()
				defer func() { server.Close() }()
				passive := &process{t: t, store: db.open()}
				passive.engine = engine.New(engine.Config{Store: passive.store, Passive: true})
				t.Cleanup(passive.engine.Close)
				id := passive.submit(define(t, oneStep), "")
				kill := startVictim(t, db, 1)
				s := db.open()
				e := engine.New(engine.Config{Store: s, Passive: true})
				t.Cleanup(e.Close)
				w, err := worker.Start(t.Context(), e, worker.Config{Handlers: map[string]worker.Handler{"h": echo}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = w.Drain(context.Background()) })
				kill()
				killed := time.Now()
				if restarted {
					server.Close()
					server = serve()
				}
				v := passive.wait(id)
				if took := time.Since(killed); took > 10*time.Second {
					t.Errorf("the job ended %s after the kill; want 10 s at most", took)
				}
				if s := steps(v)["a"]; v.Status != lifecycle.JobCompleted || s.Claims != 2 {
					t.Errorf("status %s, step %+v; want it complete by its second claim", v.Status, s)
				}
			})
		})
	}
}
