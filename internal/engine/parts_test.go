package engine_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// weighed is a workflow that makes no progress without an evaluator and deadlines.
const weighed = `
name: weighed
steps:
  - {id: a, handler: h}
  - {id: nap, needs: [a], sleep: 20ms}
  - {id: b, needs: [nap], if: "steps.a.output == 1", handler: h}
output: ${{ steps.b.output }}
`

// A mine is a store in which some reads panic.
type mine struct {
	store.Store
	read atomic.Pointer[func(what string, job int64)] // called before each read
}

func (m *mine) step(what string, job rowkey.Job) {
	if f := m.read.Load(); f != nil {
		(*f)(what, int64(job))
	}
}

func (m *mine) lay(f func(what string, job int64)) { m.read.Store(&f) }

func (m *mine) Look(ctx context.Context, q store.LookQuery) (*store.Agenda, error) {
	m.step("look", 0)
	return m.Store.Look(ctx, q)
}

func (m *mine) Marked(ctx context.Context, job rowkey.Job) ([]*pawl.Step, error) {
	m.step("marked", job)
	return m.Store.Marked(ctx, job)
}

func (m *mine) Listen(ctx context.Context, f func(store.Hint)) error {
	m.step("listen", 0)
	return m.Store.Listen(ctx, f)
}

// A managed is a process whose test runs the engine's parts.
type managed struct {
	*process
	mine  *mine
	parts map[string]engine.Part
}

func startManaged(t *testing.T, s store.Store, poll time.Duration) *managed {
	t.Helper()
	m := &mine{Store: s}
	e := engine.New(engine.Config{Store: m, Managed: true, Poll: poll, Silence: 2 * time.Hour, Retention: time.Hour,
		Node: pawl.Node{ID: 7, Role: health.RoleServer}, Jitter: func() float64 { return 0 }})
	p := &process{t: t, store: m, engine: e, config: setup{handlers: map[string]worker.Handler{
		"h": func(context.Context, *worker.Task) worker.Result { return worker.Result{Output: []byte("1")} },
	}}}
	t.Cleanup(p.stop)
	g := &managed{process: p, mine: m, parts: map[string]engine.Part{}}
	for _, part := range e.Parts() {
		g.parts[part.Name] = part
	}
	p.startWorker()
	return g
}

// keep runs a part, and runs it again when it ends, until end is called. It returns how
// often the part has ended before that.
func (g *managed) keep(name string) (ended *atomic.Int32, end func()) {
	ended = &atomic.Int32{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			_ = g.parts[name].Run(ctx) // Seen has the error
			if ctx.Err() == nil {
				ended.Add(1)
			}
		}
	})
	end = func() {
		cancel()
		running.Wait()
	}
	g.t.Cleanup(end)
	return ended, end
}

func (g *managed) keepAll() {
	for name := range g.parts {
		g.keep(name)
	}
}

// TestPartsAreHandedOut: nothing of a managed engine runs by itself, and all of it runs
// once its parts are run (S14).
func TestPartsAreHandedOut(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, db *database) {
		g := startManaged(t, db.open(), 50*time.Millisecond)
		var names []string
		for _, p := range g.engine.Parts() {
			names = append(names, p.Name)
			if p.Doc == "" || p.StuckAfter == 0 || p.Seen() != (engine.Progress{}) && p.Name != "hints" {
				t.Errorf("part %s: %q, patience %s, seen %+v", p.Name, p.Doc, p.StuckAfter, p.Seen())
			}
		}
		if want := []string{"hints", "beat", "evaluator", "deadlines", "upkeep", "sweep", "retention"}; !slices.Equal(names, want) {
			t.Errorf("parts %v: want %v", names, want)
		}
		id := g.submit(define(t, weighed), "")
		until(t, "step a completes", func() bool { return steps(g.job(id))["a"].Status == lifecycle.StepComplete })
		g.keepAll()
		if v := g.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s", v.Status)
		}
		for _, name := range []string{"beat", "evaluator", "deadlines", "retention"} {
			until(t, name+" says what it does", func() bool {
				s := g.parts[name].Seen()
				return s.Rounds > 0 && !s.At.IsZero() && s.Failures == 0 && s.Error == ""
			})
		}
		until(t, "hints are heard", func() bool { return g.parts["hints"].Seen().Error == "" })
	})
	if e := engine.New(engine.Config{Store: (&database{t: t, kind: "memory", where: ":memory:"}).open()}); len(e.Parts()) != 0 {
		t.Error("an engine that runs its own parts hands them out")
	} else {
		e.Close()
	}
}

// TestPartsThatPanicLoseNothing: every seventh scan, evaluation or hint panics, parts end and
// are run again, and every job ends correctly (S14, T10). If much more panicked, a job could
// be put off for longer than the test waits.
func TestPartsThatPanicLoseNothing(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, db *database) {
		g := startManaged(t, db.open(), 20*time.Millisecond)
		var count atomic.Int32
		g.mine.lay(func(what string, _ int64) {
			if count.Add(1)%7 == 0 {
				panic("the store panics on purpose: " + what)
			}
		})
		g.keepAll()
		def := define(t, weighed)
		var ids []pawl.ID
		for range 20 {
			ids = append(ids, g.submit(def, ""))
		}
		for _, id := range ids {
			if v := g.wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("a job is %s", v.Status)
			}
			g.settled(id)
		}
		until(t, "a scan panics, and others do not", func() bool {
			seen := g.parts["deadlines"].Seen()
			return seen.Failures > 0 && seen.Rounds > seen.Failures
		})
		verify(t, db.open())
	})
}

