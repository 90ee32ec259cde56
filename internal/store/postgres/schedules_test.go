package postgres

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestScheduleComesBackAsWritten sets every field to a value of its own.
func TestScheduleComesBackAsWritten(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	s := &pawl.Schedule{
		Record: pawl.Record{State: lifecycle.ScheduleActive, Seq: 1, Head: [32]byte{1}, DueAt: 2, DueEvent: "fire", CreatedAt: 3, UpdatedAt: 4},
		ID:     newID(), Workspace: "ws", Name: "nightly\x00", Workflow: "wf@3", Inputs: json.RawMessage(`{"a" : 1}`), Cron: "0 3 * * *", TimeZone: "Europe/Berlin",
		CatchUp: 5 * time.Hour, Overlap: "queue", Priority: -6, Due: 7, LastJob: 8, Waiting: 9,
	}
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) { d.NewSchedules = []*pawl.Schedule{s} })
	check := func(what string) {
		t.Helper()
		got, err := db.Schedule(t.Context(), s.Key())
		if diff := cmp.Diff(s, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
		}
	}
	check("new")
	inputs := s.Inputs
	do(t, db, &store.Query{Schedules: []rowkey.Schedule{s.Key(), 1}}, func(f *store.Facts, d *draft) {
		if diff := cmp.Diff(map[rowkey.Schedule]*pawl.Schedule{s.Key(): s}, f.Schedules); diff != "" {
			t.Errorf("facts (-want +got):\n%s", diff)
		}
		s = f.Schedules[s.Key()]
		s.Workflow, s.Cron, s.TimeZone, s.CatchUp, s.Overlap = "other", "* * * * *", "UTC", -1, "skip"
		s.Priority, s.Due, s.LastJob, s.Waiting, s.Inputs = 70, 71, 72, 73, nil
		d.moveSchedule(s, lifecycle.SchedulePaused, lifecycle.SchedulePause)
	})
	s.Inputs = inputs
	check("updated")
	if _, err := db.Schedule(t.Context(), 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("of none: %v", err)
	}
}

// TestSchedulesByName: a name belongs to one schedule that is not removed, and is
// free again with its removal.
func TestSchedulesByName(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	var old, b, other *pawl.Schedule
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		old, b, other = d.newSchedule("a"), d.newSchedule("B"), d.newSchedule("a")
		other.Workspace = "other"
	})
	twice := func() error { return try(db, &store.Query{}, func(_ *store.Facts, d *draft) { d.newSchedule("a") }) }
	if err := twice(); !errors.Is(err, store.ErrStale) {
		t.Errorf("a second of the name: %v, want ErrStale", err)
	}
	do(t, db, &store.Query{Schedules: []rowkey.Schedule{old.Key()}}, func(f *store.Facts, d *draft) {
		d.moveSchedule(f.Schedules[old.Key()], lifecycle.ScheduleRemoved, lifecycle.ScheduleRemove)
	})
	stale := try(db, &store.Query{}, func(_ *store.Facts, d *draft) { d.moveSchedule(old, lifecycle.SchedulePaused, lifecycle.SchedulePause) })
	if !errors.Is(stale, store.ErrStale) {
		t.Errorf("a change of what has moved on: %v, want ErrStale", stale)
	}
	if err := twice(); err != nil {
		t.Fatal(err)
	}
	keys := func(list []*pawl.Schedule, err error) (keys []rowkey.Schedule) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range list {
			keys = append(keys, s.Key())
		}
		return keys
	}
	own := keys(db.Schedules(t.Context(), pawl.ScheduleName{Workspace: "default"}, pawl.ScheduleName{}, 0))
	if len(own) != 2 || own[0] != b.Key() || own[1] == old.Key() {
		t.Errorf("schedules %v", own)
	}
	if diff := cmp.Diff([]rowkey.Schedule{b.Key(), own[1], other.Key()}, keys(db.Schedules(t.Context(), pawl.ScheduleName{}, pawl.ScheduleName{}, 0))); diff != "" {
		t.Errorf("of all workspaces:\n%s", diff)
	}
	q := &store.Query{Schedules: []rowkey.Schedule{old.Key()}, Scheduled: []pawl.ScheduleName{{Workspace: "default", Name: "a"}, {Workspace: "other", Name: "B"}}}
	do(t, db, q, func(f *store.Facts, _ *draft) {
		if len(f.Schedules) != 2 || f.Schedules[old.Key()] == nil || f.Schedules[own[1]] == nil {
			t.Errorf("facts %v, want the removed one by its key and the other by its name", f.Schedules)
		}
	})
}

// TestAScheduleThatIsRemovedMeanwhile is not answered by its name to the one who
// waited for it.
func TestAScheduleThatIsRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	var s *pawl.Schedule
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) { s = d.newSchedule("a") })
	seen := make(chan int, 1)
	q := &store.Query{Scheduled: []pawl.ScheduleName{{Workspace: "default", Name: "a"}}}
	do(t, db, q, func(f *store.Facts, d *draft) {
		go func() {
			if err := try(db, q, func(f *store.Facts, _ *draft) { seen <- len(f.Schedules) }); err != nil {
				t.Error(err)
				seen <- 0
			}
		}()
		await(t, db, "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')")
		d.moveSchedule(f.Schedules[s.Key()], lifecycle.ScheduleRemoved, lifecycle.ScheduleRemove)
	})
	if n := <-seen; n != 0 {
		t.Error("a removed schedule was answered by its name")
	}
}
