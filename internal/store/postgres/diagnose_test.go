package postgres

import (
	"context"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var rewrite = flag.Bool("update", false, "write schema.txt anew")

// TestSchemaList: what the doctor takes for the schema is what the migrations
// make.
func TestSchemaList(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	got := ""
	onURL(t, db.cfg.URL, func(conn *pgx.Conn) error {
		rows, err := conn.Query(t.Context(), catalogSQL)
		if err != nil {
			return err
		}
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		for _, line := range lines {
			got += line + "\n"
		}
		return err
	})
	if *rewrite {
		if err := os.WriteFile("schema.txt", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(made, got); diff != "" {
		t.Errorf("schema.txt is not what the migrations make; write it anew with go test ./store/postgres -run SchemaList -update (-file +database):\n%s", diff)
	}
}

// TestEachIndexCanBeMadeAgain by the statement that the doctor gives, except those of constraints and
// of a partition, which come with that of the table.
func TestEachIndexCanBeMadeAgain(t *testing.T) {
	t.Parallel()
	found := 0
	for line := range strings.Lines(made) {
		rest, ok := strings.CutPrefix(line, "index ")
		if name, _, _ := strings.Cut(rest, " on "); ok && name != "audit_rest_at_idx" && !strings.Contains(made, "."+name+"\n") {
			if found++; remake(name) == "" {
				t.Errorf("index %s cannot be made again", name)
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d indexes, want more", found)
	}
}

// find returns the findings of a check that are worse than ok.
func find(all []health.Finding, check string) []health.Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f health.Finding) bool { return f.Check != check || f.Severity == health.OK })
}

// faults returns the names of the checks that find something.
func faults(all []health.Finding) []string {
	var names []string
	for _, f := range all {
		if f.Severity != health.OK {
			names = append(names, f.Check)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestDiagnoseHealthy: there is no finding on a database as it should be, be it
// empty of jobs, or busy; but that the server of these tests does not write to
// the disk.
func TestDiagnoseHealthy(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	check := func(when string) {
		t.Helper()
		all := Diagnose(t.Context(), db.cfg)
		if diff := cmp.Diff([]string{"settings"}, faults(all)); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s\n%v", when, diff, all)
		}
	}
	check("fresh")
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	rounds := make(chan struct{})
	for range 2 {
		busy.Go(func() {
			for ctx.Err() == nil {
				churn(t, db, 20)
				select {
				case rounds <- struct{}{}:
				case <-ctx.Done():
				}
			}
		})
	}
	for range 4 {
		<-rounds
	}
	check("busy")
	stop()
	busy.Wait()
}

// churn takes jobs of one step from their making to their end.
func churn(t testing.TB, db *DB, n int) {
	for _, made := range submit(t, db, n, 1) {
		k := first(made)
		do(t, db, &store.Query{Jobs: []rowkey.Job{k.Job}, Steps: []pawl.StepKey{k}}, func(f *store.Facts, d *draft) {
			j := f.Jobs[k.Job]
			d.moveJob(j, lifecycle.JobRunning, lifecycle.JobAllocateResources)
			d.moveStep(j.ID, f.Steps[k], lifecycle.StepEnqueue, lifecycle.StepEnqueued, lifecycle.StepClaim, lifecycle.StepInProgress)
		})
	}
}

// A sickness is what is wrong with a database, and what is to be found of it.
type sickness struct {
	name     string
	sql      []string
	later    time.Duration // when it is looked at
	check    string
	severity health.Severity
	subject  string
	measured string // a regular expression
	cure     string // if it is not that of the check
}

// TestDiagnoseFinds: each of these is found on a real server, and nothing else.
func TestDiagnoseFinds(t *testing.T) {
	t.Parallel()
	for _, s := range []sickness{
		{name: "index", sql: []string{"drop index step_ready"}, check: "schema", severity: health.Problem,
			subject: "index step_ready on step (route, rank, job, ord) partial", measured: "missing",
			cure: "create index concurrently step_ready on step (route, rank, job, ord) where line = 1;"},
		{name: "unique index", sql: []string{"drop index schedule_name"}, check: "schema", severity: health.Problem,
			cure: "create unique index concurrently schedule_name on schedule (workspace, name) where state <> 'removed';"},
		{name: "another index", sql: []string{"drop index job_due", "create index job_due on job (id) where due_at > 0"}, check: "schema", severity: health.Problem,
			subject: "index job_due on job (due_at, id) partial", measured: "missing, or another one",
			cure: "drop index job_due; create index concurrently job_due on job (due_at, id) where due_at > 0;"},
		{name: "invalid index", sql: []string{"update pg_index set indisvalid = false where indexrelid = 'job_mark_at'::regclass"}, check: "schema", severity: health.Problem,
			subject: "index job_mark_at on job (mark_at, id) partial", measured: "invalid", cure: "reindex index concurrently job_mark_at"},
		{name: "column", sql: []string{"alter table job drop column output cascade"}, check: "schema", severity: health.Problem,
			subject: "column job.output text", measured: "missing"},
		{name: "domain's check", sql: []string{"alter domain job_depth drop constraint job_depth_check"}, check: "schema", severity: health.Problem,
			subject: "domain job_depth as integer (job_depth_check)", measured: "missing"},
		{name: "table", sql: []string{"drop table quota"}, check: "schema", severity: health.Problem, subject: "table quota", measured: "missing"},
		{name: "stranger", sql: []string{"create table stranger (x int)"}, check: "schema", severity: health.Warning, subject: "table stranger", measured: "not one of this program's"},
		{name: "today's partition", sql: []string{someJob, "do $$begin execute 'drop table audit_' || to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD'); end$$"},
			check: "audit_partitions", severity: health.Problem, measured: "missing .today"},
		{name: "a coming partition", sql: []string{someJob, "do $$begin execute 'drop table audit_' || to_char(clock_timestamp() at time zone 'UTC' + interval '2 day', 'YYYYMMDD'); end$$"},
			check: "audit_partitions", severity: health.Warning, measured: "in 2 days"},
		{name: "audit_rest", sql: []string{"insert into audit values (1, 0, 1, 'PENDING', '', '', '', '', null, 1, '')"}, check: "audit_rest", severity: health.Warning,
			subject: "table audit_rest", measured: "1 entries"},
		{name: "autovacuum", sql: []string{"alter table step set (autovacuum_enabled = off)"}, check: "autovacuum", severity: health.Warning, subject: "table step", measured: "off"},
		{name: "dead rows", sql: []string{"alter table beat set (autovacuum_enabled = off)", "insert into beat select g, 1 from generate_series(1, 20000) g", "delete from beat where worker > 2000",
			"update migration set at = now() - interval '1 hour'", "select pg_stat_force_next_flush()"},
			check: "dead_rows", severity: health.Problem, subject: "table beat", measured: "18000 of its rows .90 %. are dead, never vacuumed"},
		{name: "a prepared transaction", sql: []string{"begin", "insert into quota values ('w', 'n', 1, 1, '', '')", "prepare transaction"}, later: 2 * time.Minute,
			check: "prepared_transactions", severity: health.Warning, measured: "prepared by"},
		{name: "a newer schema", sql: []string{"insert into migration (version) values (1000)"}, check: "schema_version", severity: health.Problem, measured: "version 1000, made by a newer pawl"},
		{name: "an older schema", sql: []string{"delete from migration where version > 1"}, check: "schema_version", severity: health.Problem, measured: "version 1, and this program needs"},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(t)
		})
	}
}

// someJob is a job, as far as the partitions go.
const someJob = `insert into job select (jsonb_populate_record(null::job, to_jsonb(j))).* from (
  select 1 as id, gen_random_uuid() as uuid, 'w' as workspace, 0 as definition, 'n' as workflow, '' as description, 0 as parent, 0 as continues, 0 as depth, 1 as worker_count,
    0 as created_at, 'COMPLETED' as state, 1 as seq, '' as head, 0 as due_at, '' as due_event, 0 as updated_at, 0 as route, 0 as priority, false as paused, 0 as mark, 0 as mark_at, 0 as mark_tries, '' as ending,
    0 as open, 0 as active, 0 as started_at, 0 as completed_at, 0 as private, 0 as version, 0 as parent_step, 0 as schedule, 0 as rank, 0 as pool, 0 as quota, 0 as hooks, 0 as blocked, 0 as line, false as children) j`

func (s *sickness) run(t *testing.T) {
	db := fresh(t)
	conn := connectTo(t, db.cfg.URL)
	for _, sql := range s.sql {
		if strings.HasPrefix(sql, "prepare") { // a name of its own, and it is in the way of who drops the database
			name := conn.Config().Database
			sql = "prepare transaction '" + name + "'"
			t.Cleanup(func() {
				if _, err := conn.Exec(context.Background(), "rollback prepared '"+name+"'"); err != nil {
					t.Error(err)
				}
			})
		}
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	s.found(t, diagnose(t.Context(), db.cfg, s.later))
	if s.cure == "" {
		return
	}
	for sql := range strings.SplitSeq(s.cure, "; ") {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if left := find(Diagnose(t.Context(), db.cfg), s.check); len(left) > 0 {
		t.Errorf("after what was advised: %v", left)
	}
}

// found checks that there is that finding, and that no other check has any.
func (s *sickness) found(t *testing.T, all []health.Finding) {
	t.Helper()
	for _, name := range faults(all) {
		if name != s.check && name != "settings" && !(s.check == "dead_rows" && name == "autovacuum") {
			t.Errorf("a finding of %s: %v", name, find(all, name))
		}
	}
	got := find(all, s.check)
	if len(got) != 1 || got[0].Severity != s.severity || s.subject != "" && got[0].Subject != s.subject ||
		!regexp.MustCompile(s.measured).MatchString(got[0].Measured) || got[0].Cure == "" || got[0].Threshold == "" || s.cure != "" && got[0].Cure != s.cure {
		t.Errorf("findings of %s: %+v; want one, a %s of %q, %s", s.check, got, s.severity, s.subject, s.measured)
	}
}

// TestDiagnoseSessions: who has a transaction open for long, and who waits for
// whom.
func TestDiagnoseSessions(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	reader, writer := connectTo(t, db.cfg.URL+"&application_name=reader"), connectTo(t, db.cfg.URL+"&application_name=writer")
	for _, x := range []struct {
		conn *pgx.Conn
		sql  string
	}{
		{reader, "begin isolation level repeatable read"}, {reader, "select count(*) from job"}, {reader, "lock table quota in share mode"},
	} {
		if _, err := x.conn.Exec(t.Context(), x.sql); err != nil {
			t.Fatal(err)
		}
	}
	waiting := make(chan error, 1)
	go func() {
		_, err := writer.Exec(context.Background(), "insert into quota values ('w', 'n', 1, 1, '', '')")
		waiting <- err
	}()
	for deadline := time.Now().Add(time.Minute); ; {
		var n int
		if err := db.pool.QueryRow(t.Context(), "select count(*) from pg_stat_activity where application_name = 'writer' and wait_event_type = 'Lock' and datname = current_database()").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the writer does not wait")
		}
	}
	if got := faults(Diagnose(t.Context(), db.cfg)); !cmp.Equal(got, []string{"settings"}) {
		t.Errorf("a short transaction: findings %v", got)
	}
	all := diagnose(t.Context(), db.cfg, 6*time.Minute)
	if diff := cmp.Diff([]string{"lock_waits", "settings", "transactions"}, faults(all)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	for _, f := range append(find(all, "transactions"), find(all, "lock_waits")...) {
		if f.Severity != health.Problem {
			t.Errorf("%+v, want a problem", f)
		}
		want := regexp.MustCompile(`\(reader\).*is open since .*idle in transaction, and holds back vacuum|\(writer\).*(is open since|waits for a lock on quota for .*held by session \d+)`)
		if !want.MatchString(f.Subject + " " + f.Measured) {
			t.Errorf("finding %+v", f)
		}
	}
	if _, err := reader.Exec(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
}

func connectTo(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

// TestDiagnoseConnections: the connections of each process of Pawl are shown beside what the server
// allows.
func TestDiagnoseConnections(t *testing.T) {
	t.Parallel()
	a := fresh(t)
	b, err := Open(t.Context(), a.cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var shown string
	for _, f := range Diagnose(t.Context(), a.cfg) {
		if f.Check == "connections" {
			shown = f.Measured
		}
	}
	if !regexp.MustCompile(`^[0-9]+ of [0-9]+ connections are in use, [0-9]+ of them by processes of Pawl; pawl `).MatchString(shown) {
		t.Errorf("shown: %s", shown)
	}
	if named := strings.Count(shown, " has "); named < maxShown { // the processes of other tests, if there are many
		for _, db := range []*DB{a, b} {
			if !regexp.MustCompile(regexp.QuoteMeta(db.application()) + ` from [^;]+ has [1-9]`).MatchString(shown) {
				t.Errorf("%s is not among: %s", db.application(), shown)
			}
		}
	}
}

// TestDiagnoseSettings: the server of these tests writes nothing to the disk.
func TestDiagnoseSettings(t *testing.T) {
	t.Parallel()
	if os.Getenv(pgtest.Durable) == "1" {
		return
	}
	got := map[string]health.Severity{}
	for _, f := range find(Diagnose(t.Context(), fresh(t).cfg), "settings") {
		got[f.Subject] = f.Severity
	}
	want := map[string]health.Severity{"fsync": health.Problem, "full_page_writes": health.Problem, "synchronous_commit": health.Warning}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// TestDiagnoseUnusable: what cannot be used is a finding, not an error.
func TestDiagnoseUnusable(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"unreachable": "postgres://127.0.0.1:1/x", "no url": "postgres://%", "no database": pgtest.Server(t) + "_none"} {
		got := Diagnose(t.Context(), Config{URL: url})
		if len(got) != 1 || got[0].Check != "database" || got[0].Severity != health.Problem || got[0].Cure == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := Diagnose(t.Context(), Config{URL: pgtest.URL(t)}); !cmp.Equal(faults(got), []string{"schema_version", "settings"}) {
		t.Errorf("an empty database: %v", got)
	}
}

// TestWard: work that nobody serves, what is late, and the processes.
func TestWard(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	jobs := submit(t, db, 3, 1)
	submit(t, db, 2, 2)
	do(t, db, &store.Query{Jobs: []rowkey.Job{jobs[0].Key()}, Steps: []pawl.StepKey{first(jobs[0])}}, func(f *store.Facts, d *draft) {
		j, s := f.Jobs[jobs[0].Key()], f.Steps[first(jobs[0])]
		s.EnqueuedAt, s.DueAt, s.Mark, s.MarkAt = f.Now-60e6, f.Now-20e6, pawl.Attention, f.Now
		d.moveStep(j.ID, s, lifecycle.StepEnqueue, lifecycle.StepEnqueued)
		d.moveJob(j, lifecycle.JobRunning, lifecycle.JobAllocateResources)
	})
	execute(t, db, "insert into node values (1, 'worker', 'h/1', 'h', 1, 'v1', 1, "+clock+", 5000000), (2, 'server', 'h/2', 'h', 2, 'v2', 1, "+clock+" - 60000000, 0)")
	w, err := db.WorkSnapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(w.Waiting) != 2 || w.Waiting[0].Jobs != 2 || w.Waiting[0].Steps != 1 || w.Waiting[0].Job != jobs[0].ID || w.Waiting[1].Jobs != 2 ||
		w.Open != 5 || len(w.Late) != 2 || len(w.Nodes) != 2 {
		t.Fatalf("snapshot %+v", w)
	}
	if diff := cmp.Diff([]string{"clocks", "deadlines", "routes", "server"}, faults(health.Examine(w, nil))); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
