package bench

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	zsqlite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Fill is the content of a database before a measurement.
type Fill struct {
	Finished int `json:"finished"` // no-op jobs that ended days ago
	Waiting  int `json:"waiting"`  // jobs that wait on a route that no worker serves
}

// Pour fills a database. The first job of each kind is a real one, and the others are copies
// of its rows, without a trail. progress is called for each part.
func (f Fill) Pour(ctx context.Context, t Target, progress func(what string)) error {
	finished, waiting, err := f.models(ctx, t)
	if err != nil {
		return err
	}
	now := time.Now()
	if err := pour(ctx, t, finished, f.Finished, now.AddDate(0, 0, -3), told(progress, "finished")); err != nil {
		return err
	}
	if err := pour(ctx, t, waiting, f.Waiting, now.AddDate(0, 0, -2), told(progress, "waiting")); err != nil {
		return err
	}
	return t.Tidy(ctx)
}

func told(progress func(string), kind string) func(done, all int) {
	return func(done, all int) { progress(fmt.Sprintf("filled with %d of %d %s jobs", done, all, kind)) }
}

// models creates a job of each requested kind and returns their keys.
func (f Fill) models(ctx context.Context, t Target) (finished, waiting rowkey.Job, err error) {
	p, err := t.Open(ctx, Crew{})
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if e := p.Close(); err == nil {
			err = e
		}
	}()
	if f.Finished > 0 {
		if err := warm(Noop)(ctx, p, Sizes{}); err != nil {
			return 0, 0, err
		}
		if finished, err = p.newest(ctx, lifecycle.JobCompleted); err != nil {
			return 0, 0, err
		}
	}
	if f.Waiting > 0 {
		if err := p.Submit(ctx, unserved, 1); err != nil {
			return 0, 0, err
		}
		waiting, err = p.newest(ctx, lifecycle.JobPending)
	}
	return finished, waiting, err
}

// newest waits for a job in that state and returns the key of the newest.
func (p *Pawl) newest(ctx context.Context, state machine.State) (key rowkey.Job, err error) {
	err = Poll(ctx, func() (bool, error) {
		jobs, err := p.config.Store.Jobs(ctx, store.JobFilter{States: []machine.State{state}, Limit: 1})
		if len(jobs) > 0 {
			key = jobs[0].ID.JobKey()
		}
		return len(jobs) > 0, err
	})
	if err == nil {
		err = p.settle(ctx)
	}
	return key, err
}

// pourBatch is how many copies are made between two calls of progress, all with the same
// second.
const pourBatch = 100_000

// pour makes n copies of a job.
func pour(ctx context.Context, t Target, model rowkey.Job, n int, at time.Time, progress func(done, all int)) error {
	for done := min(n, 1); done < n; {
		size := min(n-done, pourBatch-done%pourBatch)
		if err := t.Copy(ctx, model, size, at); err != nil {
			return fmt.Errorf("copy job %d: %w", model, err)
		}
		done, at = done+size, at.Add(time.Second)
		progress(done, n)
	}
	return nil
}

// copied are the tables with the rows of a job, and the columns of its key.
var copied = [...]struct{ table, key string }{{"job", "id"}, {"step", "job"}}

// selected returns the expressions of a copy for the columns of the model m: its number is i,
// from 1, and it was created at that time.
func selected(columns []string, at time.Time, uuid string) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		switch c {
		case "id", "job":
			list[i] = fmt.Sprintf("%d + i", pawl.KeyAt(at))
		case "uuid":
			list[i] = uuid
		case "rank":
			list[i] = fmt.Sprintf("%d + i", at.UnixMicro())
		case "created_at", "updated_at", "enqueued_at", "started_at", "completed_at":
			list[i] = fmt.Sprintf("case m.%s when 0 then 0 else %d + i end", c, at.UnixMicro())
		default:
			list[i] = "m." + c
		}
	}
	return strings.Join(list, ", ")
}

// prefix returns the first half of the ids made in the second of that time, in
// hexadecimal digits. The number of a copy goes into the second; see pawl.ID.
func prefix(at time.Time) string { return pawl.MakeID(at.Truncate(time.Second), 0, 0).Public("")[:16] }

// Copy implements Target.
func (p *Postgres) Copy(ctx context.Context, job rowkey.Job, n int, at time.Time) error {
	uuid := fmt.Sprintf("('%s' || to_hex((1::bigint << 63) | (i << 30)))::uuid", prefix(at))
	for _, c := range copied {
		rows, err := p.conn.Query(ctx, "select column_name::text from information_schema.columns where table_schema = $1 and table_name = $2", p.schema, c.table)
		if err != nil {
			return err
		}
		columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		sql := fmt.Sprintf("insert into %[1]s.%[2]s (%[3]s) select %[4]s from %[1]s.%[2]s m, generate_series(1::bigint, %[5]d) i where m.%[6]s = %[7]d",
			p.schema, c.table, strings.Join(columns, ", "), selected(columns, at, uuid), n, c.key, job)
		if _, err := p.conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// Tidy implements Target. A user without the right to request a checkpoint leaves it to the
// server.
func (p *Postgres) Tidy(ctx context.Context) error {
	if _, err := p.conn.Exec(ctx, fmt.Sprintf("vacuum analyze %[1]s.job, %[1]s.step", p.schema)); err != nil {
		return err
	}
	_, _ = p.conn.Exec(ctx, "checkpoint")
	return ctx.Err()
}

// Copy implements Target. It does not sync, since a partial copy after a crash is useless
// anyway.
func (s SQLite) Copy(ctx context.Context, job rowkey.Job, n int, at time.Time) (err error) {
	c, err := s.open(ctx, "pragma synchronous = off")
	if err != nil {
		return err
	}
	defer c.Close()
	defer sqlitex.Save(c)(&err)
	uuid := fmt.Sprintf("unhex('%s' || printf('%%016x', (1 << 63) | (i << 30)))", prefix(at))
	for _, t := range copied {
		var columns []string
		err := sqlitex.ExecuteTransient(c, "select name from pragma_table_info(?)", &sqlitex.ExecOptions{Args: []any{t.table}, ResultFunc: func(row *zsqlite.Stmt) error {
			columns = append(columns, row.ColumnText(0))
			return nil
		}})
		if err != nil {
			return err
		}
		sql := fmt.Sprintf("with recursive numbers (i) as (values (1) union all select i + 1 from numbers where i < %[4]d) insert into %[1]s (%[2]s) select %[3]s from numbers cross join %[1]s m where m.%[5]s = %[6]d",
			t.table, strings.Join(columns, ", "), selected(columns, at, uuid), n, t.key, job)
		if err := sqlitex.ExecuteTransient(c, sql, nil); err != nil {
			return err
		}
	}
	return nil
}

// Tidy implements Target. Pawl has no statistics on SQLite.
func (s SQLite) Tidy(ctx context.Context) error {
	c, err := s.open(ctx, "pragma wal_checkpoint(truncate)")
	if err != nil {
		return err
	}
	return c.Close()
}

// open returns a connection that has run a pragma.
func (s SQLite) open(ctx context.Context, pragma string) (*zsqlite.Conn, error) {
	c, err := zsqlite.OpenConn(s.Path, zsqlite.OpenReadWrite|zsqlite.OpenWAL)
	if err != nil {
		return nil, err
	}
	c.SetInterrupt(ctx.Done())
	if err := sqlitex.ExecuteTransient(c, pragma, nil); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
