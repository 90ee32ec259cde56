package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

func open(t testing.TB, url string) *DB { return openOf(t, url, 0) }

// openOf opens a handle with so many connections.
func openOf(t testing.TB, url string, conns int) *DB {
	t.Helper()
	db, err := Open(context.Background(), Config{URL: url, MaxConns: conns, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	db.rooms.poison = poison
	t.Cleanup(func() {
		if err := db.pool.Ping(context.Background()); err == nil { // the test has not closed it, nor the server
			checkLines(t, db)
		}
		db.Close()
	})
	return db
}

// poison fills what a room has held with values that no test expects.
func poison(r *room) {
	for i := range r.params.block {
		r.params.block[i] = 0xaa
	}
	for i := range r.jobs.block {
		f := &r.jobs.block[i]
		f.xid, f.was.State = 0xdeadbeef, "POISON"
	}
	for i := range r.steps.block {
		f := &r.steps.block[i]
		f.xid, f.was.State = 0xdeadbeef, "POISON"
	}
}

func fresh(t testing.TB) *DB { return freshOf(t, 0) }

func freshOf(t testing.TB, conns int) *DB { return openOf(t, pgtest.Copy(t, migrated), conns) }

// migrated brings an empty database up to the newest schema.
func migrated(url string) error {
	db, err := Open(context.Background(), Config{URL: url})
	if err != nil {
		return err
	}
	return db.Close()
}

var counter atomic.Uint32

func newID() pawl.ID { return pawl.MakeID(time.Now(), counter.Add(1), rand.Uint64()) }

// A draft collects changes, and keeps the trail that belongs to them.
type draft struct {
	store.Changes
	now int64
}

func (d *draft) entry(k store.EntityKey, r *pawl.Record, entity string, from, to machine.State, event machine.Event) {
	e := audit.Entry{Entity: entity, Sequence: r.Seq + 1, From: from, To: to, Event: event, Actor: "test", At: d.now}
	e.Seal(r.Head)
	r.State, r.Seq, r.Head, r.UpdatedAt = to, e.Sequence, e.Hash, d.now
	d.Entries = append(d.Entries, store.Entry{EntityKey: k, Entry: e})
}

func keyOf(j *pawl.Job) store.EntityKey { return jobKey(j.Key(), 0) }

func (d *draft) newJob(route rowkey.Route) *pawl.Job { return d.newJobOf(newID(), route) }

func (d *draft) newJobOf(id pawl.ID, route rowkey.Route) *pawl.Job {
	j := &pawl.Job{ID: id, Workspace: "default", Workflow: "noop", WorkerCount: 1, Route: route, Open: 1, Inputs: []byte(`{"n":1}`)}
	j.CreatedAt = d.now
	d.entry(keyOf(j), &j.Record, j.ID.Public(pawl.JobPrefix), "", lifecycle.JobSubmitted, lifecycle.JobSubmit)
	d.entry(keyOf(j), &j.Record, j.ID.Public(pawl.JobPrefix), lifecycle.JobSubmitted, lifecycle.JobPending, lifecycle.JobValidate)
	d.NewJobs = append(d.NewJobs, j)
	return j
}

func (d *draft) newStep(j *pawl.Job, node int, route rowkey.Route) *pawl.Step {
	return d.newStepAt(j, pawl.MakeOrd(node, 0), route)
}

func (d *draft) newStepAt(j *pawl.Job, ord pawl.Ord, route rowkey.Route) *pawl.Step {
	s := &pawl.Step{StepKey: pawl.StepKey{Job: j.Key(), Ord: ord}, Route: route}
	s.CreatedAt = d.now
	d.entry(jobKey(s.Job, s.Ord), &s.Record, j.ID.Step(s.Ord).Public(pawl.StepPrefix), "", lifecycle.StepPending, lifecycle.StepCreate)
	d.NewSteps = append(d.NewSteps, s)
	return s
}

func (d *draft) newWorker() *pawl.Worker {
	w := &pawl.Worker{ID: newID(), Workspace: "default", Name: "w", Host: "h", PID: 1, Capacity: 4, Routes: []rowkey.Route{1, 2}, Handlers: []string{"default/echo"}, Metadata: []byte(`{"zone": "a"}`)}
	w.CreatedAt = d.now
	d.entry(store.WorkerEntity(w.Key()), &w.Record, w.ID.Public(pawl.WorkerPrefix), "", lifecycle.WorkerIdle, lifecycle.WorkerRegister)
	d.NewWorkers = append(d.NewWorkers, w)
	return w
}

func (d *draft) newSchedule(name string) *pawl.Schedule {
	s := &pawl.Schedule{ID: newID(), Workspace: "default", Name: name, Workflow: "noop", Cron: "* * * * *", TimeZone: "UTC", Overlap: "skip"}
	s.CreatedAt = d.now
	d.entry(store.ScheduleEntity(s.Key()), &s.Record, s.ID.Public(pawl.SchedulePrefix), "", lifecycle.ScheduleActive, lifecycle.ScheduleCreate)
	d.NewSchedules = append(d.NewSchedules, s)
	return s
}

func (d *draft) moveSchedule(s *pawl.Schedule, to machine.State, event machine.Event) {
	was := s.Seq
	d.entry(store.ScheduleEntity(s.Key()), &s.Record, s.ID.Public(pawl.SchedulePrefix), s.State, to, event)
	d.Schedules = append(d.Schedules, store.Update[*pawl.Schedule]{Record: s, Was: was})
}

func (d *draft) moveJob(j *pawl.Job, to machine.State, event machine.Event) {
	was := j.Seq
	d.entry(keyOf(j), &j.Record, j.ID.Public(pawl.JobPrefix), j.State, to, event)
	d.Jobs = append(d.Jobs, store.Update[*pawl.Job]{Record: j, Was: was})
}

// moveStep takes a step through moves, written as one update.
func (d *draft) moveStep(id pawl.ID, s *pawl.Step, moves ...any) {
	was := s.Seq
	for i := 0; i < len(moves); i += 2 {
		d.entry(jobKey(s.Job, s.Ord), &s.Record, id.Step(s.Ord).Public(pawl.StepPrefix), s.State, moves[i+1].(machine.State), moves[i].(machine.Event))
	}
	d.Steps = append(d.Steps, store.Update[*pawl.Step]{Record: s, Was: was})
}

// do runs a transaction whose decision cannot fail.
func do(t testing.TB, db *DB, q *store.Query, decide func(*store.Facts, *draft)) {
	t.Helper()
	if err := try(db, q, decide); err != nil {
		t.Fatal(err)
	}
}

func try(db *DB, q *store.Query, decide func(*store.Facts, *draft)) error {
	return db.Do(context.Background(), q, func(f *store.Facts) (*store.Changes, error) {
		d := &draft{now: f.Now}
		decide(f, d)
		return &d.Changes, nil
	})
}

// submit stores n jobs of one step on a route.
func submit(t testing.TB, db *DB, n int, route rowkey.Route) []*pawl.Job {
	t.Helper()
	var jobs []*pawl.Job
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		for range n {
			j := d.newJob(route)
			d.newStep(j, 1, route)
			jobs = append(jobs, j)
		}
	})
	return jobs
}

// enqueue moves the only step of each job to enqueued.
func enqueue(t testing.TB, db *DB, jobs []*pawl.Job) {
	t.Helper()
	q := &store.Query{}
	for _, j := range jobs {
		q.Jobs = append(q.Jobs, j.Key())
		q.Steps = append(q.Steps, pawl.StepKey{Job: j.Key(), Ord: pawl.MakeOrd(1, 0)})
	}
	do(t, db, q, func(f *store.Facts, d *draft) {
		for _, k := range q.Steps {
			j := f.Jobs[k.Job]
			d.moveJob(j, lifecycle.JobRunning, lifecycle.JobAllocateResources)
			d.moveStep(j.ID, f.Steps[k], lifecycle.StepEnqueue, lifecycle.StepEnqueued)
		}
	})
}

func workerName(w *pawl.Worker) string { return fmt.Sprintf("worker/%d", w.Key()) }
