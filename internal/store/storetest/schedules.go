package storetest

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var scheduleTests = []test{
	{name: "Schedules/ComeBack", run: schedulesComeBack},
	{name: "Schedules/Update", run: scheduleUpdate},
	{name: "Schedules/Stale", run: scheduleStale},
	{name: "Schedules/Facts", run: scheduleFacts},
	{name: "Schedules/List", run: scheduleList},
	{name: "Schedules/NameTaken", run: scheduleNameTaken},
	{name: "Schedules/NameFreeAgain", run: scheduleNameFree},
	{name: "Schedules/Racers", run: scheduleRacers},
	{name: "K6/ScheduleTrail", run: scheduleTrail},
}

// sameSchedule checks the stored schedule.
func (e *env) sameSchedule(want *pawl.Schedule) {
	e.Helper()
	got, err := e.st.Schedule(e.ctx, want.Key())
	e.ok(err)
	e.diff("schedule", want, got)
}

// changeSchedule moves a schedule by one event, after change was called on it, and returns the
// new schedule.
func (e *env) changeSchedule(key rowkey.Schedule, event machine.Event, change func(*pawl.Schedule)) *pawl.Schedule {
	e.Helper()
	var s *pawl.Schedule
	e.do(&store.Query{Schedules: []rowkey.Schedule{key}}, func(f *store.Facts, b *Batch) {
		s = f.Schedules[key]
		if change != nil {
			change(s)
		}
		b.MoveSchedule(s, event)
	})
	return s
}

func schedulesComeBack(e *env) {
	e.sameSchedule(e.addSchedule("nightly", nil))
	bare := e.addSchedule("bare", func(s *pawl.Schedule) {
		*s = pawl.Schedule{ID: s.ID, Workspace: "w", Name: "bare"}
	})
	e.sameSchedule(bare)
}

// scheduleUpdate: all changeable fields are written; inputs that are nil stay.
func scheduleUpdate(e *env) {
	s := e.addSchedule("nightly", nil)
	s = e.changeSchedule(s.Key(), "update", func(s *pawl.Schedule) {
		s.Workflow, s.Inputs, s.Cron, s.TimeZone = "other", json.RawMessage(`{"b":2}`), "@daily", "UTC"
		s.CatchUp, s.Overlap, s.Priority, s.Due, s.LastJob, s.Waiting = time.Nanosecond, "skip", 9, 31, 32, 33
		s.DueAt, s.DueEvent = 34, "skip"
	})
	e.sameSchedule(s)
	s = e.changeSchedule(s.Key(), "fire", func(s *pawl.Schedule) { s.Inputs, s.LastJob, s.DueAt = nil, 41, 0 })
	s.Inputs = json.RawMessage(`{"b":2}`)
	e.sameSchedule(s)
}

// scheduleStale: a record that another transaction changed or created fails the whole
// transaction.
func scheduleStale(e *env) {
	s := e.addSchedule("nightly", nil)
	for name, change := range map[string]func(f *store.Facts, b *Batch){
		"version": func(f *store.Facts, b *Batch) {
			b.MoveSchedule(f.Schedules[s.Key()], lifecycle.SchedulePause)
			b.Schedules[0].Was--
		},
		"exists": func(_ *store.Facts, b *Batch) { b.NewSchedules = append(b.NewSchedules, s) },
		"entry exists": func(_ *store.Facts, b *Batch) {
			b.Entries = append(b.Entries, store.Entry{EntityKey: ScheduleKey(s), Entry: audit.Entry{Sequence: 1, To: s.State, Event: "create"}})
		},
		"gone": func(f *store.Facts, b *Batch) {
			gone := *f.Schedules[s.Key()]
			gone.ID = e.mint.ID(f.Now)
			b.MoveSchedule(&gone, lifecycle.SchedulePause)
		},
	} {
		var m made
		err := e.try(e.st, &store.Query{Schedules: []rowkey.Schedule{s.Key()}}, func(f *store.Facts, b *Batch) {
			m = e.build(f.Now, 1, b, nil)
			change(f, b)
		})
		if !errors.Is(err, store.ErrStale) {
			e.Errorf("%s: error %v, want ErrStale", name, err)
		}
		e.absent(m.key())
		e.sameSchedule(s)
	}
}

// scheduleFacts: by key in any state, and by name unless removed; with inputs, and only once.
func scheduleFacts(e *env) {
	s, paused, removed := e.addSchedule("a", nil), e.addSchedule("b", nil), e.addSchedule("c", nil)
	paused = e.changeSchedule(paused.Key(), "pause", nil)
	removed = e.changeSchedule(removed.Key(), "remove", nil)
	keyed := func(list ...*pawl.Schedule) map[rowkey.Schedule]*pawl.Schedule {
		m := map[rowkey.Schedule]*pawl.Schedule{}
		for _, s := range list {
			m[s.Key()] = s
		}
		return m
	}
	named := func(workspace string, names ...string) (list []pawl.ScheduleName) {
		for _, n := range names {
			list = append(list, pawl.ScheduleName{Workspace: workspace, Name: n})
		}
		return list
	}
	for what, tt := range map[string]struct {
		q    store.Query
		want map[rowkey.Schedule]*pawl.Schedule
	}{
		"by key":            {store.Query{Schedules: []rowkey.Schedule{s.Key(), removed.Key(), 5}}, keyed(s, removed)},
		"by name":           {store.Query{Scheduled: named("w", "a", "b", "c", "d")}, keyed(s, paused)},
		"of another":        {store.Query{Scheduled: named("other", "a")}, keyed()},
		"by key and name":   {store.Query{Schedules: []rowkey.Schedule{s.Key()}, Scheduled: named("w", "a")}, keyed(s)},
		"not asked for":     {store.Query{}, keyed()},
		"key and name of 2": {store.Query{Schedules: []rowkey.Schedule{removed.Key()}, Scheduled: named("w", "b")}, keyed(removed, paused)},
	} {
		got := e.see(&tt.q).Schedules
		if got == nil {
			got = keyed()
		}
		e.diff(what, tt.want, got)
	}
}

