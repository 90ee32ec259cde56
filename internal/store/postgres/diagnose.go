package postgres

import (
	"context"
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/store"
)

// made lists what the migrations make, one line each, as catalogSQL returns it
// of a database that is brought up. A test writes it anew (-update).
//
//go:embed schema.txt
var made string

// diagnosisLimit bounds each statement of a diagnosis.
const diagnosisLimit = "20s"

// Diagnose reports what is wrong with the database and its server. It changes nothing, and
// works for any schema version.
func Diagnose(ctx context.Context, cfg Config) []health.Finding { return diagnose(ctx, cfg, 0) }

// diagnose judges ages as they will be after later.
func diagnose(ctx context.Context, cfg Config, later time.Duration) []health.Finding {
	d := &diagnosis{ctx: ctx, later: later, Diagnosis: new(health.Diagnosis)}
	s, err := OpenSchema(ctx, cfg)
	if err == nil {
		d.schema = s
		err = s.with(ctx, func(conn *pgx.Conn) error { d.conn = conn; return d.all() })
	}
	if err != nil {
		d.Unusable(err)
	}
	return d.Findings
}

// A diagnosis is one examination of a database, on a connection of its own.
type diagnosis struct {
	*health.Diagnosis
	ctx    context.Context
	later  time.Duration
	schema *Schema
	conn   *pgx.Conn
}

// all makes every check. A failed check does not stop the others.
func (d *diagnosis) all() error {
	if _, err := d.conn.Exec(d.ctx, "set statement_timeout = '"+diagnosisLimit+"'; set default_transaction_read_only = on"); err != nil {
		return queryError("begin the diagnosis", err)
	}
	var server string
	if err := d.conn.QueryRow(d.ctx, "select current_setting('server_version')").Scan(&server); err != nil {
		return queryError("ask the server for its version", err)
	}
	d.Say("database", health.OK, "", "PostgreSQL %s, UTF8, schema %s", server, d.schema.name)
	current, err := version(d.ctx, d.conn)
	if err != nil {
		return err
	}
	d.version(current)
	for _, c := range []struct {
		name string
		look func() error
	}{
		{"settings", d.settings}, {"connections", d.connections}, {"sight", d.sight}, {"transactions", d.transactions},
		{"prepared_transactions", d.prepared}, {"replication", d.replication}, {"lock_waits", d.lockWaits}, {"autovacuum", d.autovacuum},
	} {
		d.check(c.name, c.look)
	}
	d.Well("replication_wal")
	if current.Current == len(migrations()) {
		d.check("schema", d.catalog)
		d.check("dead_rows", d.deadRows)
		d.check("audit_partitions", d.partitions)
		d.check("audit_rest", d.rest)
		d.check("running", d.running)
		d.check("audit_doubles", d.doubles)
	}
	return nil
}

func (d *diagnosis) check(name string, look func() error) {
	if err := look(); err != nil {
		d.Fail(name, err)
	}
	d.Well(name)
}

func (d *diagnosis) version(v store.SchemaVersion) {
	newest := len(migrations())
	switch err := v.Check(migrations()); {
	case v.Current == 0:
		d.Say("schema_version", health.Warning, "", "the database is empty: pawl migrate up, or the first command that needs it, makes the tables")
	case err != nil:
		d.Say("schema_version", health.Problem, "", "%s", err.Error())
	case v.Current < newest:
		d.Say("schema_version", health.Warning, "", "version %d, and this program brings %d", v.Current, newest)
	default:
		d.Say("schema_version", health.OK, "", "version %d", v.Current)
	}
}

