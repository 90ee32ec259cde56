package bench

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/store/postgres"
)

var _ Target = (*Postgres)(nil)

// lanes is the number of concurrent commits on PostgreSQL, and of its workers.
const lanes = 2

// Postgres is a schema of its own in a database.
type Postgres struct {
	config postgres.Config
	schema string
	conn   *pgx.Conn
}

// NewPostgres creates the schema. Close drops it.
func NewPostgres(ctx context.Context, c postgres.Config) (*Postgres, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme == "" {
		return nil, errors.New("want a URL: postgres://USER:PASSWORD@HOST/DATABASE")
	}
	conn, err := pgx.Connect(ctx, c.URL)
	if err != nil {
		return nil, err
	}
	p := &Postgres{config: c, schema: fmt.Sprintf("pawl_bench_%d", time.Now().UnixNano()), conn: conn}
	if _, err := conn.Exec(ctx, "create schema "+p.schema); err != nil {
		conn.Close(context.WithoutCancel(ctx))
		return nil, fmt.Errorf("make a schema to measure in: %w", err)
	}
	q := u.Query()
	q.Set("search_path", p.schema)
	q.Set("application_name", benchName)
	u.RawQuery = q.Encode()
	p.config.URL = u.String()
	return p, nil
}

// benchName is the application name of connections without a handle; see Left.
const benchName = "pawl bench"

// URL returns the URL of the schema.
func (p *Postgres) URL() string { return p.config.URL }

// Backend returns the process id of a process of the server.
func (p *Postgres) Backend() int { return int(p.conn.PgConn().PID()) }

// Close drops the schema, on a new connection if its own was closed by an interruption.
func (p *Postgres) Close(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	if p.conn.IsClosed() {
		if p.conn, err = pgx.Connect(ctx, p.config.URL); err != nil {
			return err
		}
	}
	defer p.conn.Close(ctx)
	_, err = p.conn.Exec(ctx, "drop schema "+p.schema+" cascade")
	return err
}

// Name implements Target.
func (p *Postgres) Name() string { return "postgres" }

// Open implements Target.
func (p *Postgres) Open(ctx context.Context, c Crew) (*Pawl, error) {
	db, err := postgres.Open(ctx, p.config)
	if err != nil {
		return nil, err
	}
	return NewPawl(PawlConfig{Store: db, Lanes: lanes, Crew: c.or(lanes), URL: p.config.URL}), nil
}

// Spent implements Target. The log belongs to the whole cluster: nothing else should use it
// meanwhile.
func (p *Postgres) Spent(ctx context.Context) (s Spent, err error) {
	err = p.conn.QueryRow(ctx, "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint").Scan(&s.WAL)
	return s, err
}

// Left implements Target. A connection reports its counts when it ends, soon after its client
// is gone.
func (p *Postgres) Left(ctx context.Context) (l Left, err error) {
	limit := time.Now().Add(leftLimit)
	err = Poll(ctx, func() (gone bool, err error) {
		err = p.conn.QueryRow(ctx, `select not exists (select from pg_stat_activity other, pg_stat_activity own
			where own.pid = pg_backend_pid() and other.pid <> own.pid and other.datid = own.datid
			and other.application_name like 'pawl %' and other.backend_start > own.backend_start)`).Scan(&gone)
		return gone || time.Now().After(limit), err
	})
	if err != nil {
		return l, err
	}
	err = p.conn.QueryRow(ctx, `select coalesce(sum(n_tup_upd + n_tup_del), 0)::bigint, coalesce(sum(n_tup_upd - n_tup_hot_upd + n_tup_del), 0)::bigint
		from pg_stat_user_tables where schemaname = $1`, p.schema).Scan(&l.Dead, &l.Indexed)
	return l, err
}

// leftLimit is how long other processes of Pawl on the same database are mistaken for own
// connections.
const leftLimit = 5 * time.Second

// Bare implements Target, on copies of the tables, without their secondary
// indexes, on as many connections as the engine has lanes.
func (p *Postgres) Bare(ctx context.Context, n int) (float64, error) {
	keys, err := p.copyTables(ctx)
	if err != nil {
		return 0, err
	}
	var conns [lanes]*pgx.Conn
	for i := range conns {
		if conns[i], err = pgx.Connect(ctx, p.config.URL); err != nil {
			return 0, err
		}
		defer conns[i].Close(context.WithoutCancel(ctx))
		if err := bareBatches(ctx, conns[i], keys[i], BareBatch, 0); err != nil { // prepares the statements
			return 0, err
		}
	}
	var errs [lanes]error
	var all sync.WaitGroup
	begun := time.Now()
	for i := range conns {
		all.Go(func() { errs[i] = bareBatches(ctx, conns[i], keys[i], n/lanes, 1) })
	}
	all.Wait()
	return float64(n/lanes*lanes) / time.Since(begun).Seconds(), errors.Join(errs[:]...)
}

// bareKeys are the keys of records: jobs and ords.
type bareKeys struct{ jobs, ords []int64 }

// copyTables returns the keys of the steps it copied, a share for each
// connection.
func (p *Postgres) copyTables(ctx context.Context) (keys [lanes]bareKeys, err error) {
	_, err = p.conn.Exec(ctx, fmt.Sprintf(`set search_path = %s;
		drop table if exists bare_step, bare_audit;
		create table bare_step (like step including storage including constraints, primary key (job, ord)) with (fillfactor = 80);
		create table bare_audit (like audit including storage including constraints, primary key (job, ord, seq));
		insert into bare_step select * from step limit %d;
		analyze bare_step`, p.schema, bareRecords))
	if err != nil {
		return keys, err
	}
	rows, err := p.conn.Query(ctx, "select job, ord from bare_step")
	if err != nil {
		return keys, err
	}
	var job, ord int64
	i := 0
	_, err = pgx.ForEachRow(rows, []any{&job, &ord}, func() error {
		k := &keys[i%lanes]
		k.jobs, k.ords = append(k.jobs, job), append(k.ords, ord)
		i++
		return nil
	})
	if err == nil && len(keys[lanes-1].jobs) == 0 {
		err = errors.New("there are no steps")
	}
	return keys, err
}

// bareBatches changes n records in turn, in one transaction and one round trip for each batch.
// Sequences begin at first.
func bareBatches(ctx context.Context, conn *pgx.Conn, keys bareKeys, n int, first int64) error {
	size := min(BareBatch, len(keys.jobs))
	place, seq := 0, first
	hashes := make([][]byte, size)
	for i := range hashes {
		hashes[i] = bareHash[:]
	}
	for done := 0; done < n; done += size {
		if place+size > len(keys.jobs) {
			place, seq = 0, seq+1
		}
		jobs, ords := keys.jobs[place:place+size], keys.ords[place:place+size]
		at := time.Now().UnixMicro()
		b := new(pgx.Batch) // one transaction, as it has no other
		b.Queue(`update bare_step t set state = 'complete', seq = $3, head = u.hash, updated_at = $5
			from unnest($1::bigint[], $2::bigint[], $4::bytea[]) u (job, ord, hash) where t.job = u.job and t.ord = u.ord`, jobs, ords, seq, hashes, at)
		b.Queue(`insert into bare_audit (job, ord, seq, state, event, reason, actor, request_id, at, hash)
			select job, ord, $3, 'complete', 'success', '', 'bench', '', $5, hash
			from unnest($1::bigint[], $2::bigint[], $4::bytea[]) u (job, ord, hash)`, jobs, ords, seq, hashes, at)
		if err := conn.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		place += size
	}
	return nil
}
