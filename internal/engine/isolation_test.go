package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
	"github.com/pawl-dev/pawl/workflow"
)

// A diary records what happened to steps, in order.
type diary struct {
	mu   sync.Mutex
	said []string
	at   []time.Time
}

func (d *diary) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said, d.at = append(d.said, fmt.Sprintf(format, args...)), append(d.at, time.Now())
}

// when returns when a text was first recorded, or the zero time.
func (d *diary) when(what string) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, s := range d.said {
		if s == what {
			return d.at[i]
		}
	}
	return time.Time{}
}

// handler records when a claim begins and how it ends: by its context, or because open is
// closed.
func (d *diary) handler(open <-chan struct{}) worker.Handler {
	return func(ctx context.Context, t *worker.Task) worker.Result {
		d.say("%s begins claim %d", t.Key, t.Claim)
		select {
		case <-ctx.Done():
			d.say("%s ends claim %d", t.Key, t.Claim)
			return worker.Result{Failure: &pawl.Failure{Class: "interrupted", Message: context.Cause(ctx).Error()}}
		case <-open:
			d.say("%s completes claim %d", t.Key, t.Claim)
			return worker.Result{}
		}
	}
}

const isolatedStep = `
name: isolated
steps: [{id: stops, handler: h, isolation: stop}, {id: goes_on, handler: h}]
`

// A cutting is a server at the default timings, and workers that can be cut off from the
// database.
type cutting struct {
	t        *testing.T
	handlers map[string]worker.Handler
	hole     *pgtest.Hole
	direct   string // url
	through  string // the hole
	server   *process
}

func newCutting(t *testing.T, handlers map[string]worker.Handler) *cutting {
	t.Helper()
	c := &cutting{t: t, handlers: handlers, direct: pgtest.URL(t)}
	c.hole, c.through = pgtest.Dig(t, c.direct)
	s := c.open(c.direct)
	c.server = &process{t: t, store: s, engine: engine.New(engine.Config{Store: s})}
	t.Cleanup(c.server.engine.Close)
	return c
}

func (c *cutting) open(url string) store.Store {
	c.t.Helper()
	s, err := postgres.Open(c.t.Context(), postgres.Config{URL: url})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { s.Close() })
	return s
}

