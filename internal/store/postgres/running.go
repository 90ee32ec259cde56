package postgres

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// The indexes on jobs and steps do not contain states: an update that touches no index costs
// the server half as much, and starting and ending work changes only states. A record is in a
// line while scans have to find it, and leaves the line when it starts to run. Running work is
// found by the table running: a commit that starts jobs, or claims steps, adds a row with all
// of them, which stays for a while after they have ended. The table thus has more than what
// runs, never less, and its readers check the records.

// The lines of jobs and of steps. Indexes and statements contain the numbers.
const (
	noLine = iota
	ready  // a pending job, an enqueued step
	other  // a submitted job; a step in progress that no worker holds, or that takes a slot of a pool
	slots  // a running job that takes slots of a pool or a quota
)

func lineOfJob(j *pawl.Job) int64 {
	switch {
	case j.State == lifecycle.JobPending:
		return ready
	case j.State == lifecycle.JobSubmitted:
		return other
	case j.State == lifecycle.JobRunning && (j.Pool != 0 || j.Quota != 0):
		return slots
	}
	return noLine
}

func lineOfStep(s *pawl.Step) int64 {
	switch {
	case s.State == lifecycle.StepEnqueued:
		return ready
	case s.State == lifecycle.StepInProgress && (s.Worker == 0 || s.Pool != 0):
		return other
	}
	return noLine
}

const (
	// openKeys are the keys of all jobs that have not ended, and of some that have.
	openKeys = "select id from job where line <> 0 union select unnest(jobs) from running"

	// openJobs are the jobs that have not ended, each found by its key.
	openJobs = "(select j.* from (" + openKeys + ") k" +
		" cross join lateral (select * from job where job.id = k.id and state in ('SUBMITTED', 'PENDING', 'RUNNING') offset 0) j)"

	// heldSteps are the steps that workers hold, found by their jobs: each job is read once,
	// however many workers work on it.
	heldSteps = "(select s.* from (select distinct unnest(jobs) as job from running where worker > 0) k" +
		" cross join lateral (select worker, route, job from step where step.job = k.job and state = 'in_progress' and worker > 0 offset 0) s)"
)

// heldBy returns the query for the steps of one worker, given as an expression. It reads only
// the worker's own rows.
func heldBy(worker string) string {
	return "select s.job, s.ord from (select distinct unnest(jobs) as job from running r where r.worker = " + worker + ") k" +
		" cross join lateral (select job, ord from step where step.job = k.job and step.worker = " + worker + " and state = 'in_progress' offset 0) s"
}

var (
	newRunning = inserting("new_running", "running", []column{{"id", "bigint"}, {"worker", "bigint"}, {"jobs", "bigint[]"}}, 1)

	// tidy removes rows that are due. It sees them and the records as of one moment: work that
	// starts later adds a row of its own. The last steps of a wide job are read first: those
	// before them have ended.
	tidy = &statement{"tidy", `with old as (
  delete from running where ctid = any (array(
    select ctid from running where due_at <= ` + clock + ` limit 1000 for update skip locked)) returning worker, jobs, wait
), one as (
  select distinct worker, least(2 * wait, 3600000000) as wait, job from old cross join lateral unnest(jobs) job
), still as (
  select distinct case when one.worker > 0 and exists (
    select 1 from step where step.job = one.job and step.worker = one.worker and step.state = 'in_progress' order by step.job desc, step.ord desc offset 0) then one.worker else 0 end as worker, wait, job
  from one cross join lateral (select 1 from job where job.id = one.job and job.state = 'RUNNING' offset 0) j
)
insert into running (worker, jobs, wait, due_at)
select worker, array_agg(job), wait, ` + clock + ` + wait
from (select *, (row_number() over (partition by worker, wait order by job) - 1) / 1000 as n from still) s group by worker, wait, n`}
)

// dropRunning waits for no lock, since it runs on the connection of the beats.
const dropRunning = `delete from running where ctid = any (array(
  select ctid from running where id = any($1) for update skip locked))`

// A holding is a worker and a job of which it holds a step.
type holding struct {
	worker rowkey.Worker
	job    rowkey.Job
}

