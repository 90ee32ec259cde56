package storetest

import (
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var pauseTests = []test{
	{name: "T13/Pauses/Facts", run: pauseFacts},
	{name: "T13/Pauses/List", run: pauseList},
	{name: "T13/Pauses/OneLasts", run: pauseTaken},
	{name: "T13/Pauses/Stale", run: pauseStale},
	{name: "K6/PauseTrail", run: pauseTrail},
}

func (e *env) pause(now int64, queue string) *pawl.QueuePause {
	return &pawl.QueuePause{ID: e.mint.ID(now), Workspace: "w", Queue: queue}
}

// addPause stores a pause that lasts.
func (e *env) addPause(queue string) *pawl.QueuePause {
	e.Helper()
	var p *pawl.QueuePause
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		p = e.pause(f.Now, queue)
		b.AddPause(p)
	})
	return p
}

// endPause stores a pause that has ended.
func (e *env) endPause(p *pawl.QueuePause) (now *pawl.QueuePause) {
	e.Helper()
	e.do(&store.Query{Pauses: []rowkey.QueuePause{p.Key()}}, func(f *store.Facts, b *Batch) {
		now = f.Pauses[p.Key()]
		b.MovePause(now, lifecycle.QueueResumeEvent)
	})
	return now
}

func (e *env) pausesOf(f store.PauseFilter) []*pawl.QueuePause {
	e.Helper()
	got, err := e.st.Pauses(e.ctx, f)
	e.ok(err)
	return got
}

// pauseFacts: by key in any state, and by queue while it lasts; each only once.
func pauseFacts(e *env) {
	a, b, gone := e.addPause("a"), e.addPause("b"), e.endPause(e.addPause("c"))
	keyed := func(list ...*pawl.QueuePause) map[rowkey.QueuePause]*pawl.QueuePause {
		m := map[rowkey.QueuePause]*pawl.QueuePause{}
		for _, p := range list {
			m[p.Key()] = p
		}
		return m
	}
	for what, tt := range map[string]struct {
		q    store.Query
		want map[rowkey.QueuePause]*pawl.QueuePause
	}{
		"by key":           {store.Query{Pauses: []rowkey.QueuePause{a.Key(), gone.Key(), 5}}, keyed(a, gone)},
		"by queue":         {store.Query{Paused: []pawl.QueueName{{Workspace: "w", Name: "a"}, {Workspace: "w", Name: "b"}, {Workspace: "w", Name: "c"}, {Workspace: "v", Name: "a"}}}, keyed(a, b)},
		"by key and queue": {store.Query{Pauses: []rowkey.QueuePause{a.Key()}, Paused: []pawl.QueueName{{Workspace: "w", Name: "a"}}}, keyed(a)},
		"not asked for":    {store.Query{}, keyed()},
	} {
		got := e.see(&tt.q).Pauses
		if got == nil {
			got = keyed()
		}
		e.diff(what, tt.want, got)
	}
}

// pauseList: newest first, in pages, by workspace and queue, or only those that last.
func pauseList(e *env) {
	a, b, c := e.endPause(e.addPause("a")), e.addPause("b"), e.addPause("a")
	for what, tt := range map[string]struct {
		f    store.PauseFilter
		want []*pawl.QueuePause
	}{
		"all":            {store.PauseFilter{}, []*pawl.QueuePause{c, b, a}},
		"first page":     {store.PauseFilter{Limit: 2}, []*pawl.QueuePause{c, b}},
		"second page":    {store.PauseFilter{Before: b.Key(), Limit: 2}, []*pawl.QueuePause{a}},
		"of a queue":     {store.PauseFilter{Workspace: "w", Queue: "a"}, []*pawl.QueuePause{c, a}},
		"that last":      {store.PauseFilter{Workspace: "w", Lasting: true}, []*pawl.QueuePause{c, b}},
		"one that lasts": {store.PauseFilter{Workspace: "w", Queue: "a", Lasting: true, Limit: 1}, []*pawl.QueuePause{c}},
		"elsewhere":      {store.PauseFilter{Workspace: "v"}, nil},
	} {
		e.diff(what, tt.want, e.pausesOf(tt.f))
	}
}

// pauseTaken: a queue has one pause that lasts.
func pauseTaken(e *env) {
	p := e.addPause("q")
	again := func() error {
		return e.try(e.st, &store.Query{}, func(f *store.Facts, b *Batch) { b.AddPause(e.pause(f.Now, "q")) })
	}
	if err := again(); !errors.Is(err, store.ErrStale) {
		e.Errorf("a second one of the queue: error %v, want ErrStale", err)
	}
	e.endPause(p)
	e.ok(again())
}

// pauseStale: a pause that another transaction has changed fails the transaction.
func pauseStale(e *env) {
	p := e.addPause("q")
	err := e.try(e.st, &store.Query{Pauses: []rowkey.QueuePause{p.Key()}}, func(f *store.Facts, b *Batch) {
		b.MovePause(f.Pauses[p.Key()], lifecycle.QueueResumeEvent)
		b.Pauses[0].Was--
	})
	if !errors.Is(err, store.ErrStale) {
		e.Errorf("error %v, want ErrStale", err)
	}
	e.diff("pause", []*pawl.QueuePause{p}, e.pausesOf(store.PauseFilter{}))
}

// pauseTrail: the entries come back with their entity, and so does the end of the trail.
func pauseTrail(e *env) {
	p := e.endPause(e.addPause("q"))
	got, err := e.st.Trail(e.ctx, PauseKey(p), 0, 0)
	e.ok(err)
	if len(got) != 2 || got[1].From != lifecycle.QueuePaused || got[1].Entity != p.ID.Public(pawl.QueuePausePrefix) || got[1].Hash != p.Head {
		e.Errorf("trail %+v", got)
	}
	heads, err := e.st.Heads(e.ctx, "queue_pause", 0, 1)
	e.ok(err)
	e.diff("head", []store.Leaf{{Kind: "queue_pause", Key: int64(p.Key()), ID: p.ID.Public(pawl.QueuePausePrefix), Sequence: 2, Head: p.Head}}, heads)
	e.verify(0)
}
