package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/store"
)

// The agenda is one statement, since a poll that finds nothing is all that an idle
// system does: every part walks a partial index on what is in flight, and stops at
// the limit. What each row is, its first column says.
var agenda = &statement{"agenda", `with recursive t as materialized (select ` + clock + ` as now),
-- Jobs that have marked steps: one probe of the index per job, however many of
-- its steps are marked.
m(job) as (
  (select job from step where mark = 1 order by job limit 1)
  union all
  select (select s.job from step s where s.mark = 1 and s.job > m.job order by s.job limit 1) from m where m.job is not null
)
select 0, now, ` + startOfServer + `, 0::bigint, 0::bigint, '' from t
union all (select 1, job, 0, 0, 0, '' from m where job is not null limit $1::bigint)
union all (select 1, id, 0, 0, 0, '' from job where mark = 1 order by id limit $1::bigint)
union all select 2, least(
  (select due_at from step where due_at > 0 and due_at > (select now from t) order by due_at limit 1),
  (select due_at from job where due_at > 0 and due_at > (select now from t) order by due_at limit 1),
  (select due_at from worker where due_at > 0 and due_at > (select now from t) order by due_at limit 1),
  (select due_at from schedule where due_at > 0 and due_at > (select now from t) order by due_at limit 1)), 0, 0, 0, ''
union all (select 3, 0, job, ord, due_at, due_event from step where due_at > 0 and due_at <= (select now from t) order by due_at limit $1::bigint)
union all (select 3, 1, id, 0, due_at, due_event from job where due_at > 0 and due_at <= (select now from t) order by due_at limit $1::bigint)
union all (select 3, 2, id, 0, due_at, due_event from worker where due_at > 0 and due_at <= (select now from t) order by due_at limit $1::bigint)
union all (select 3, 3, id, 0, due_at, due_event from schedule where due_at > 0 and due_at <= (select now from t) order by due_at limit $1::bigint)
union all (select 4, id, 0, 0, 0, '' from job where line = 1 and route = 0 and not paused order by rank, id limit $1::bigint offset $2::bigint)
union all (select 5, h.worker, 0, 0, 0, '' from (
    select h.worker from (select distinct worker from running where worker > 0 and $4::bool) h
      cross join lateral (select 1 from worker where id = h.worker and state = any($3::text[]) offset 0) w offset 0
  ) h where exists (` + heldBy("h.worker") + `) limit $1::bigint)
union all (select 6, l.id, l.beat, l.lock, 0, '' from (` + readLiving + `) l where $4::bool)
union all select 7, 0, 0, 0, 0, '' where $4::bool and exists (select 1 from running where due_at <= (select now from t))`}

var kinds = [...]string{kindStep, kindJob, kindWorker, kindSchedule}

// Look finds what needs the evaluator; see store.Ledger.
func (db *DB) Look(ctx context.Context, q store.LookQuery) (*store.Agenda, error) {
	var a *store.Agenda
	err := db.again(ctx, func() (bool, error) {
		var err error
		a, err = db.look(ctx, q)
		return false, err
	})
	return a, err
}

func (db *DB) look(ctx context.Context, q store.LookQuery) (*store.Agenda, error) {
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return nil, connectError(err)
	}
	defer conn.Release()
	a := new(store.Agenda)
	if q.Living {
		a.Living = new(health.Report)
	}
	p := db.pipe(conn)
	untidy := false
	p.add(agenda, func(c *cursor) { untidy = note(a, c) || untidy }, num(int64(q.Limit)), num(int64(q.Skip)),
		texts(lifecycle.Worker.Ends), truth(q.Living))
	if err := p.run(ctx); err != nil {
		return nil, queryError("look for work", err)
	}
	if untidy {
		p.add(tidy, nil)
		if err := p.run(ctx); err != nil {
			return nil, queryError("tidy up what runs", err)
		}
	}
	a.Marked = smallest(a.Marked, q.Limit)
	slices.SortStableFunc(a.Due, func(x, y store.Due) int { return cmp.Compare(x.At, y.At) })
	a.Due = a.Due[:min(len(a.Due), q.Limit)]
	return a, nil
}

// note adds one row of the agenda, or reports that the table of what runs is untidy.
func note(a *store.Agenda, c *cursor) (untidy bool) {
	switch c.num() {
	case 0:
		a.Now = c.num()
		if a.Living != nil {
			a.Living.Now, a.Living.Started = a.Now, c.num()
		}
	case 1:
		a.Marked = append(a.Marked, c.num())
	case 2:
		a.NextDue = c.num() // null is 0
	case 3:
		a.Due = append(a.Due, due(c))
	case 4:
		a.Pending = append(a.Pending, c.num())
	case 5:
		a.Orphans = append(a.Orphans, c.num())
	case 6:
		a.Living.Workers = append(a.Living.Workers, sighting(c))
	case 7:
		untidy = true
	}
	return untidy
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
