package storetest

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var holdTests = []test{
	{name: "Hold/TakenAndReleased", run: holdTaken},
	{name: "Hold/TwoHandles", run: holdTwoHandles, shared: true},
	{name: "Hold/StrangeNames", run: holdStrangeNames},
	{name: "T5/BeatAnswersStops", run: beatAnswersStops},
	{name: "T5/BeatTellsWhatWasTaken", run: beatTellsWhatWasTaken},
	{name: "J1/BeatAnswersState", run: beatAnswersState},
	{name: "T10/BeatAnswersWork", run: beatAnswersWork},
	{name: "T10/Nodes", run: nodes},
	{name: "J9/ObserveBeats", run: observeBeats},
	{name: "J9/ObserveLocks", run: observeLocks},
	{name: "J9/ObserveRemote", run: observeRemote, shared: true},
	{name: "J9/EndedRemote", run: endedRemote},
	{name: "T3/Turns", run: turns, shared: true},
}

// held checks that the name is taken, with that note.
func (e *env) held(st store.Store, name, note string) {
	e.Helper()
	_, err := st.Hold(e.ctx, name, []byte(`{"who":"late"}`))
	var taken *store.HeldError
	if !errors.As(err, &taken) || taken.Name != name || string(taken.Note) != note {
		e.Errorf("hold %q: error %v, want a HeldError with the note %s", name, err, note)
	}
}

func (e *env) hold(st store.Store, name, note string) (release func()) {
	e.Helper()
	release, err := st.Hold(e.ctx, name, []byte(note))
	e.ok(err)
	e.Cleanup(release)
	return release
}

func holdTaken(e *env) {
	release := e.hold(e.st, "worker/1", `{"pid":1}`)
	e.held(e.st, "worker/1", `{"pid":1}`)
	e.hold(e.st, "worker/2", "")
	release()
	release() // a second call is fine
	e.hold(e.st, "worker/1", `{"pid":2}`)
	release() // and does not release the second hold
	e.held(e.st, "worker/1", `{"pid":2}`)
}

func holdTwoHandles(e *env) {
	other := e.open()
	release := e.hold(e.st, "engine", `{"pid":1}`)
	e.held(other, "engine", `{"pid":1}`)
	release()
	e.hold(other, "engine", `{"pid":2}`)
	e.held(e.st, "engine", `{"pid":2}`)
}

func holdStrangeNames(e *env) {
	names := []string{"a/b", "a%2Fb", "../x", ".", "ü \n'", strings.Repeat("long/", 200), strings.Repeat("long/", 200) + "er"}
	for _, name := range names {
		e.hold(e.st, name, name)
	}
	for _, name := range names {
		e.held(e.st, name, name)
	}
}

func beatAnswersStops(e *env) {
	w := e.addWorker()
	e.hold(e.st, workerName(w), "")
	m := e.add(3, func(m made, b *Batch) {
		claimed(w.Key())(m, b)
		m.steps[1].Claims = 4
		b.MoveStep(m.job, m.steps[1], lifecycle.StepCancelRequested)
		m.steps[1].DueAt, m.steps[1].DueEvent = b.now+1e6, "cancel"
		m.steps[2].DueAt, m.steps[2].DueEvent = b.now+1e6, lifecycle.StepTimeout
	})
	e.add(1, func(m made, b *Batch) { // another's
		claimed(w.Key()+1)(m, b)
		m.steps[0].DueAt, m.steps[0].DueEvent = b.now+1e6, "cancel"
	})
	var claims []link.Stop
	for _, s := range m.steps {
		claims = append(claims, link.Stop{StepKey: s.StepKey, Claim: s.Claims})
	}
	want := []link.Stop{{StepKey: m.steps[1].StepKey, Claim: 4}}
	got := e.beat(link.Pulse{Worker: w.Key(), Claims: claims})
	e.diff("stops of what it runs", want, got.Stops)
	e.diff("taken of what it runs", []link.Stop(nil), got.Taken)
	e.diff("stops of other claims", []link.Stop(nil), e.beat(link.Pulse{Worker: w.Key(), Claims: claims[:1]}).Stops)
	e.diff("stops of a worker that runs nothing", []link.Stop(nil), e.beat(link.Pulse{Worker: w.Key()}).Stops)
	e.diff("stops of a worker that does not say what it runs", want, e.beat(link.Pulse{Worker: w.Key(), Unnamed: true}).Stops)
}

