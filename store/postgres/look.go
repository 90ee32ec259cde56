package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/store"
)

// The agenda: every statement walks a partial index on what is in flight, and
// stops at the limit.
var (
	// Jobs that have marked steps: one probe of the index per job, however many
	// of its steps are marked.
	markedSteps = &statement{"marked_steps", `with recursive m(job) as (
  (select job from step where mark = 1 order by job limit 1)
  union all
  select (select s.job from step s where s.mark = 1 and s.job > m.job order by s.job limit 1) from m where m.job is not null
) select job from m where job is not null limit $1::bigint`}
	markedJobs = &statement{"marked_jobs", "select id from job where mark = 1 order by id limit $1::bigint"}

	dueRecords = &statement{"due_records", `(select 0, job, ord, due_at, due_event from step where due_at > 0 and due_at <= (select ` + clock + `) order by due_at limit $1::bigint)
union all (select 1, id, 0, due_at, due_event from job where due_at > 0 and due_at <= (select ` + clock + `) order by due_at limit $1::bigint)
union all (select 2, id, 0, due_at, due_event from worker where due_at > 0 and due_at <= (select ` + clock + `) order by due_at limit $1::bigint)
union all (select 3, id, 0, due_at, due_event from schedule where due_at > 0 and due_at <= (select ` + clock + `) order by due_at limit $1::bigint)`}
	// Asked before what is due: a deadline that passes between the two is in
	// both, and not in neither.
	nextDue = &statement{"next_due", `select least(
  (select due_at from step where due_at > 0 and due_at > (select ` + clock + `) order by due_at limit 1),
  (select due_at from job where due_at > 0 and due_at > (select ` + clock + `) order by due_at limit 1),
  (select due_at from worker where due_at > 0 and due_at > (select ` + clock + `) order by due_at limit 1),
  (select due_at from schedule where due_at > 0 and due_at > (select ` + clock + `) order by due_at limit 1))`}

	pendingJobs = &statement{"pending_jobs", "select id from job where state = 'PENDING' and route = 0 and not paused order by rank, id limit $1::bigint offset $2::bigint"}

	orphans = &statement{"orphans", `with recursive h(worker) as (
  (select worker from step where state = 'in_progress' and worker <> 0 order by worker limit 1)
  union all
  select (select s.worker from step s where s.state = 'in_progress' and s.worker <> 0 and s.worker > h.worker order by s.worker limit 1)
  from h where h.worker is not null
) select h.worker from h join worker w on w.id = h.worker where w.state = any($2::text[]) limit $1::bigint`}
)

var kinds = [...]string{kindStep, kindJob, kindWorker, kindSchedule}

// Look finds what needs the evaluator; see store.Ledger.
func (db *DB) Look(ctx context.Context, limit, skip int) (*store.Agenda, error) {
	var a *store.Agenda
	err := db.again(ctx, func() (bool, error) {
		var err error
		a, err = db.look(ctx, limit, skip)
		return false, err
	})
	return a, err
}

func (db *DB) look(ctx context.Context, limit, skip int) (*store.Agenda, error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, connectError(err)
	}
	defer conn.Release()
	a := new(store.Agenda)
	n := num(int64(limit))
	p := db.pipe(conn)
	p.add(now, func(c *cursor) { a.Now = c.num() })
	p.add(markedSteps, func(c *cursor) { a.Marked = append(a.Marked, c.num()) }, n)
	p.add(markedJobs, func(c *cursor) { a.Marked = append(a.Marked, c.num()) }, n)
	p.add(nextDue, func(c *cursor) { a.NextDue = c.num() })
	p.add(dueRecords, func(c *cursor) { a.Due = append(a.Due, due(c)) }, n)
	p.add(pendingJobs, func(c *cursor) { a.Pending = append(a.Pending, c.num()) }, n, num(int64(skip)))
	p.add(orphans, func(c *cursor) { a.Orphans = append(a.Orphans, c.num()) }, n, texts(lifecycle.Worker.Ends))
	if err := p.run(ctx); err != nil {
		return nil, queryError("look for work", err)
	}
	a.Marked = smallest(a.Marked, limit)
	slices.SortStableFunc(a.Due, func(x, y store.Due) int { return cmp.Compare(x.At, y.At) })
	a.Due = a.Due[:min(len(a.Due), limit)]
	return a, nil
}

func due(c *cursor) store.Due {
	var d store.Due
	d.Kind = kinds[c.num()]
	d.Job = c.num()
	d.Ord = pawl.Ord(c.num())
	d.At = c.num()
	d.Event = machine.Event(c.text())
	return d
}

// smallest sorts keys, and answers at most limit different ones.
func smallest(keys []int64, limit int) []int64 {
	slices.Sort(keys)
	keys = slices.Compact(keys)
	return keys[:min(len(keys), limit)]
}
