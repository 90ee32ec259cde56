package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A far worker is remote: it talks to any of several engines.
type far struct {
	t  *testing.T
	id pawl.ID
}

func enlist(t *testing.T, e *engine.Engine) *far {
	t.Helper()
	return enlistAs(t, e, "far")
}

// enlistAs registers a worker, twice with the same key.
func enlistAs(t *testing.T, e *engine.Engine, name string) *far {
	t.Helper()
	w := pawl.Worker{Workspace: pawl.DefaultWorkspace, Name: name, Silence: time.Minute, Capacity: 10,
		Routes: []rowkey.Route{pawl.Route(pawl.DefaultWorkspace, "default", "h", 0)}, Handlers: []string{"default/h"}}
	done, err := e.Enlist(t.Context(), link.Registration{Worker: w}, pawl.Change{Actor: "ada", RequestID: name})
	if err != nil {
		t.Fatal(err)
	}
	again, err := e.Enlist(t.Context(), link.Registration{Worker: w}, pawl.Change{Actor: "ada", RequestID: name})
	if err != nil || again.ID != done.ID || !again.Replayed {
		t.Fatalf("registered again with the same key: %+v, %v; want %s", again, err, done.ID)
	}
	id, err := pawl.ParseID(pawl.WorkerPrefix, done.ID)
	if err != nil {
		t.Fatal(err)
	}
	return &far{t, id}
}

func (f *far) visit(e *engine.Engine, v link.Visit) (*link.Visited, error) {
	v.Worker = f.id
	return e.Visit(f.t.Context(), v)
}

func (f *far) must(e *engine.Engine, v link.Visit) *link.Visited {
	f.t.Helper()
	out, err := f.visit(e, v)
	if err != nil {
		f.t.Fatal(err)
	}
	return out
}

func (f *far) success(a link.Assignment) link.Report {
	return link.Report{Step: a.Step.StepKey, Claim: a.Step.Claims, Actor: f.id.Public(pawl.WorkerPrefix), By: f.id.WorkerKey(),
		Report: decide.Report{Event: lifecycle.StepSuccess, Output: json.RawMessage(`1`)}}
}

func held(a ...link.Assignment) (all []link.Stop) {
	for _, a := range a {
		all = append(all, link.Stop{StepKey: a.Step.StepKey, Claim: a.Step.Claims})
	}
	return all
}

// results returns what became of the reports of a visit.
func results(v *link.Visited) (all []link.Result) {
	for _, r := range v.Reported {
		all = append(all, r.Result)
	}
	return all
}

const aThenB = "name: two\nsteps: [{id: a, handler: h}, {id: b, handler: h, needs: [a]}]\n"

// TestRemoteWorkerRuns: a remote worker claims, reports and gets the next step in the same
// exchange; the answer of an exchange that was lost is healed by a repetition, by holding,
// and a report that comes twice is known.
func TestRemoteWorkerRuns(t *testing.T) { // T3, T5
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		f := enlist(t, p.engine)
		id := p.submit(define(t, aThenB), "")

		first := f.must(p.engine, link.Visit{Turn: 1, Free: 5})
		if len(first.Assigned) != 1 || first.Again != 0 || first.State != lifecycle.WorkerRunning {
			t.Fatalf("the first exchange: %+v, want a step", first)
		}
		repeated := f.must(p.engine, link.Visit{Turn: 1, Free: 5})
		if len(repeated.Assigned) != 1 || repeated.Again != 1 || !slices.Equal(held(repeated.Assigned...), held(first.Assigned...)) {
			t.Errorf("the same again: %+v, want the same step, as delivered before", repeated)
		}
		compared := f.must(p.engine, link.Visit{Turn: 2, Free: 5, Compare: true, Holding: held(first.Assigned...)})
		if len(compared.Assigned)+len(compared.Gone) != 0 {
			t.Errorf("with what is held: %+v, want nothing", compared)
		}
		a := f.success(first.Assigned[0])
		second := f.must(p.engine, link.Visit{Turn: 3, Free: 1, Reports: []link.Report{a}})
		if len(second.Assigned) != 1 || !slices.Equal(results(second), []link.Result{link.Accepted}) {
			t.Fatalf("the report: %+v, want the next step", second)
		}
		lost := f.must(p.engine, link.Visit{Turn: 4, Free: 1, Reports: []link.Report{a}, Compare: true})
		if lost.Again != 1 || !slices.Equal(results(lost), []link.Result{link.Duplicate}) {
			t.Errorf("the report again: %+v, want a duplicate, and the step that the lost answer had", lost)
		}
		failed := a
		failed.Event, failed.Failure = lifecycle.StepFail, &pawl.Failure{Class: "x"}
		wrong := f.success(second.Assigned[0])
		wrong.Claim = 7
		stale := f.must(p.engine, link.Visit{Turn: 5, Reports: []link.Report{failed, wrong, f.success(second.Assigned[0])},
			Compare: true, Holding: append(held(first.Assigned...), held(second.Assigned...)...)})
		if want := []link.Result{link.Stale, link.Stale, link.Accepted}; !slices.Equal(results(stale), want) || len(stale.Gone) != 2 {
			t.Errorf("%+v, want the results %v, and both claims gone", stale, want)
		}
		if v := p.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s", v.Status)
		}
		if n, err := p.store.Refused(t.Context(), id.JobKey()); n != 2 || err != nil {
			t.Errorf("%d refused facts (%v), want those 2 that were no duplicates", n, err)
		}
	})
}