// running adds work that starts: which worker gets a step, and which jobs start without one. A
// worker that has just held a step of the job is in a row with it.
func (w *writing) running(f *reading, ch *store.Changes) {
	held := make(map[holding]bool, len(ch.Steps))
	for _, u := range ch.Steps {
		if found := f.steps[u.Record.StepKey]; found != nil && found.was.State == lifecycle.StepInProgress {
			held[holding{found.was.Worker, u.Record.Job}] = true
		}
	}
	begun := make(map[rowkey.Worker][]rowkey.Job) // the jobs by worker
	named := make(map[rowkey.Job]bool, len(ch.Jobs)+len(ch.NewJobs))
	add := func(worker rowkey.Worker, job rowkey.Job) {
		if h := (holding{worker, job}); !held[h] {
			held[h], named[job] = true, true
			begun[worker] = append(begun[worker], job)
		}
	}
	claim := func(s *pawl.Step) {
		if s.State == lifecycle.StepInProgress && s.Worker > 0 {
			add(s.Worker, s.Job)
		}
	}
	for _, s := range ch.NewSteps {
		claim(s)
	}
	for _, u := range ch.Steps {
		claim(u.Record)
	}
	begin := func(j *pawl.Job, was machine.State) {
		if key := j.Key(); j.State == lifecycle.JobRunning && was != lifecycle.JobRunning && !named[key] {
			add(0, key)
		}
	}
	for _, j := range ch.NewJobs {
		begin(j, "")
	}
	for _, u := range ch.Jobs {
		var was machine.State
		if found := f.jobs[u.Record.Key()]; found != nil {
			was = found.was.State
		}
		begin(u.Record, was)
	}
	for _, worker := range slices.Sorted(maps.Keys(begun)) {
		row := runningRow{id: rand.Int64(), jobs: begun[worker]}
		w.addPart(newRunning, num(row.id), num(int64(worker)), nums(row.jobs))
		w.begun = append(w.begun, row)
	}
}

// A runningRow is a row of the table.
type runningRow struct {
	id   int64
	jobs []rowkey.Job
	left int // jobs that have not ended
}

// runningRows are the rows that this handle has made, until it has seen all jobs of a row end.
// Rows whose end it does not see are tidied up.
type runningRows struct {
	mu   sync.Mutex
	of   map[rowkey.Job][]*runningRow // by job
	gone []int64                      // rows to be deleted

	partial map[int64]*runningRow // rows of other processes of which not all jobs are known yet
}

const maxRunning = 100_000 // watched jobs; above this number all are forgotten

// see records a commit.
func (r *runningRows) see(w *writing, ch *store.Changes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = make(map[rowkey.Job][]*runningRow)
	}
	for i := range w.begun {
		row := &w.begun[i]
		if row.left = len(row.jobs); len(r.of)+row.left > maxRunning {
			clear(r.of) // others have ended most of them
		}
		for _, job := range row.jobs {
			r.of[job] = append(r.of[job], row)
		}
	}
	for _, u := range ch.Jobs {
		if lifecycle.Job.Ended(u.Record.State) {
			r.end(u.Record.Key())
		}
	}
}

func (r *runningRows) end(job rowkey.Job) {
	for _, row := range r.of[job] {
		if row.left--; row.left == 0 {
			r.gone = append(r.gone, row.id)
		}
	}
	delete(r.of, job)
}

// take returns the rows to be deleted, once.
func (r *runningRows) take() []int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	gone := r.gone
	r.gone = nil
	return gone
}

// dropEnded deletes the rows whose jobs have all ended, on the database that the session
// knows: a replica that has taken over, or a server that has crashed, may have lost an end
// that was confirmed. Rows that are not deleted are tidied up.
func (db *DB) dropEnded(ctx context.Context) {
	err := db.session.use(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		gone := db.running.take()
		if len(gone) == 0 {
			return nil
		}
		_, err := conn.Exec(ctx, dropRunning, gone)
		return err
	})
	if err != nil {
		db.log.Debug("what has run is left to be tidied up", "error", err)
	}
}

// forget drops all rows.
func (r *runningRows) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gone, r.partial = nil, nil
	clear(r.of)
}