// scheduleList: the schedules of a workspace by name (bytes), or of all; no removed ones.
func scheduleList(e *env) {
	in := func(workspace string) func(*pawl.Schedule) {
		return func(s *pawl.Schedule) { s.Workspace = workspace }
	}
	b, z, a := e.addSchedule("b", in("one")), e.addSchedule("Z", in("one")), e.addSchedule("a", in("one"))
	other := e.addSchedule("c", in("two"))
	gone := e.addSchedule("d", in("one"))
	e.changeSchedule(gone.Key(), "remove", nil)
	z = e.changeSchedule(z.Key(), "pause", nil)
	for workspace, want := range map[string][]*pawl.Schedule{"one": {z, a, b}, "two": {other}, "": {z, a, b, other}} {
		got, err := e.st.Schedules(e.ctx, pawl.ScheduleName{Workspace: workspace}, pawl.ScheduleName{}, 0)
		e.ok(err)
		e.diff("of "+workspace, want, got)
	}
	got, err := e.st.Schedules(e.ctx, pawl.ScheduleName{Workspace: "one", Name: "a"}, pawl.ScheduleName{}, 0)
	e.ok(err)
	e.diff("of one name", []*pawl.Schedule{a}, got)
	got, err = e.st.Schedules(e.ctx, pawl.ScheduleName{Workspace: "one", Name: "d"}, pawl.ScheduleName{}, 0)
	e.ok(err)
	e.diff("of one that is removed", []*pawl.Schedule(nil), got)
	got, err = e.st.Schedules(e.ctx, pawl.ScheduleName{Workspace: "three"}, pawl.ScheduleName{}, 0)
	e.ok(err)
	if len(got) != 0 {
		e.Errorf("schedules %v in a workspace that has none", got)
	}
}

// scheduleNameTaken: a name belongs to one schedule of its workspace.
func scheduleNameTaken(e *env) {
	s := e.addSchedule("nightly", nil)
	if err := e.tryAddSchedule("w"); !errors.Is(err, store.ErrStale) {
		e.Errorf("a second one of the name: error %v, want ErrStale", err)
	}
	e.changeSchedule(s.Key(), "pause", nil)
	if err := e.tryAddSchedule("w"); !errors.Is(err, store.ErrStale) {
		e.Errorf("while the first is paused: error %v, want ErrStale", err)
	}
	e.ok(e.tryAddSchedule("other"))
}

func (e *env) tryAddSchedule(workspace string) error {
	return e.try(e.st, &store.Query{}, func(f *store.Facts, b *Batch) {
		s := e.schedule(f.Now, "nightly")
		s.Workspace = workspace
		b.AddSchedule(s)
	})
}

// scheduleNameFree: a name is free again once its schedule is removed, which stays readable
// with its trail.
func scheduleNameFree(e *env) {
	old := e.addSchedule("nightly", nil)
	old = e.changeSchedule(old.Key(), "remove", nil)
	second := e.addSchedule("nightly", nil)
	f := e.see(&store.Query{Scheduled: []pawl.ScheduleName{{Workspace: "w", Name: "nightly"}}})
	e.diff("by name", map[rowkey.Schedule]*pawl.Schedule{second.Key(): second}, f.Schedules)
	e.sameSchedule(old)
	e.changeSchedule(second.Key(), "remove", nil)
	e.addSchedule("nightly", nil)
	e.verify(0)
}

// scheduleRacers: of many transactions that create a schedule of one name, one succeeds; and
// many changes of one schedule add up, since it is locked.
func scheduleRacers(e *env) {
	const n = 8
	errs := make(chan error, n) // one of each
	for range n {
		go func() { errs <- e.tryAddSchedule("w") }()
	}
	won := 0
	for range n {
		if err := <-errs; err == nil {
			won++
		} else if !errors.Is(err, store.ErrStale) {
			e.Errorf("error %v, want ErrStale", err)
		}
	}
	if won != 1 {
		e.Fatalf("%d made the schedule, want one", won)
	}
	name := pawl.ScheduleName{Workspace: "w", Name: "nightly"}
	for range n {
		go func() {
			errs <- e.try(e.st, &store.Query{Scheduled: []pawl.ScheduleName{name}}, func(f *store.Facts, b *Batch) {
				for _, s := range f.Schedules {
					b.MoveSchedule(s, lifecycle.ScheduleUpdate)
				}
			})
		}()
	}
	for range n {
		e.ok(<-errs)
	}
	list, err := e.st.Schedules(e.ctx, pawl.ScheduleName{Workspace: "w"}, pawl.ScheduleName{}, 0)
	e.ok(err)
	if len(list) != 1 || list[0].Seq != 1+n {
		e.Errorf("schedules %+v, want one at version %d", list, 1+n)
	}
}

// scheduleTrail: every field of every entry comes back, From and Entity included.
func scheduleTrail(e *env) {
	var want []audit.Entry
	var s *pawl.Schedule
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		s = e.schedule(f.Now, "nightly")
		b.AddSchedule(s)
		b.MoveSchedule(s, lifecycle.ScheduleFire, lifecycle.SchedulePause, lifecycle.ScheduleRemove)
		for _, entry := range b.Entries {
			want = append(want, entry.Entry)
		}
	})
	e.addSchedule("other", nil)
	got, err := e.st.Trail(e.ctx, ScheduleKey(s), 0, 0)
	e.ok(err)
	e.diff("trail", want, got)
	e.verify(0)
}