// TestTurns: an exchange whose turn is over claims nothing, and a worker that works on the
// database itself has no turns.
func TestTurns(t *testing.T) { // T3
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		f := enlist(t, p.engine)
		f.must(p.engine, link.Visit{Turn: 7, Free: 1})
		p.submit(define(t, oneStep), "")
		_, err := f.visit(p.engine, link.Visit{Turn: 6, Free: 1})
		var over *link.TurnError
		if !errors.As(err, &over) || over.Current != 7 || pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("an old turn: %v, want a turn error that names 7", err)
		}
		if v := f.must(p.engine, link.Visit{Turn: 7, Free: 1}); len(v.Assigned) != 0 {
			t.Errorf("a repetition has claimed: %+v", v)
		}
		if v := f.must(p.engine, link.Visit{Turn: 8, Free: 1}); len(v.Assigned) != 1 {
			t.Errorf("the next turn: %+v, want the step", v)
		}
		local, release, err := p.engine.Register(t.Context(), link.Registration{Worker: pawl.Worker{Workspace: "default", Name: "near", Capacity: 1}, Actor: "x"})
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if _, err := p.engine.Visit(t.Context(), link.Visit{Worker: local.ID, Turn: 1, Free: 1}); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("a local worker exchanges: %v", err)
		}
		if _, err := p.engine.ActWorker(t.Context(), f.id, lifecycle.WorkerErrorUnrecoverable, pawl.Change{Actor: "x"}); err != nil {
			t.Fatal(err)
		}
		if _, err := f.visit(p.engine, link.Visit{Turn: 9, Free: 1}); !errors.Is(err, link.ErrWorkerEnded) {
			t.Errorf("a worker that has ended: %v", err)
		}
	})
}

// A stalled store holds back the transactions of exchanges until it is released.
type stalled struct {
	store.Store
	arrived, release chan struct{}
}

func (s *stalled) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	if len(q.Turns) > 0 && s.release != nil {
		s.arrived <- struct{}{}
		<-s.release
	}
	return s.Store.Do(ctx, q, decide)
}

// TestALateClaim: an exchange times out at one server while its transaction is held up. The
// worker repeats it at another one, and goes on. The commit of the first then claims nothing,
// whether the worker has repeated the turn or has taken the next.
func TestALateClaim(t *testing.T) { // T3
	for name, next := range map[string]int64{"the turn was repeated": 1, "the next turn was taken": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onShared(t, func(t *testing.T, db *database) {
				b := startProcess(t, db.open(), nil)
				f := enlist(t, b.engine)
				slow := &stalled{Store: db.open(), arrived: make(chan struct{}, 1), release: make(chan struct{})}
				a := startProcess(t, slow, nil)
				for range 3 {
					b.submit(define(t, oneStep), "")
				}
				late := make(chan *link.Visited, 1)
				go func() {
					v, _ := f.visit(a.engine, link.Visit{Turn: 1, Free: 2})
					late <- v
				}()
				<-slow.arrived
				got := f.must(b.engine, link.Visit{Turn: next, Free: 1, Compare: true})
				if len(got.Assigned) != 1 {
					t.Fatalf("at the other server: %+v, want a step", got)
				}
				slow.arrived = make(chan struct{}, 10)
				close(slow.release)
				if v := <-late; v != nil && len(v.Assigned) > v.Again {
					t.Errorf("the late commit has claimed: %+v", v)
				}
				after := f.must(b.engine, link.Visit{Turn: next + 1, Compare: true, Holding: held(got.Assigned...)})
				if len(after.Assigned)+len(after.Gone) != 0 {
					t.Errorf("afterwards the worker has %+v beside its one step", after)
				}
			})
		})
	}
}