func (c *cutting) start(url string, isolation workflow.Isolation) {
	c.t.Helper()
	s := c.open(url)
	e := engine.New(engine.Config{Store: s, Passive: true})
	c.t.Cleanup(e.Close)
	w, err := worker.Start(c.t.Context(), e, worker.Config{Capacity: 2, Isolation: isolation, Handlers: c.handlers})
	if err != nil {
		c.t.Fatal(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	c.t.Cleanup(func() { _ = w.Drain(ended) })
}

// cut cuts off the workers connected through the hole.
func (c *cutting) cut() {
	c.hole.Deafen(true)
	c.hole.Swallow()
}

// TestIsolatedCommandsAreKilled: a script that ignores SIGTERM is killed, with the
// processes it has started, before another worker begins it again.
func TestIsolatedCommandsAreKilled(t *testing.T) {
	t.Parallel()
	c := newCutting(t, map[string]worker.Handler{"run": worker.Command(worker.CommandConfig{})})
	file := filepath.Join(t.TempDir(), "effects")
	c.start(c.through, workflow.IsolationRun)
	t.Cleanup(c.hole.Close) // before that worker drains
	id := c.server.submit(define(t, `
name: stubborn
inputs: {file: {type: string, required: true}}
steps:
  - id: a
    isolation: stop
    env: {FILE: "${{ inputs.file }}"}
    run: |
      trap '' TERM
      (while [ ! -f "$FILE.go" ]; do echo "child of $PAWL_CLAIM" >> "$FILE"; sleep 0.05; done) &
      while [ ! -f "$FILE.go" ]; do echo "claim $PAWL_CLAIM" >> "$FILE"; sleep 0.05; done
`), fmt.Sprintf(`{"file": %q}`, file))
	lines := func(of string) int {
		b, _ := os.ReadFile(file) // the file may not exist yet
		return strings.Count(string(b), of+"\n")
	}
	until(t, "it runs", func() bool { return lines("claim 1") > 0 && lines("child of 1") > 0 })
	c.cut()
	c.start(c.direct, workflow.IsolationRun)
	until(t, "it runs elsewhere", func() bool { return lines("claim 2") > 20 && lines("child of 2") > 20 })
	if err := os.WriteFile(file+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if v := c.server.wait(id); v.Status != lifecycle.JobCompleted {
		t.Errorf("the job is %s: %v", v.Status, v.Error)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first := strings.Index(string(b), "2\n")
	if late := strings.LastIndex(string(b), "1\n"); late > first {
		t.Errorf("its first claim still wrote %d bytes after the second had begun", late-first)
	}
}

// TestIsolatedStepsNeverOverlap: a worker that is cut off ends a step of isolation stop
// before any other worker gets it, and continues its other steps; with the flag it ends
// all. At the default timings, on PostgreSQL.
func TestIsolatedStepsNeverOverlap(t *testing.T) {
	t.Parallel()
	for _, all := range []bool{false, true} {
		t.Run(fmt.Sprintf("all %v", all), func(t *testing.T) {
			t.Parallel()
			d, let := new(diary), make(chan struct{})
			c := newCutting(t, map[string]worker.Handler{"h": d.handler(let)})
			isolation := workflow.IsolationRun
			if all {
				isolation = workflow.IsolationStop
			}
			c.start(c.through, isolation)
			t.Cleanup(c.hole.Close) // before that worker drains
			id := c.server.submit(define(t, isolatedStep), "")
			until(t, "both steps run", func() bool {
				return !d.when("stops begins claim 1").IsZero() && !d.when("goes_on begins claim 1").IsZero()
			})
			cut := time.Now()
			c.cut()
			c.start(c.direct, workflow.IsolationRun)
			until(t, "both steps run elsewhere", func() bool {
				return !d.when("stops begins claim 2").IsZero() && !d.when("goes_on begins claim 2").IsZero()
			})
			for _, key := range []string{"stops", "goes_on"} {
				ended, again := d.when(key+" ends claim 1"), d.when(key+" begins claim 2")
				if !ended.IsZero() {
					t.Logf("%s: ended %s after it was cut off, begun elsewhere %s after it", key, ended.Sub(cut), again.Sub(cut))
				}
				isolated := all || key == "stops"
				if isolated != (!ended.IsZero() && ended.Before(again)) {
					t.Errorf("%s ended at %s and began elsewhere at %s; isolated: %v", key, ended, again, isolated)
				}
			}
			close(let)
			if v := c.server.wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("the job is %s: %v", v.Status, v.Error)
			}
			verify(t, c.server.store)
		})
	}
}

// TestIsolatedStepsWaitForTheWholeSilence: no matter what ends their worker, and how
// certain its death is, such steps are not taken from it before the whole silence has
// passed; others are at once. A worker that has reported its own end releases them at once.
func TestIsolatedStepsWaitForTheWholeSilence(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, p *process, h *hand){
		"its process is gone": func(t *testing.T, p *process, h *hand) { h.release() },
		"an operator ends it": func(t *testing.T, p *process, h *hand) {
			if _, err := p.engine.TerminateWorker(t.Context(), h.worker.ID, pawl.Change{Actor: "operator", Reason: "go"}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onShared(t, func(t *testing.T, db *database) {
				p := start(t, db.open(), setup{silence: 6 * time.Second})
				id := p.submit(define(t, isolatedStep), "")
				h := p.hand("h")
				h.claim(2)
				if _, err := p.store.Beat(t.Context(), link.Pulse{Worker: h.worker.Key()}); err != nil {
					t.Fatal(err)
				}
				r, err := p.store.Observe(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				beat := r.Workers[0].Beat
				end(t, p, h)
				taken := func(ord int) int64 { // when, by the clock of the database
					trail, err := p.store.Trail(t.Context(), store.StepEntity(pawl.StepKey{Job: id.JobKey(), Ord: pawl.MakeOrd(ord, 0)}), 0, 0)
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range trail {
						if e.Event == lifecycle.StepLost || e.Event == lifecycle.StepInterrupt {
							return e.At
						}
					}
					return 0
				}
				until(t, "both steps are taken", func() bool { return taken(1) > 0 && taken(2) > 0 })
				stops, goes := time.Duration(taken(1)-beat)*time.Microsecond, time.Duration(taken(2)-beat)*time.Microsecond
				t.Logf("taken %s and %s after the last beat", stops, goes)
				if stops < 6*time.Second || goes >= stops {
					t.Errorf("taken %s and %s after the last beat; want the isolated one after 6 s, and the other before it", stops, goes)
				}
				verify(t, p.store)
			})
		})
	}
}

// A mute is a store whose beats fail while it is cut off.
type mute struct {
	store.Store
	mu  sync.Mutex
	cut bool
}

func (m *mute) set(cut bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut = cut
}

func (m *mute) Beat(ctx context.Context, p link.Pulse) (*link.Pulsed, error) {
	m.mu.Lock()
	cut := m.cut
	m.mu.Unlock()
	if cut {
		return nil, errors.New("cut off")
	}
	return m.Store.Beat(ctx, p)
}

// TestAWorkerThatIsBackEndsWhatWasTaken: a single step that was taken from a worker while
// it was cut off ends there with the first beat that succeeds; its other steps continue.
func TestAWorkerThatIsBackEndsWhatWasTaken(t *testing.T) { // J9, T5
	onDatabases(t, func(t *testing.T, db *database) {
		m := &mute{Store: db.open()}
		d, let := new(diary), make(chan struct{})
		p := start(t, m, setup{handlers: map[string]worker.Handler{"h": d.handler(let)}})
		id := p.submit(define(t, "name: taken\nsteps: [{id: gone, handler: h, retry: {max_attempts: 1}}, {id: kept, handler: h}]\non_error: drain\n"), "")
		until(t, "both steps run", func() bool {
			return !d.when("gone begins claim 1").IsZero() && !d.when("kept begins claim 1").IsZero()
		})
		m.set(true)
		// The engine's own deadline for a step whose worker says nothing.
		err := p.store.Do(t.Context(), &store.Query{Steps: []pawl.StepKey{{Job: id.JobKey(), Ord: pawl.MakeOrd(1, 0)}}}, func(f *store.Facts) (*store.Changes, error) {
			for _, s := range f.Steps {
				s.DueAt, s.DueEvent = f.Now-1, lifecycle.StepTimeout
				return &store.Changes{Steps: []store.Update[*pawl.Step]{{Record: s, Was: s.Seq}}}, nil
			}
			return nil, errors.New("there is no step")
		})
		if err != nil {
			t.Fatal(err)
		}
		until(t, "the step is taken", func() bool { return steps(p.job(id))["gone"].Status == lifecycle.StepPermanentError })
		if at := d.when("gone ends claim 1"); !at.IsZero() {
			t.Error("it ended while nobody could tell")
		}
		m.set(false)
		until(t, "it ends", func() bool { return !d.when("gone ends claim 1").IsZero() })
		if at := d.when("kept ends claim 1"); !at.IsZero() {
			t.Error("the other step ended, too")
		}
		close(let)
		p.wait(id)
		verify(t, p.store)
	})
}

// TestNothingIsolatedBeginsWithoutALease: a worker that is cut off does not start a handler of
// isolation stop that it has claimed.
func TestNothingIsolatedBeginsWithoutALease(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), sqlite.Config{Path: ":memory:"})
	if err != nil {
		t.Fatal(err)
	}
	m := &mute{Store: db}
	e := engine.New(engine.Config{Store: m, Silence: time.Hour, Poll: 50 * time.Millisecond})
	t.Cleanup(func() { e.Close(); db.Close() })
	p := &process{t: t, store: m, engine: e}
	d, let := new(diary), make(chan struct{})
	w, err := worker.Start(t.Context(), e, worker.Config{Beat: 20 * time.Millisecond, Poll: 20 * time.Millisecond,
		Silence: 2 * time.Second, Handlers: map[string]worker.Handler{"h": d.handler(let)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Drain(context.Background()) })
	first := p.submit(define(t, isolatedStep), "")
	until(t, "both steps run", func() bool {
		return !d.when("stops begins claim 1").IsZero() && !d.when("goes_on begins claim 1").IsZero()
	})
	m.set(true)
	until(t, "the isolated step ends, and is tried again and again", func() bool { return steps(p.job(first))["stops"].Claims > 3 })
	if at := d.when("stops begins claim 3"); !at.IsZero() {
		t.Error("it was begun by a worker that is cut off")
	}
	if at := d.when("goes_on ends claim 1"); !at.IsZero() {
		t.Error("the other step ended, too")
	}
	m.set(false)
	close(let)
	if v := p.wait(first); v.Status != lifecycle.JobCompleted || steps(v)["stops"].Attempts != 1 {
		t.Errorf("the job is %s, step %+v; want it complete in one attempt", v.Status, steps(v)["stops"])
	}
}