// rows passes the rows of a query to f, which scans each.
func (d *diagnosis) rows(sql string, f func(pgx.Rows) error, args ...any) error {
	rows, err := d.conn.Query(d.ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func (d *diagnosis) settings() error {
	return d.rows(`select name, setting from pg_settings
where name in ('fsync', 'full_page_writes', 'synchronous_commit', 'track_counts') and setting = 'off' order by name`, func(rows pgx.Rows) error {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return err
		}
		severity := health.Problem
		if name == "synchronous_commit" {
			severity = health.Warning
		}
		d.Say("settings", severity, name, "it is %s", value)
		return nil
	})
}

func (d *diagnosis) connections() error {
	var used, most int
	err := d.conn.QueryRow(d.ctx, `select (select count(*) from pg_stat_activity where backend_type = 'client backend'),
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int`).Scan(&used, &most)
	if err != nil {
		return err
	}
	sum, processes, each := 0, 0, ""
	err = d.rows(`select application_name, coalesce(host(min(client_addr)), 'the same machine'), count(*) from pg_stat_activity
where backend_type = 'client backend' and application_name like 'pawl %' and pid <> pg_backend_pid() group by application_name order by 3 desc, 1`, func(rows pgx.Rows) error {
		var name, host string
		var n int
		err := rows.Scan(&name, &host, &n)
		if sum, processes = sum+n, processes+1; processes <= maxShown {
			each += fmt.Sprintf("; %s from %s has %d", name, host, n)
		}
		return err
	})
	if err != nil {
		return err
	}
	if processes > maxShown {
		each += fmt.Sprintf("; %d more have fewer", processes-maxShown)
	}
	d.Say("connections", health.SeverityOf("connections", 100*float64(used)/float64(most)), "", "%d of %d connections are in use, %d of them by processes of Pawl%s", used, most, sum, each)
	return nil
}

// maxShown is of how many processes the connections are shown, those with the most first.
const maxShown = 10

func (d *diagnosis) sight() error {
	var hidden int
	err := d.conn.QueryRow(d.ctx, `select count(*) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and state is null and usename <> current_user
  and not pg_has_role('pg_read_all_stats', 'usage')`).Scan(&hidden)
	if err == nil && hidden > 0 {
		d.Say("sight", health.Warning, "", "%d sessions of other users cannot be seen", hidden)
	}
	return err
}

// who is the SQL expression that describes the owner of a session.
const who = `'session ' || a.pid || ' of ' || coalesce(a.usename, '?') || coalesce(' (' || nullif(a.application_name, '') || ')', '')
  || coalesce(' from ' || host(a.client_addr), '')`

func (d *diagnosis) transactions() error {
	return d.rows(`select `+who+`, a.state, extract(epoch from clock_timestamp() - a.xact_start)::float8, a.xact_start,
  a.backend_xmin is not null or a.backend_xid is not null
from pg_stat_activity a
where a.datname = current_database() and a.backend_type = 'client backend' and a.pid <> pg_backend_pid() and a.xact_start is not null
order by a.xact_start limit 20`, func(rows pgx.Rows) error {
		var whose, state string
		var age float64
		var since time.Time
		var holds bool
		if err := rows.Scan(&whose, &state, &age, &since, &holds); err != nil {
			return err
		}
		effect := ""
		if holds {
			effect = ", and holds back vacuum"
		}
		age += d.later.Seconds()
		d.Grade("transactions", age, whose, "its transaction is open since %s (%s), %s%s", moment(since), health.Seconds.Format(age), state, effect)
		return nil
	})
}

func moment(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

func (d *diagnosis) prepared() error {
	return d.rows(`select gid, owner::text, prepared, extract(epoch from clock_timestamp() - prepared)::float8
from pg_prepared_xacts where database = current_database() order by prepared limit 20`, func(rows pgx.Rows) error {
		var gid, owner string
		var at time.Time
		var age float64
		if err := rows.Scan(&gid, &owner, &at, &age); err != nil {
			return err
		}
		age += d.later.Seconds()
		d.Grade("prepared_transactions", age, gid, "it was prepared by %s at %s (%s ago)", owner, moment(at), health.Seconds.Format(age))
		return nil
	})
}

// replication checks slots, and standbys that send feedback. A physical slot holds back the
// vacuum of every database, a logical one that of its own.
func (d *diagnosis) replication() error {
	return d.rows(`select 'slot ' || slot_name || case when active then '' else ' (inactive)' end,
  greatest(age(xmin), age(catalog_xmin), 0)::float8,
  coalesce(pg_wal_lsn_diff(case when pg_is_in_recovery() then pg_last_wal_receive_lsn() else pg_current_wal_lsn() end, restart_lsn), 0)::float8
from pg_replication_slots where database is null or database = current_database()
union all
select 'standby ' || coalesce(nullif(application_name, ''), pid::text), greatest(age(backend_xmin), 0)::float8, 0::float8 from pg_stat_replication
order by 1 limit 20`, func(rows pgx.Rows) error {
		var whose string
		var behind, kept float64
		if err := rows.Scan(&whose, &behind, &kept); err != nil {
			return err
		}
		if behind < math.MaxInt32 { // higher values mean "none" in the result of age()
			d.Grade("replication", behind, whose, "it holds back vacuum by %.0f transactions", behind)
		}
		d.Grade("replication_wal", kept, whose, "it keeps %s of the log", health.Bytes.Format(kept))
		return nil
	})
}

func (d *diagnosis) lockWaits() error {
	return d.rows(`select `+who+`, coalesce(c.relname, l.locktype), extract(epoch from clock_timestamp() - l.waitstart)::float8,
  array_to_string(pg_blocking_pids(l.pid), ', ')
from pg_locks l join pg_stat_activity a on a.pid = l.pid left join pg_class c on c.oid = l.relation and l.database = (select oid from pg_database where datname = current_database())
where not l.granted and l.waitstart is not null and a.datname = current_database() order by l.waitstart limit 20`, func(rows pgx.Rows) error {
		var whose, what, blocking string
		var age float64
		if err := rows.Scan(&whose, &what, &age, &blocking); err != nil {
			return err
		}
		age += d.later.Seconds()
		d.Grade("lock_waits", age, whose, "it waits for a lock on %s for %s, held by session %s", what, health.Seconds.Format(age), blocking)
		return nil
	})
}

func (d *diagnosis) autovacuum() error {
	var on bool
	if err := d.conn.QueryRow(d.ctx, "select current_setting('autovacuum')::bool").Scan(&on); err != nil {
		return err
	}
	if !on {
		d.Say("autovacuum", health.Problem, "", "autovacuum is off for the server")
	}
	return d.rows(`select relname from pg_class, unnest(reloptions) o
where relnamespace = current_schema()::regnamespace and relkind = 'r' and o in ('autovacuum_enabled=false', 'autovacuum_enabled=off', 'autovacuum_enabled=0', 'autovacuum_enabled=no')
order by 1`, func(rows pgx.Rows) error {
		var table string
		if err := rows.Scan(&table); err != nil {
			return err
		}
		d.Say("autovacuum", health.Warning, "table "+table, "autovacuum is off for the table")
		return nil
	})
}

// deadRows ignores small numbers, and tables that were vacuumed a moment ago: under load there
// are always some. A table that was never vacuumed counts as old as the schema.
func (d *diagnosis) deadRows() error {
	return d.rows(`select relname, n_dead_tup::float8, n_live_tup::float8, vacuumed
from pg_stat_user_tables, lateral (select greatest(last_vacuum, last_autovacuum) as vacuumed) v
where schemaname = current_schema() and n_dead_tup >= 10000
  and coalesce(vacuumed, (select max(at) from migration)) < clock_timestamp() - interval '5 min'
order by n_dead_tup desc`, func(rows pgx.Rows) error {
		var table string
		var dead, live float64
		var vacuumed *time.Time
		if err := rows.Scan(&table, &dead, &live, &vacuumed); err != nil {
			return err
		}
		last := "never vacuumed"
		if vacuumed != nil {
			last = "vacuumed last at " + moment(*vacuumed)
		}
		share := 100 * dead / (dead + live)
		d.Grade("dead_rows", share, "table "+table, "%.0f of its rows (%s) are dead, %s", dead, health.Percent.Format(share), last)
		return nil
	})
}

// catalogSQL returns the tables, columns, views, constraints, indexes and domains of the
// schema, except partitions, one line each: a domain with its checks, and an invalid index
// with "invalid" at the end. It excludes what differs between versions of PostgreSQL.
const catalogSQL = `with rel as (
  select oid, relname, relkind from pg_class where relnamespace = current_schema()::regnamespace and (not relispartition or relname = 'audit_rest')
)
select 'table ' || relname from rel where relkind in ('r', 'p')
union all select 'view ' || relname from rel where relkind = 'v'
union all select 'column ' || relname || '.' || attname || ' ' || format_type(atttypid, atttypmod) || case when attnotnull then ' not null' else '' end
  from rel join pg_attribute on attrelid = rel.oid where relkind in ('r', 'p') and attnum > 0 and not attisdropped
union all select 'constraint ' || relname || '.' || conname from rel join pg_constraint on conrelid = rel.oid where contype in ('c', 'p', 'u', 'f')
union all select 'index ' || i.relname || ' on ' || rel.relname || ' ('
    || (select string_agg(pg_get_indexdef(x.indexrelid, k, true), ', ' order by k) from generate_series(1, x.indnatts) k) || ')'
    || case when x.indisunique then ' unique' else '' end || case when x.indpred is null then '' else ' partial' end
    || case when x.indisvalid and x.indisready then '' else ' invalid' end
  from pg_index x join rel on rel.oid = x.indrelid join pg_class i on i.oid = x.indexrelid
union all select 'domain ' || typname || ' as ' || format_type(typbasetype, typtypmod) || ' ('
    || coalesce((select string_agg(conname, ', ' order by conname) from pg_constraint where contypid = t.oid and contype = 'c' and convalidated), '') || ')'
  from pg_type t where typtype = 'd' and typnamespace = current_schema()::regnamespace
order by 1`

// catalog compares the schema with the one that the migrations make. It ignores indexes,
// columns and views that were added by hand.
func (d *diagnosis) catalog() error {
	known := strings.Split(strings.TrimSpace(made), "\n")
	there, indexes := map[string]bool{}, map[string]bool{}
	err := d.rows(catalogSQL, func(rows pgx.Rows) error {
		var line string
		if err := rows.Scan(&line); err != nil {
			return err
		}
		there[line], indexes[indexOf(line)] = true, true
		if strings.HasPrefix(line, "table ") && !slices.Contains(known, line) {
			d.Say("schema", health.Warning, line, "it is not one of this program's")
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, line := range known {
		switch {
		case there[line], partOf(line) != "" && !there["table "+partOf(line)]: // already reported for the table
		case there[line+" invalid"]:
			d.Say("schema", health.Problem, line, "it is invalid: its making was broken off")
			d.Advise("reindex index concurrently " + indexOf(line))
		default:
			d.Say("schema", health.Problem, line, "it is missing, or another one")
			if sql := remake(indexOf(line)); sql != "" {
				if indexes[indexOf(line)] {
					sql = "drop index " + indexOf(line) + "; " + sql
				}
				d.Advise(sql)
			}
		}
	}
	return nil
}

// indexOf returns the name of the index that a line of the catalogue describes, or "".
func indexOf(line string) string {
	rest, _ := strings.CutPrefix(line, "index ")
	name, _, _ := strings.Cut(rest, " on ")
	if rest == line {
		return ""
	}
	return name
}

var createIndex = regexp.MustCompile(`(?m)^create (unique )?index (?:if not exists )?(\w+) (on [^;]+;)`)

// remake returns the statement of the last migration that makes an index, changed so that
// writers need not wait, or "" for a primary key.
func remake(name string) (sql string) {
	for _, m := range migrations() {
		for _, s := range createIndex.FindAllStringSubmatch(m.Up, -1) {
			if s[2] == name {
				sql = "create " + s[1] + "index concurrently " + name + " " + strings.Join(strings.Fields(s[3]), " ")
			}
		}
	}
	return sql
}

// partOf returns the table to which a line of the catalogue belongs.
func partOf(line string) string {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "column", "constraint":
		table, _, _ := strings.Cut(rest, ".")
		return table
	case "index":
		_, rest, _ = strings.Cut(rest, " on ")
		table, _, _ := strings.Cut(rest, " ")
		return table
	}
	return ""
}

// partitions checks the partitions of today and of the next two days: three exist in advance
// as long as a process makes them every hour. Before the first job none is needed.
func (d *diagnosis) partitions() error {
	return d.rows(`select to_char(day, 'YYYYMMDD'), ahead from generate_series(0, 2) ahead,
  lateral (select (clock_timestamp() at time zone 'UTC')::date + ahead as day) x
where to_regclass(quote_ident(current_schema()) || '.audit_' || to_char(day, 'YYYYMMDD')) is null and exists (select from job) order by 1`, func(rows pgx.Rows) error {
		var day string
		var ahead int
		if err := rows.Scan(&day, &ahead); err != nil {
			return err
		}
		severity, when := health.Problem, "today"
		if ahead > 0 {
			severity, when = health.Warning, fmt.Sprintf("in %d days", ahead)
		}
		d.Say("audit_partitions", severity, "partition audit_"+day, "it is missing (%s)", when)
		return nil
	})
}

// restLimit is how many rows of audit_rest are counted.
const restLimit = 100_000

func (d *diagnosis) rest() error {
	var n int
	err := d.conn.QueryRow(d.ctx, "select count(*) from (select from audit_rest limit $1) r", restLimit).Scan(&n)
	if err != nil {
		return err
	}
	more := ""
	if n == restLimit {
		more = " or more"
	}
	d.Grade("audit_rest", float64(n), "table audit_rest", "it holds %d entries%s", n, more)
	return nil
}