// TestExchangesOfOneCommit: two exchanges of a worker that are decided in one commit. The later
// one compares, and finds what the one before it has just claimed: its answer may be lost.
func TestExchangesOfOneCommit(t *testing.T) { // T3
	for name, second := range map[string]int64{"repeated": 1, "the next": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onShared(t, func(t *testing.T, db *database) {
				slow := &stalled{Store: db.open(), arrived: make(chan struct{}, 10)}
				p := startProcess(t, slow, nil)
				f, other := enlist(t, p.engine), enlistAs(t, p.engine, "other")
				p.submit(define(t, oneStep), "")
				slow.release = make(chan struct{})
				var all sync.WaitGroup
				all.Go(func() { other.must(p.engine, link.Visit{Turn: 1}) }) // holds up the committer
				<-slow.arrived
				var got [2]*link.Visited
				for i, v := range []link.Visit{{Turn: 1, Free: 1}, {Turn: second, Compare: true}} {
					all.Go(func() { got[i] = f.must(p.engine, v) })
					until(t, "it waits for the committer", func() bool { return p.engine.Queued() == i+1 })
				}
				close(slow.release)
				all.Wait()
				if len(got[0].Assigned) != 1 || len(got[1].Assigned) != 1 || got[1].Again != 1 {
					t.Errorf("the first was given %d steps, the second %d; want the same one twice", len(got[0].Assigned), len(got[1].Assigned))
				}
			})
		})
	}
}

// TestAnExchangeWaits: an exchange that waits gets what is submitted, one per step; it ends
// with its time, its context, and a later exchange of the same worker.
func TestAnExchangeWaits(t *testing.T) { // T3
	onStores(t, func(t *testing.T, open func() store.Store) {
		st := open()
		p := startProcess(t, st, nil)
		first, second := enlist(t, p.engine), enlistAs(t, p.engine, "second")
		got := make(chan *link.Visited, 2)
		for _, f := range []*far{first, second} {
			go func() {
				v, err := f.visit(p.engine, link.Visit{Turn: 1, Free: 1, Wait: patience})
				if err != nil {
					t.Error(err)
				}
				got <- v
			}()
		}
		other := startProcess(t, open(), nil)
		for range 2 {
			other.submit(define(t, oneStep), "")
		}
		for range 2 {
			if v := <-got; v == nil || len(v.Assigned) != 1 {
				t.Errorf("an exchange that waited: %+v, want a step", v)
			}
		}
		go func() {
			v, _ := first.visit(p.engine, link.Visit{Turn: 2, Free: 1, Wait: patience})
			got <- v
		}()
		until(t, "the exchange has begun", func() bool {
			_, err := first.visit(p.engine, link.Visit{Turn: 1})
			return errors.As(err, new(*link.TurnError))
		})
		first.must(p.engine, link.Visit{Turn: 3})
		if v := <-got; v != nil && len(v.Assigned) != 0 {
			t.Errorf("an overtaken exchange: %+v, want nothing", v)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		if v, err := p.engine.Visit(ctx, link.Visit{Worker: first.id, Turn: 4, Free: 1, Wait: patience}); err == nil && len(v.Assigned) != 0 {
			t.Errorf("of a client that has left: %+v, %v", v, err)
		}
	})
}

// TestARemoteWorkerIsSilent: its steps go to others after its silence, and not before, though
// nobody holds a lock for it and the server that registered it is gone.
func TestARemoteWorkerIsSilent(t *testing.T) { // J9, T7
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := &database{t: t, kind: "memory", where: ":memory:"}
		p := start(t, db.open(), setup{silence: 6 * time.Second})
		f := enlist(t, p.engine) // of a minute
		id := p.submit(define(t, oneStep), "")
		v := f.must(p.engine, link.Visit{Turn: 1, Free: 1})
		time.Sleep(30 * time.Second)
		if said, _, err := p.engine.BeatFor(t.Context(), f.id, held(v.Assigned...)); err != nil || len(said.Taken) != 0 || said.State != lifecycle.WorkerRunning {
			t.Fatalf("a beat: %+v, %v", said, err)
		}
		time.Sleep(59 * time.Second)
		if s := steps(p.job(id))["a"]; s.Status != lifecycle.StepInProgress {
			t.Fatalf("before the silence is over the step is %s", s.Status)
		}
		time.Sleep(5 * time.Second)
		said, _, err := p.engine.BeatFor(t.Context(), f.id, held(v.Assigned...))
		if err != nil || len(said.Taken) != 1 || !lifecycle.Worker.Ended(said.State) {
			t.Errorf("a beat after the silence: %+v, %v; want the claim taken, and the worker ended", said, err)
		}
		if v, err := f.visit(p.engine, link.Visit{Turn: 2, Reports: []link.Report{f.success(v.Assigned[0])}}); !errors.Is(err, link.ErrWorkerEnded) {
			t.Errorf("an exchange after the silence: %+v, %v", v, err)
		}
		next := enlistAs(t, p.engine, "next")
		if got := next.must(p.engine, link.Visit{Turn: 1, Free: 1}); len(got.Assigned) != 1 || got.Assigned[0].Step.Claims != 2 {
			t.Errorf("another worker gets %+v, want the step", got)
		}
	})
}