// TestADatabaseThatIsAway is retried with each poll, not in a tight loop (S14).
func TestADatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	const poll = 200 * time.Millisecond
	db := &database{t: t, kind: "memory", where: ":memory:"}
	s := &awayStore{Store: db.open()}
	e := engine.New(engine.Config{Store: s, Managed: true, Poll: poll})
	defer e.Close()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, p := range e.Parts() {
		if p.Name == "deadlines" {
			running.Go(func() { _ = p.Run(ctx) })
			until(t, "it is asked", func() bool { return p.Seen().Failures >= 4 })
		}
	}
	stop()
	running.Wait()
	if took := s.last.Sub(s.first); took < 3*poll {
		t.Errorf("it was asked 4 times in %s: want %s or more", took, 3*poll)
	}
}

// An awayStore fails each scan, and records the times of the first and the fourth.
type awayStore struct {
	store.Store
	asked       int
	first, last time.Time
}

func (a *awayStore) Look(context.Context, store.LookQuery) (*store.Agenda, error) {
	switch a.asked++; a.asked {
	case 1:
		a.first = time.Now()
	case 4:
		a.last = time.Now()
	}
	return nil, pawl.Errorf(pawl.Unavailable, "the database is away on purpose")
}

// TestAPoisonedJobHoldsUpNoOther: a job whose evaluation panics is evaluated on request,
// not in a tight loop, and continues once it can be evaluated.
func TestAPoisonedJobHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, db *database) {
		g := startManaged(t, db.open(), time.Hour) // so that only requested jobs are evaluated
		def := define(t, `{name: poisoned, steps: [{id: a, handler: h}, {id: b, needs: [a], if: "steps.a.output == 1", handler: h}]}`)
		var poisoned, evaluated atomic.Int64
		g.mine.lay(func(what string, job int64) {
			if what == "marked" && poisoned.CompareAndSwap(0, job) || job != 0 && job == poisoned.Load() {
				evaluated.Add(1)
				panic("this job cannot be evaluated")
			}
		})
		ended, _ := g.keep("evaluator")
		bad := g.submit(def, "")
		evaluator := g.parts["evaluator"]
		until(t, "the evaluation panics", func() bool { return evaluator.Seen().Failures > 0 })
		for range 10 {
			if v := g.wait(g.submit(def, "")); v.Status != lifecycle.JobCompleted {
				t.Fatalf("another job is %s", v.Status)
			}
		}
		if n := evaluated.Load(); n > 3 || ended.Load() != 0 {
			t.Errorf("it was evaluated %d times, and the part ended %d times: want 1 or little more, and 0", n, ended.Load())
		}
		g.mine.lay(func(string, int64) {})
		g.keep("deadlines")
		if v := g.wait(bad); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s", v.Status)
		}
	})
}

// TestPartsThatAreRestarted in the middle of their work continue where they stopped,
// without a scan of the database: their queue outlives them.
func TestPartsThatAreRestarted(t *testing.T) {
	t.Parallel()
	onDatabases(t, func(t *testing.T, db *database) {
		g := startManaged(t, db.open(), time.Hour)
		held := make(chan struct{})
		var first atomic.Bool
		g.mine.lay(func(what string, _ int64) {
			if what == "marked" && first.CompareAndSwap(false, true) {
				<-held
			}
		})
		_, end := g.keep("evaluator")
		def := define(t, `{name: held, steps: [{id: a, handler: h}, {id: b, needs: [a], if: "steps.a.output == 1", handler: h}]}`)
		id := g.submit(def, "")
		evaluator := g.parts["evaluator"]
		until(t, "it is evaluated", func() bool { return first.Load() && !evaluator.Seen().Busy.IsZero() })
		over := make(chan struct{})
		go func() {
			defer close(over)
			end()
		}()
		select {
		case <-over:
			t.Error("the part has ended in the midst of an evaluation")
		default:
		}
		close(held)
		<-over
		if s := evaluator.Seen(); !s.Busy.IsZero() || s.Error != "" {
			t.Errorf("after the end: %+v", s)
		}
		g.keep("evaluator")
		if v := g.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s", v.Status)
		}
	})
}

// TestCloseEndsParts, waits for them before the last commit, and lets none begin after
// it.
func TestCloseEndsParts(t *testing.T) {
	t.Parallel()
	db := &database{t: t, kind: "memory", where: ":memory:"}
	s := &mine{Store: db.open()}
	e := engine.New(engine.Config{Store: s, Managed: true})
	held, looking := make(chan struct{}), make(chan struct{})
	s.lay(func(what string, _ int64) {
		if what == "look" {
			close(looking)
			<-held
		}
	})
	parts := map[string]engine.Part{}
	ended := make(chan error, 10)
	for _, p := range e.Parts() {
		parts[p.Name] = p
		go func() { ended <- p.Run(context.Background()) }()
	}
	<-looking
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		e.Close()
	}()
	for range len(parts) - 1 {
		if err := <-ended; err != nil && pawl.KindOf(err) != pawl.Unavailable { // the error of a part that is run too late
			t.Error(err)
		}
	}
	select {
	case <-closed:
		t.Error("the engine has closed while a part works")
	default:
	}
	close(held)
	<-closed
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := parts["deadlines"].Run(t.Context()); pawl.KindOf(err) != pawl.Unavailable || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after the end: %v", err)
	}
}
