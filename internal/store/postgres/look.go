package postgres

import (
	"context"
	"math"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// The agenda is one statement, since an idle system does nothing but polls that find nothing:
// every part walks a partial index on work in flight, and stops at the limit. The first column
// of a row is its kind.
var agenda = &statement{"agenda", `with recursive t as materialized (select ` + clock + ` as now),
-- Jobs that have marked steps: one probe of the index per job and time, however many
-- of its steps were marked at once.
m(at, job) as (
  (select mark_at, job from step where mark_at > 0 and mark_at <= least($8, (select now from t)) and (mark_at, job) > ($6, $7)
    order by mark_at, job limit 1)
  union all
  select n.mark_at, n.job from m cross join lateral
    (select s.mark_at, s.job from step s where s.mark_at > 0 and s.mark_at <= least($8, (select now from t)) and (s.mark_at, s.job) > (m.at, m.job)
      order by s.mark_at, s.job limit 1) n
)
select 0, now, ` + startOfServer + `, 0::bigint, 0::bigint, '' from t
union all (select 1, at, job, 0, 0, '' from m limit $1::bigint)
union all (select 1, mark_at, id, 0, 0, '' from job where mark_at > 0 and mark_at <= least($8::bigint, (select now from t)) and (mark_at, id) > ($6::bigint, $7::bigint)
  order by mark_at, id limit $1::bigint)
union all select 2, least(
  (select mark_at from step where mark_at > 0 and mark_at > (select now from t) order by mark_at limit 1),
  (select mark_at from job where mark_at > 0 and mark_at > (select now from t) order by mark_at limit 1),
  (select due_at from step where due_at > 0 and due_at > (select now from t) order by due_at limit 1),
  (select due_at from job where due_at > 0 and due_at > (select now from t) order by due_at limit 1),
  (select due_at from worker where due_at > 0 and due_at > (select now from t) order by due_at limit 1),
  (select due_at from schedule where due_at > 0 and due_at > (select now from t) order by due_at limit 1),
  (select due_at from token where due_at > 0 and due_at > (select now from t) order by due_at limit 1)), 0, 0, 0, ''
union all (select 3, 0, id, 0, due_at, due_event from job where due_at > 0 and due_at <= least($10, (select now from t))
  and (due_at, id) > ($9, $11) order by due_at, id limit $1::bigint)
union all (select 3, 1, job, ord, due_at, due_event from step where due_at > 0 and due_at <= least($10::bigint, (select now from t))
  and (due_at, job, ord) > ($9::bigint, $12::bigint, $13::bigint) order by due_at, job, ord limit $1::bigint)
union all (select 3, 2, id, 0, due_at, due_event from worker where due_at > 0 and due_at <= least($10, (select now from t))
  and (due_at, id) > ($9, $14::bigint) order by due_at, id limit $1::bigint)
union all (select 3, 3, id, 0, due_at, due_event from schedule where due_at > 0 and due_at <= least($10, (select now from t))
  and (due_at, id) > ($9, $15::bigint) order by due_at, id limit $1::bigint)
union all (select 3, 4, id, 0, due_at, due_event from token where due_at > 0 and due_at <= least($10, (select now from t))
  and (due_at, id) > ($9, $16::bigint) order by due_at, id limit $1::bigint)
union all (select 4, id, rank, 0, 0, '' from job where line = 1 and route = 0 and not paused and (rank, id) > ($2::bigint, $5::bigint)
  order by rank, id limit $1::bigint)
union all (select 5, h.worker, coalesce((select at from beat where worker = h.worker), h.ended), 0, 0, '' from (
    select h.worker, w.ended from (select distinct worker from running where worker > 0 and $4::bool) h
      cross join lateral (select updated_at as ended from worker where id = h.worker and state = any($3::text[]) offset 0) w offset 0
  ) h where exists (` + heldBy("h.worker") + `) limit $1::bigint)
union all (select 6, l.id, l.beat, l.lock, l.silence, '' from (` + readLiving + `) l where $4::bool)
union all select 7, 0, 0, 0, 0, '' where $4::bool and exists (select 1 from running where due_at <= (select now from t))`}

// Look scans for work of the evaluator; see store.Ledger.
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
	conn, err := db.lookups.Acquire(ctx)
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
	p.add(agenda, func(c *cursor) { untidy = note(a, c) || untidy }, lookParams(&q)...)
	if err := p.run(ctx); err != nil {
		return nil, queryError("look for work", err)
	}
	if untidy {
		p.add(tidy, nil)
		if err := p.run(ctx); err != nil {
			return nil, queryError("tidy up what runs", err)
		}
	}
	slices.SortFunc(a.Marked, store.Marked.Compare)
	a.Marked = slices.Compact(a.Marked) // a job may be marked together with its steps
	a.Marked = a.Marked[:min(len(a.Marked), q.Limit)]
	slices.SortFunc(a.Due, store.Due.Compare)
	a.Due = a.Due[:min(len(a.Due), q.Limit)]
	return a, nil
}

// lookParams returns the parameters of the agenda.
func lookParams(q *store.LookQuery) [][]byte {
	until := func(at int64) []byte {
		if at == 0 {
			at = math.MaxInt64
		}
		return num(at)
	}
	rank := q.Pending.Rank
	if q.Pending.Job == 0 {
		rank = math.MinInt64
	}
	var behind [len(store.DueKinds)]pawl.StepKey
	for i, kind := range store.DueKinds {
		behind[i] = q.Due.Behind(kind)
	}
	job, step, worker, schedule, token := behind[0], behind[1], behind[2], behind[3], behind[4]
	return [][]byte{
		num(int64(q.Limit)), num(rank), texts(lifecycle.Worker.Ends), truth(q.Living), num(int64(q.Pending.Job)),
		num(q.Marked.At), num(int64(q.Marked.Job)), until(q.MarkedUntil),
		num(q.Due.At), until(q.DueUntil), num(int64(job.Job)), num(int64(step.Job)), num(int64(step.Ord)), num(int64(worker.Job)), num(int64(schedule.Job)), num(int64(token.Job)),
	}
}

// note adds one row of the agenda, and reports whether the table running needs tidying.
func note(a *store.Agenda, c *cursor) (untidy bool) {
	switch c.num() {
	case 0:
		a.Now = c.num()
		if a.Living != nil {
			a.Living.Now, a.Living.Started = a.Now, c.num()
		}
	case 1:
		a.Marked = append(a.Marked, store.Marked{At: c.num(), Job: rowkey.Job(c.num())})
	case 2:
		a.NextDue = c.num() // null is 0
	case 3:
		a.Due = append(a.Due, due(c))
	case 4:
		job := rowkey.Job(c.num())
		a.Pending = append(a.Pending, store.Ranked{Rank: c.num(), Job: job})
	case 5:
		a.Living.Ended = append(a.Living.Ended, health.Sighting{Worker: rowkey.Worker(c.num()), Beat: c.num()})
	case 6:
		a.Living.Workers = append(a.Living.Workers, sighting(c))
	case 7:
		untidy = true
	}
	return untidy
}

func due(c *cursor) store.Due {
	var d store.Due
	kind := store.DueKinds[c.num()]
	d.EntityKey = store.EntityOf(kind, c.num())
	d.Ord = pawl.Ord(c.num())
	d.At = c.num()
	d.Event = machine.Event(c.text())
	return d
}