// beatTellsWhatWasTaken: Beat returns those of the named claims that the worker does not have,
// for any reason.
func beatTellsWhatWasTaken(e *env) {
	w := e.addWorker()
	e.hold(e.st, workerName(w), "")
	m := e.add(3, func(m made, b *Batch) {
		claimed(w.Key())(m, b)
		b.MoveStep(m.job, m.steps[1], lifecycle.StepLost)
		m.steps[2].Claims = 4
	})
	others := e.add(1, claimed(w.Key()+1))
	claim := func(s *pawl.Step, n int) link.Stop { return link.Stop{StepKey: s.StepKey, Claim: n} }
	own := []link.Stop{claim(m.steps[0], m.steps[0].Claims), claim(m.steps[2], 4)}
	gone := []link.Stop{claim(m.steps[1], m.steps[1].Claims), claim(m.steps[2], 3), claim(others.steps[0], others.steps[0].Claims), {StepKey: pawl.StepKey{Job: 1, Ord: 1}, Claim: 1}}
	got := e.beat(link.Pulse{Worker: w.Key(), Claims: slices.Concat(own, gone)}).Taken
	order := func(a, b link.Stop) int { return cmp.Or(a.Compare(b.StepKey), cmp.Compare(a.Claim, b.Claim)) }
	slices.SortFunc(got, order)
	slices.SortFunc(gone, order)
	e.diff("taken", gone, got)
	if got = e.beat(link.Pulse{Worker: w.Key(), Claims: own}).Taken; len(got) > 0 {
		e.Errorf("taken %v, and it has them all", got)
	}
}

func (e *env) beat(p link.Pulse) *link.Pulsed {
	e.Helper()
	answer, err := e.st.Beat(e.ctx, p)
	e.ok(err)
	return answer
}

