package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// TestDue: deadlines of steps, jobs, workers and schedules, by time (K8).
func TestDue(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	var want []store.Due
	var future int64
	do(t, db, &store.Query{}, func(f *store.Facts, d *draft) {
		j, later := d.newJob(1), d.newJob(1)
		s, w, sc := d.newStep(j, 1, 1), d.newWorker(), d.newSchedule("s")
		j.DueAt, j.DueEvent = f.Now-1000, "cancel"
		s.DueAt, s.DueEvent = f.Now-3000, "timeout"
		w.DueAt, w.DueEvent = f.Now-2000, "terminate"
		sc.DueAt, sc.DueEvent = f.Now-1500, "fire"
		future = f.Now + 3600e6
		later.DueAt = future + 1
		d.newSchedule("later").DueAt = future
		want = []store.Due{
			{EntityKey: jobKey(s.Job, s.Ord), At: s.DueAt, Event: "timeout"},
			{EntityKey: store.WorkerEntity(w.Key()), At: w.DueAt, Event: "terminate"},
			{EntityKey: store.ScheduleEntity(sc.Key()), At: sc.DueAt, Event: "fire"},
			{EntityKey: jobKey(j.Key(), 0), At: j.DueAt, Event: "cancel"},
		}
	})
	a, err := db.Look(t.Context(), store.LookQuery{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, a.Due); diff != "" || a.NextDue != future {
		t.Errorf("next %d, want %d; due (-want +got):\n%s", a.NextDue, future, diff)
	}
	if a, err = db.Look(t.Context(), store.LookQuery{Limit: 1}); err != nil || len(a.Due) != 1 || a.Due[0] != want[0] {
		t.Errorf("with a limit of 1: %v, %v", a, err)
	}
}

// TestLifeOfAWorker: a name is held by one, beats and stops, and how the lock of a
// worker is found: held, lost with the connection, or released (J9, T10).
func TestLifeOfAWorker(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	other := open(t, db.cfg.URL)
	var w *pawl.Worker
	var s *pawl.Step
	do(t, db, &store.Query{}, func(f *store.Facts, d *draft) {
		d.now -= 10e6 // registered ten seconds ago
		w = d.newWorker()
		j := d.newJob(1)
		s = d.newStep(j, 1, 1)
		s.State, s.Worker, s.Claims, s.DueAt, s.DueEvent = lifecycle.StepInProgress, w.Key(), 4, d.now+30e6, lifecycle.StepCancel
	})
	seen := func(what string, old time.Duration, lock health.Lock) {
		t.Helper()
		r, err := other.Observe(t.Context())
		if err != nil || len(r.Workers) != 1 || r.Started == 0 {
			t.Fatalf("%s: %+v, %v; want one worker, and the start of the server", what, r, err)
		}
		got := r.Workers[0]
		if age := time.Duration(r.Now-got.Beat) * time.Microsecond; got.Worker != w.Key() || got.Lock != lock || age < old || age > old+5*time.Second {
			t.Errorf("%s: heard of %s ago, with lock %d; want %s and %d", what, age, got.Lock, old, lock)
		}
	}
	seen("registered, and nothing since", 10*time.Second, health.Free)
	said, err := db.Beat(t.Context(), link.Pulse{Worker: w.Key(), Claims: []link.Stop{{StepKey: s.StepKey, Claim: 4}}})
	if err != nil || len(said.Stops) != 1 || said.Stops[0].Claim != 4 {
		t.Errorf("beat answers %v, %v", said, err)
	}
	release, err := db.Hold(t.Context(), workerName(w), []byte(`{"pid":1}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range []*DB{db, other} {
		var held *store.HeldError
		if _, err := h.Hold(t.Context(), workerName(w), nil); !errors.As(err, &held) || string(held.Note) != `{"pid":1}` {
			t.Errorf("second hold: %v, want a HeldError with the note", err)
		}
	}
	seen("held", 0, health.Held)
	if _, err := db.pool.Exec(t.Context(), "update beat set at = at - 7000000"); err != nil {
		t.Fatal(err)
	}
	seen("held, without a beat", 7*time.Second, health.Held)
	if _, err := db.Beat(t.Context(), link.Pulse{Worker: w.Key()}); err != nil {
		t.Fatal(err)
	}
	release()
	release()
	seen("released", 0, health.Free)
	crashed := open(t, db.cfg.URL)
	if _, err := crashed.Hold(t.Context(), workerName(w), nil); err != nil {
		t.Fatal(err)
	}
	crashed.session.mu.Lock() // it cannot take the name again
	defer crashed.session.mu.Unlock()
	if _, err := other.pool.Exec(t.Context(), "select pg_terminate_backend($1, 5000)", int32(crashed.session.conn.PgConn().PID())); err != nil {
		t.Fatal(err)
	}
	seen("its connection was lost", 0, health.Lost)
	// An ended worker that holds a step is an orphan's owner, and not reaped.
	do(t, db, &store.Query{Workers: []rowkey.Worker{w.Key()}}, func(f *store.Facts, d *draft) {
		r := f.Workers[w.Key()]
		was := r.Seq
		d.entry(store.WorkerEntity(w.Key()), &r.Record, "", r.State, lifecycle.WorkerTerminated, lifecycle.WorkerTerminate)
		d.Workers = append(d.Workers, store.Update[*pawl.Worker]{Record: r, Was: was})
	})
	a, err := db.Look(t.Context(), store.LookQuery{Limit: 5, Living: true})
	if err != nil || len(a.Living.Ended) != 1 || a.Living.Ended[0].Worker != w.Key() || len(a.Living.Workers) != 0 {
		t.Errorf("living %+v, %v; want the worker among the ended alone", a.Living, err)
	}
	if list, err := db.Workers(t.Context(), store.WorkerFilter{Living: true}); err != nil || len(list) != 0 {
		t.Errorf("living workers %v, %v", list, err)
	}
}

// TestHoldOutlivesItsConnection: a name is taken again when the connection broke.
func TestHoldOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	other := open(t, db.cfg.URL)
	if _, err := db.Hold(t.Context(), "it", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	pid := func() uint32 {
		db.session.mu.Lock()
		defer db.session.mu.Unlock()
		return db.session.conn.PgConn().PID()
	}
	was := pid()
	if _, err := other.pool.Exec(t.Context(), "select pg_terminate_backend($1, 5000)", int32(was)); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Beat(t.Context(), link.Pulse{Worker: 1}); err != nil {
		t.Fatalf("beat on a broken session: %v", err)
	}
	if pid() == was {
		t.Fatal("the session was not opened anew")
	}
	var held *store.HeldError
	if _, err := other.Hold(t.Context(), "it", nil); !errors.As(err, &held) {
		t.Errorf("hold: %v, want a HeldError", err)
	}
	db.Close()
	if _, err := other.Hold(t.Context(), "it", nil); err != nil {
		t.Errorf("hold after its holder closed: %v", err)
	}
}

// TestWake: hints reach others, and not oneself.
func TestWake(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	other := open(t, db.cfg.URL)
	hear := func(h *DB) chan store.Topic {
		heard := make(chan store.Topic, 100) // more than this test sends
		done := make(chan error, 1)
		go func() { done <- h.Listen(t.Context(), func(h store.Hint) { heard <- h.Topic }) }()
		t.Cleanup(func() {
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		return heard
	}
	own, others := hear(db), hear(other)
	deadline := time.After(10 * time.Second)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	got := map[store.Topic]bool{}
	for len(got) < 2 {
		select {
		case topic := <-others:
			got[topic] = true
		case <-again.C: // the listener may not listen yet
			db.Wake(1, store.TopicWork, store.TopicStops)
		case <-deadline:
			t.Fatalf("heard %v only", got)
		}
	}
	// What other says now comes after all that db said: none of it was heard here.
	other.Wake(0, store.TopicMarks)
	for {
		select {
		case topic := <-own:
			if topic != store.TopicMarks {
				t.Errorf("heard its own hint %s", topic)
			}
			return
		case <-again.C:
			other.Wake(0, store.TopicMarks)
		case <-deadline:
			t.Fatal("nothing heard")
		}
	}
}

// TestAHintOutlivesItsConnection: who listens notices nothing if the connection of the sender has
// ended, and polls nothing, so the hint is sent on another one (T3).
func TestAHintOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	other := open(t, db.cfg.URL)
	heard := make(chan store.Topic, 100)
	go other.Listen(t.Context(), func(h store.Hint) { heard <- h.Topic })
	eventually(t, "the handle hears hints", other.Hears)
	for _, topic := range []store.Topic{store.TopicMarks, store.TopicStops} {
		db.Wake(0, topic)
		select {
		case got := <-heard:
			if got != topic {
				t.Errorf("heard %s, want %s", got, topic)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s was not heard", topic)
		}
		execute(t, other, "select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = current_database() and query like 'select pg_notify%'")
	}
}

// TestTrails: whole trails with their records, by job, step, worker, schedule (K6).
func TestTrails(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	jobs := submit(t, db, trailPage+5, 1)
	enqueue(t, db, jobs[:2])
	var w *pawl.Worker
	var sc *pawl.Schedule
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		sc = d.newSchedule("s")
		for range trailPage + 3 {
			w = d.newWorker()
		}
	})
	do(t, db, &store.Query{Schedules: []rowkey.Schedule{sc.Key()}}, func(f *store.Facts, d *draft) {
		d.moveSchedule(f.Schedules[sc.Key()], lifecycle.SchedulePaused, lifecycle.SchedulePause)
	})
	// A job whose record is gone, and a record whose trail is gone.
	for _, sql := range []string{"delete from job where id = $1", "delete from audit where job = $1::bigint + 1"} {
		if _, err := db.pool.Exec(t.Context(), sql, jobs[3].Key()); err != nil {
			t.Fatal(err)
		}
	}
	var seen []store.EntityKey
	err := db.Trails(t.Context(), 0, func(tr store.TrailOf) error {
		seen = append(seen, tr.EntityKey)
		switch {
		case tr.Job == jobs[3].Key() && tr.Ord == 0:
			if tr.Record.Seq != 0 || len(tr.Entries) != 2 {
				t.Errorf("of a record that is gone: %+v", tr)
			}
		case tr.Job == jobs[4].Key():
			if tr.Record.Seq == 0 || len(tr.Entries) != 0 {
				t.Errorf("of a trail that is gone: %+v", tr)
			}
		case tr.Job != jobs[3].Key():
			checkTrail(t, tr)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := 2*len(jobs) + trailPage + 3 + 1
	if len(seen) != want || seen[0] != keyOf(jobs[0]) || seen[1].StepKey != first(jobs[0]) || seen[want-2] != store.WorkerEntity(w.Key()) ||
		seen[want-1] != store.ScheduleEntity(sc.Key()) {
		t.Errorf("%d trails, want %d: %v", len(seen), want, seen)
	}
	for _, k := range seen[want-2:] {
		entries, err := db.Trail(t.Context(), k, 0, 0)
		if err != nil || len(entries) == 0 || entries[0].Sequence != 1 || entries[0].Entity == "" {
			t.Errorf("trail of %v: %v, %v", k, entries, err)
		}
	}
	n := 0
	stop := errors.New("stop")
	if err := db.Trails(t.Context(), jobs[0].Key(), func(store.TrailOf) error { n++; return nil }); err != nil || n != 2 {
		t.Errorf("of one job: %d trails, %v", n, err)
	}
	if err := db.Trails(t.Context(), 0, func(store.TrailOf) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v, want the error of f", err)
	}
}

func checkTrail(t *testing.T, tr store.TrailOf) {
	t.Helper()
	var head [32]byte
	var state machine.State
	for i, e := range tr.Entries {
		if e.From != state || e.Sequence != int64(i+1) || e.Entity != tr.ID {
			t.Errorf("%v: entry %d is %+v", tr.EntityKey, i, e)
		}
		again := e
		again.Seal(head)
		if again.Hash != e.Hash {
			t.Errorf("%v: entry %d does not hash to what it says", tr.EntityKey, i)
		}
		head, state = e.Hash, e.To
	}
	if tr.Record.Head != head || tr.Record.State != state || tr.Record.Seq != int64(len(tr.Entries)) {
		t.Errorf("%v: record %+v does not stand at the end of its trail", tr.EntityKey, tr.Record)
	}
}
