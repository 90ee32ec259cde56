package postgres

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// TestChecksAreTheTables compares the checks of the domains with the lifecycles
// (K1, J10).
func TestChecksAreTheTables(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	tests := map[string][]machine.State{
		"job_state_check": lifecycle.Job.States, "step_state_check": lifecycle.Step.States, "worker_state_check": lifecycle.Worker.States,
		"schedule_state_check": lifecycle.Schedule.States,
		"job_ending_check":     lifecycle.Job.Ends,
	}
	quotedWord := regexp.MustCompile(`'([A-Za-z_]+)'`)
	for name, want := range tests {
		var def string
		if err := db.pool.QueryRow(t.Context(), "select pg_get_constraintdef(oid) from pg_constraint where conname = $1 and contypid <> 0", name).Scan(&def); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []machine.State
		for _, m := range quotedWord.FindAllStringSubmatch(def, -1) {
			got = append(got, machine.State(m[1]))
		}
		slices.Sort(got)
		if diff := cmp.Diff(slices.Sorted(slices.Values(want)), got); diff != "" {
			t.Errorf("%s (-lifecycle +constraint):\n%s", name, diff)
		}
	}
	// What lists jobs in flight names every state that is no end.
	for _, s := range lifecycle.Job.States {
		if strings.Contains(openJobs, "'"+string(s)+"'") == lifecycle.Job.Ended(s) {
			t.Errorf("openJobs and state %s: %s", s, openJobs)
		}
	}
}

func TestAnUnknownStateIsRefused(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	err := try(db, &store.Query{}, func(_ *store.Facts, d *draft) { d.newJob(1).State = "ASLEEP" })
	if code(err) != "23514" {
		t.Errorf("got %v, want a violated check", err)
	}
}

// TestMigrations go up and down on a populated database (J10).
func TestMigrations(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, err := OpenSchema(t.Context(), Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	at := func(want int) {
		t.Helper()
		current, newest, err := s.Version(t.Context())
		if err != nil || current != want || newest != len(migrations()) {
			t.Errorf("version %d of %d, %v, want %d", current, newest, err, want)
		}
	}
	newest := len(migrations())
	at(0)
	for range 2 {
		plan, err := s.Plan(t.Context(), newest)
		if err != nil || len(plan) != newest || !strings.Contains(plan[0], "create table job") {
			t.Errorf("plan of %d, %v", len(plan), err)
		}
		at(0) // a plan changes nothing
		if err := s.Migrate(t.Context(), newest); err != nil {
			t.Fatal(err)
		}
		at(newest)
		db := open(t, url)
		submit(t, db, 3, 1)
		do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) { d.newWorker() })
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for v := newest - 1; v >= 0; v-- {
			if err := s.Migrate(t.Context(), v); err != nil {
				t.Fatal(err)
			}
			at(v)
		}
		if left := relations(t, url); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	for _, v := range []int{-1, newest + 1} {
		if err := s.Migrate(t.Context(), v); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("to version %d: %v", v, err)
		}
	}
}

func relations(t *testing.T, url string) []string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), `select relname::text from pg_class where relnamespace = 'public'::regnamespace
union all select typname::text from pg_type where typnamespace = 'public'::regnamespace and typtype = 'd'`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestAnOlderSchemaIsRefused with the command that brings it up.
func TestAnOlderSchemaIsRefused(t *testing.T) {
	t.Parallel()
	moves, err := path(migrations(), 0, len(migrations()))
	if err != nil || len(moves) == 0 {
		t.Fatal(moves, err)
	}
	var e *pawl.Error
	err = store.SchemaVersion{Current: 1, Oldest: 1}.Check(migrations())
	if !errors.As(err, &e) || e.Kind != pawl.Conflict || !strings.Contains(e.Hint, "pawl migrate up") {
		t.Errorf("got %+v", err)
	}
}

// TestManyOpenAnEmptyDatabaseAtOnce: one of them brings it up.
func TestManyOpenAnEmptyDatabaseAtOnce(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			db, err := Open(context.Background(), Config{URL: url, MaxConns: 2})
			if err != nil {
				t.Error(err)
				return
			}
			submit(t, db, 1, 1)
			db.Close()
		})
	}
	wg.Wait()
}