func beatAnswersState(e *env) {
	w := e.addWorker()
	e.hold(e.st, workerName(w), "")
	e.diff("state", lifecycle.WorkerIdle, e.beat(link.Pulse{Worker: w.Key()}).State)
	e.do(&store.Query{Workers: []rowkey.Worker{w.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveWorker(f.Workers[w.Key()], lifecycle.WorkerTerminate)
	})
	e.diff("state", lifecycle.WorkerTerminated, e.beat(link.Pulse{Worker: w.Key()}).State)
	e.diff("state of no worker", machine.State(""), e.beat(link.Pulse{}).State)
	e.diff("state of a worker that is gone", machine.State(""), e.beat(link.Pulse{Worker: w.Key() + 1}).State)
}

// beatAnswersWork: Beat, now or later, reports work that a claim on the routes would find, and
// nothing else.
func beatAnswersWork(e *env) {
	work := func(routes ...rowkey.Route) bool { return e.beat(link.Pulse{Routes: routes, Worker: 1}).Work }
	e.add(1, func(m made, b *Batch) {
		pending(1, 0)(m, b)
		m.job.Paused = true
	})
	if work(1, 2, 3) || work() {
		e.Error("work is told of, and there is none")
	}
	e.add(1, enqueued(2, 0))
	e.add(1, pending(3, 0))
	for _, route := range []rowkey.Route{2, 3} {
		late := time.NewTimer(10 * time.Second)
		for told := work(route, 9); !told; told = work(route, 9) {
			select {
			case <-late.C:
				e.Fatalf("no beat tells of the work on route %d", route)
			case <-time.After(5 * time.Millisecond):
			}
		}
		late.Stop()
	}
	for _, route := range []rowkey.Route{1, 4} {
		if work(route, 9) {
			e.Errorf("work is told of on route %d, and there is none", route)
		}
	}
}

// nodes: a process is stored with its clock.
func nodes(e *env) {
	said := []pawl.Node{
		{ID: 2, Role: "server", Name: "rack1", Host: "a.example", PID: 12, Version: "v1.0.0"},
		{ID: 1, Role: "worker", Name: "b/3", Host: "b", PID: 3, Version: "v1.0.1"},
	}
	before := e.now()
	e.beat(link.Pulse{Node: said[0], Clock: e.now() + 90e6})
	e.beat(link.Pulse{Node: said[1], Clock: e.now()})
	e.beat(link.Pulse{Node: said[1], Clock: e.now()})
	e.beat(link.Pulse{Clock: e.now()}) // without a process
	got, err := e.st.Nodes(e.ctx)
	e.ok(err)
	for i, n := range got {
		if n.StartedAt < before || n.BeatAt < n.StartedAt || n.BeatAt > e.now() {
			e.Errorf("%s: started at %d and heard of at %d; want times between %d and now", n.Name, n.StartedAt, n.BeatAt, before)
		}
		want := []int64{90e6, 0}[i%2]
		if n.Skew < want-30e6 || n.Skew > want+1e6 {
			e.Errorf("%s: its clock is %d ahead, want about %d", n.Name, n.Skew, want)
		}
		n.StartedAt, n.BeatAt, n.Skew = 0, 0, 0
	}
	e.diff("nodes", []*pawl.Node{&said[0], &said[1]}, got)
	e.ok(e.st.Maintain(e.ctx))
	kept, err := e.st.Nodes(e.ctx)
	e.ok(err)
	if len(kept) != 2 {
		e.Errorf("%d processes after maintenance, want the 2 that were just heard of", len(kept))
	}
}

// slack is the maximum error of a transaction's time, which may be estimated.
const slack = 1e6

// observed returns the sighting of each living worker.
func (e *env) observed(st store.Store) map[rowkey.Worker]health.Sighting {
	e.Helper()
	r, err := st.Observe(e.ctx)
	e.ok(err)
	if now := e.now(); r.Now > now+slack || r.Now < now-10e6 || r.Started > now {
		e.Errorf("observed at %d, of a server started at %d; it is %d", r.Now, r.Started, now)
	}
	seen := map[rowkey.Worker]health.Sighting{}
	for _, w := range r.Workers {
		seen[w.Worker] = w
	}
	return seen
}

// observeBeats: a worker's last sign of life is its last beat, or its registration if that is
// later.
func observeBeats(e *env) {
	w := e.addWorker()
	e.hold(e.st, workerName(w), "")
	first := e.observed(e.st)[w.Key()]
	if first.Beat < w.CreatedAt || first.Lock != health.Held {
		e.Errorf("seen %+v of a worker registered at %d; want it held, and heard of then or later", first, w.CreatedAt)
	}
	before := e.now()
	e.beat(link.Pulse{Worker: w.Key()})
	if got := e.observed(e.st)[w.Key()]; got.Beat < before-1000 || got.Beat > e.now()+slack { // the time of a file is coarser
		e.Errorf("heard of at %d after a beat at %d", got.Beat, before)
	}
	a, err := e.st.Look(e.ctx, store.LookQuery{Limit: 1, Living: true})
	e.ok(err)
	if a.Living == nil || a.Living.Now < a.Now || len(a.Living.Workers) != 1 || a.Living.Workers[0].Worker != w.Key() {
		e.Errorf("a look reports %+v of the living; want the worker, and a time from %d on", a.Living, a.Now)
	}
	if a, err = e.st.Look(e.ctx, store.LookQuery{Limit: 1}); err != nil || a.Living != nil {
		e.Errorf("a look that was not asked for the living reports %+v, %v", a, err)
	}
}

// observeLocks: a worker that has released its name is known to be gone, one that has ended is
// not reported.
func observeLocks(e *env) {
	held, released, never, ended := e.addWorker(), e.addWorker(), e.addWorker(), e.addWorker()
	e.hold(e.st, workerName(held), "")
	e.hold(e.st, workerName(released), "")()
	e.do(&store.Query{Workers: []rowkey.Worker{ended.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveWorker(f.Workers[ended.Key()], lifecycle.WorkerTerminate)
	})
	locks := map[rowkey.Worker]health.Lock{}
	for worker, s := range e.observed(e.st) {
		locks[worker] = s.Lock
	}
	e.diff("locks", map[rowkey.Worker]health.Lock{held.Key(): health.Held, released.Key(): health.Free, never.Key(): health.Free}, locks)
}

// workerName is the name that the process of a worker holds.
func workerName(w *pawl.Worker) string { return "worker/" + decimal(int64(w.Key())) }
