package postgres

import (
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
)

// unfound returns the unfinished jobs, and their steps, that queries miss: they are in a wrong
// line (running.go), or run and are not in the table running. For each it returns what is
// wrong, and the statement that repairs it.
const unfound = `with open as materialized (
  select id, uuid, state, line, case state when 'PENDING' then 1 when 'SUBMITTED' then 2 else case when pool <> 0 or quota <> 0 then 3 else 0 end end as due
  from job where state in ('SUBMITTED', 'PENDING', 'RUNNING')
), step_of as materialized (
  select o.uuid, s.* from open o cross join lateral
    (select job, ord, state, line, worker, case when state = 'enqueued' then 1 when worker = 0 or pool <> 0 then 2 else 0 end as due
     from step where step.job = o.id and state in ('enqueued', 'in_progress') offset 0) s
), listed as materialized (
  select distinct worker, unnest(jobs) as job from running
)
select uuid, 0::bigint, format('it is %s in line %s, and belongs in %s', state, line, due), format('update job set line = %s where id = %s and state = %L', due, id, state)
from open where line <> due
union all
select uuid, ord, format('it is %s in line %s, and belongs in %s', state, line, due), format('update step set line = %s where job = %s and ord = %s and state = %L', due, job, ord, state)
from step_of where line <> due
union all
select uuid, 0, 'it runs and is not in the table running', format('insert into running (worker, jobs) values (0, ''{%s}'')', id)
from open where state = 'RUNNING' and not exists (select from listed where job = id)
union all
select uuid, ord, format('worker %s holds it, and the table running does not say so', worker), format('insert into running (worker, jobs) values (%s, ''{%s}'')', worker, job)
from step_of s where state = 'in_progress' and worker > 0 and not exists (select from listed l where l.job = s.job and l.worker = s.worker)
limit 20`

func (d *diagnosis) running() error {
	return d.rows(unfound, func(rows pgx.Rows) error {
		var uuid [16]byte
		var ord int64
		var what, cure string
		if err := rows.Scan(&uuid, &ord, &what, &cure); err != nil {
			return err
		}
		d.Say("running", health.Problem, entityName(uuid, ord), "%s", what)
		d.Advise(cure)
		return nil
	})
}

// entityName names the job, or the step of the job.
func entityName(uuid pawl.ID, ord int64) string {
	if ord == 0 {
		return "job " + uuid.Public(pawl.JobPrefix)
	}
	return "step " + uuid.Step(pawl.Ord(ord)).Public(pawl.StepPrefix)
}

const (
	doublesLimit = 5 * time.Second // how long trails are checked
	doublesPage  = 1000            // jobs at once
	maxDoubles   = 20              // how many are named
)

// doubled returns the entries, of jobs with keys in a range, that are stored more than once,
// in rows of their own or in the lists of others.
var doubled = fmt.Sprintf(`select (select uuid from job where id = t.job), ord, seq, count(*)
from trail t where job >= $1 and job < $2 and exists (select from job where id = t.job)
group by job, ord, seq having count(*) > 1 order by job, ord, seq limit %d`, maxDoubles)

// doubles checks the trails, those of the newest jobs first.
func (d *diagnosis) doubles() error {
	limit := time.Now().Add(doublesLimit)
	before, found := int64(math.MaxInt64), 0
	for found < maxDoubles && time.Now().Before(limit) {
		var from int64
		var n int
		err := d.conn.QueryRow(d.ctx, "select coalesce(min(id), 0), count(*) from (select id from job where id < $1 order by id desc limit $2) p", before, doublesPage).Scan(&from, &n)
		if err != nil || n == 0 {
			return err
		}
		err = d.rows(doubled, func(rows pgx.Rows) error {
			var uuid [16]byte
			var ord, seq int64
			var times int
			if err := rows.Scan(&uuid, &ord, &seq, &times); err != nil {
				return err
			}
			d.Say("audit_doubles", health.Problem, entityName(uuid, ord), "entry %d of its trail is stored %d times", seq, times)
			found++
			return nil
		}, from, before)
		if err != nil {
			return err
		}
		before = from
	}
	return nil
}