// TestTwoSchemasInOneDatabase do not see each other, nor each other's locks.
func TestTwoSchemasInOneDatabase(t *testing.T) {
	t.Parallel()
	a := fresh(t)
	execute(t, a, "create schema other")
	b := open(t, a.cfg.URL+"&search_path=other")
	submit(t, a, 1, 1)
	if jobs, err := b.Jobs(t.Context(), store.JobFilter{}); err != nil || len(jobs) != 0 {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
	for _, db := range []*DB{a, b} {
		if _, err := db.Hold(t.Context(), "it", nil); err != nil {
			t.Error(err)
		}
	}
}

// TestPartitions: each day has its own, what is of another day is kept too, and
// Maintain may run in many processes at once.
func TestPartitions(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	execute(t, db, "drop table audit_"+today(t, db, 2)+", audit_"+today(t, db, 3))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := db.Maintain(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var parts int
	if err := db.pool.QueryRow(t.Context(), "select count(*) from pg_inherits where inhparent = 'audit'::regclass").Scan(&parts); err != nil || parts != daysBehind+1+daysAhead+1 {
		t.Errorf("%d partitions, %v", parts, err)
	}
	submit(t, db, 2, 1)
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) { // a job of 2024
		j := &pawl.Job{ID: pawl.MakeID(pawl.Time(1704067300e6), 1, 1)}
		d.entry(keyOf(j), &j.Record, "", "", lifecycle.JobSubmitted, lifecycle.JobSubmit)
		d.NewJobs = append(d.NewJobs, j)
	})
	count := func(table string) (n int) {
		t.Helper()
		if err := db.pool.QueryRow(t.Context(), "select count(*) from "+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count("audit_rest"); n != 1 {
		t.Errorf("%d rows outside of the days, want 1", n)
	}
	if n := count("audit_" + today(t, db, 0)); n != 2 {
		t.Errorf("%d rows of today, want one for each job", n)
	}
}

func today(t *testing.T, db *DB, ahead int) (day string) {
	t.Helper()
	if err := db.pool.QueryRow(t.Context(), "select to_char((clock_timestamp() at time zone 'UTC') + $1 * interval '1 day', 'YYYYMMDD')", ahead).Scan(&day); err != nil {
		t.Fatal(err)
	}
	return day
}

// TestDocumentedTables: the views of the names and columns that were promised (J10).
func TestDocumentedTables(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	var w *pawl.Worker
	var child *pawl.Job
	j := submit(t, db, 1, 1)[0]
	enqueue(t, db, []*pawl.Job{j})
	q := &store.Query{Keys: []store.IdempotencyKey{{Workspace: "ws", Key: "k"}}}
	do(t, db, q, func(f *store.Facts, d *draft) {
		w, child = d.newWorker(), d.newJob(1)
		child.Parent, child.Depth, child.Description, child.WorkerCount = j.Key(), 1, "a child", 3
		d.Answers = map[store.IdempotencyKey]*store.Answer{q.Keys[0]: {Endpoint: "POST /api/jobs", Status: 201, Body: []byte(`{"ü":1}`), ExpiresAt: f.Now + 1e6}}
	})
	tests := map[string]struct {
		sql  string
		args []any
		want string
	}{
		"workers":            {"select workspace_id || status || (metadata->>'zone') || (created_at = updated_at) from workers where id = $1", []any{w.ID.Public("w_")}, "defaultIDLEatrue"},
		"worker transitions": {"select coalesce(from_state, '-') || to_state || reason || (timestamp > now() - interval '1 minute') from worker_state_transitions where worker_id = $1", []any{w.ID.Public("w_")}, "-IDLEtrue"},
		"jobs":               {"select parent_job_id || depth || status || worker_count || task_description || (started_at is null) || (completed_at is null) || (created_at > now() - interval '1 minute') from jobs where id = $1", []any{child.ID.Public("j_")}, j.ID.Public("j_") + "1PENDING3a childtruetruetrue"},
		"job transitions":    {"select string_agg(coalesce(from_state, '') || '>' || to_state, ' ' order by id) from job_state_transitions where job_id = $1", []any{j.ID.Public("j_")}, ">SUBMITTED SUBMITTED>PENDING PENDING>RUNNING"},
		"idempotency keys":   {"select request_id || endpoint || response_status || response_body || (expires_at > created_at) from idempotency_keys", nil, `kPOST /api/jobs201{"ü":1}true`},
	}
	for name, tt := range tests {
		var got string
		if err := db.pool.QueryRow(t.Context(), tt.sql, tt.args...).Scan(&got); err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
}
