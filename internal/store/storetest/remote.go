package storetest

import (
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// addRemote stores a remote worker with its turn.
func (e *env) addRemote() *pawl.Worker {
	e.Helper()
	var w *pawl.Worker
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		w = &pawl.Worker{ID: e.mint.ID(f.Now), Workspace: "w", Name: "far", Silence: time.Minute, Capacity: 4,
			Routes: []rowkey.Route{1}, Handlers: []string{"default/noop"}}
		b.AddWorker(w)
		b.Turns = map[rowkey.Worker]store.Turn{w.Key(): {}}
	})
	return w
}

// observeRemote: a remote worker has no lock, its own silence, and the beats that any process
// has sent for it.
func observeRemote(e *env) {
	w := e.addRemote()
	first := e.observed(e.st)[w.Key()]
	if first.Beat < w.CreatedAt || first.Lock != health.None || first.Silence != time.Minute {
		e.Errorf("seen %+v of a remote worker registered at %d; want no lock, and a silence of a minute", first, w.CreatedAt)
	}
	before := e.now()
	e.beat(link.Pulse{Worker: w.Key(), Remote: true})
	if got := e.observed(e.open())[w.Key()]; got.Beat < before-slack || got.Beat > e.now()+slack {
		e.Errorf("another process has heard of it at %d, after a beat at %d that got a reply", got.Beat, before)
	}
	var all sync.WaitGroup
	for range 20 { // at the same time, and soon after the one before
		all.Go(func() {
			if _, err := e.st.Beat(e.ctx, link.Pulse{Worker: w.Key(), Remote: true}); err != nil {
				e.Error(err)
			}
		})
	}
	all.Wait()
	if got := e.observed(e.st)[w.Key()]; got.Beat < before {
		e.Errorf("heard of at %d after beats from %d on", got.Beat, before)
	}
}

// endedRemote: the last beat of a remote worker that has ended and holds a step is known.
func endedRemote(e *env) {
	w := e.addRemote()
	e.add(1, claimed(w.Key()))
	e.do(&store.Query{Workers: []rowkey.Worker{w.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveWorker(f.Workers[w.Key()], lifecycle.WorkerTerminate)
	})
	before := e.now()
	e.beat(link.Pulse{Worker: w.Key(), Remote: true})
	a, err := e.st.Look(e.ctx, store.LookQuery{Limit: 10, Living: true})
	e.ok(err)
	if len(a.Living.Ended) != 1 || a.Living.Ended[0].Beat < before-slack {
		e.Errorf("ended workers that hold steps: %+v; want the remote one, and its beat at %d", a.Living.Ended, before)
	}
}

// turns: the turn of a worker is what was set last, and two transactions that read it do not
// overlap.
func turns(e *env) {
	w := e.addRemote()
	ask := &store.Query{Turns: []rowkey.Worker{w.Key()}}
	if got := e.see(ask).Turns; len(got) != 1 || got[w.Key()] != (store.Turn{}) {
		e.Errorf("a new worker has the turns %v, want one, of 0", got)
	}
	const each = 25
	var all sync.WaitGroup
	for _, st := range []store.Store{e.st, e.open()} {
		all.Go(func() {
			for range each {
				err := st.Do(e.ctx, ask, func(f *store.Facts) (*store.Changes, error) {
					t := f.Turns[w.Key()]
					t.Number, t.Tries = t.Number+1, t.Tries+2
					return &store.Changes{Turns: map[rowkey.Worker]store.Turn{w.Key(): t}}, nil
				})
				if err != nil {
					e.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := e.see(ask).Turns[w.Key()]; got != (store.Turn{Number: 2 * each, Tries: 4 * each}) {
		e.Errorf("after %d exchanges the turn is %+v", 2*each, got)
	}
	other := rowkey.Worker(1)
	if got := e.see(&store.Query{Turns: []rowkey.Worker{other}}).Turns; len(got) != 0 {
		e.Errorf("a worker without a turn has %v", got)
	}
}
