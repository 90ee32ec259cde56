package pgtest

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// misplaced finds records in a wrong line, and running ones that the table running lacks.
// There must never be any.
const misplaced = `select 'job ' || id || ' is ' || state || ' in line ' || line from job where line <> case
  when state = 'PENDING' then 1 when state = 'SUBMITTED' then 2 when state = 'RUNNING' and (pool <> 0 or quota <> 0) then 3 else 0 end
union all select 'step ' || job || '/' || ord || ' is ' || state || ' in line ' || line from step where line <> case
  when state = 'enqueued' then 1 when state = 'in_progress' and (worker = 0 or pool <> 0) then 2 else 0 end
union all select 'job ' || id || ' runs and is not listed' from job
  where state = 'RUNNING' and id not in (select unnest(jobs) from running)
union all select 'step ' || job || '/' || ord || ' is held and not listed' from step
  where state = 'in_progress' and worker > 0 and (worker, job) not in (select worker, unnest(jobs) from running)
limit 10`

// Misplaced returns the records that a query could overlook in the tables that conn sees.
func Misplaced(ctx context.Context, conn *pgx.Conn) ([]string, error) {
	rows, err := conn.Query(ctx, misplaced)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}
