package postgres

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// versionOne returns a database that version 1 of Pawl has made and filled, and
// its schema.
func versionOne(t *testing.T) (string, *Schema) {
	t.Helper()
	url := pgtest.URL(t)
	s, err := OpenSchema(t.Context(), Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	sql, err := os.ReadFile("testdata/version1.sql")
	if err != nil {
		t.Fatal(err)
	}
	onURL(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), string(sql))
		return err
	})
	return url, s
}

func onURL(t *testing.T, url string, f func(*pgx.Conn) error) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if err := f(conn); err != nil {
		t.Fatal(err)
	}
}

// dump returns the rows of version 1's tables as text, without what newer versions have and
// a way down to older ones loses: lines, times of marks, and trees.
func dump(t *testing.T, url string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	onURL(t, url, func(conn *pgx.Conn) error {
		for _, table := range []string{"worker", "worker_audit", "definition", "job", "step", "audit", "idempotency", "refusal", "log"} {
			rows, err := conn.Query(t.Context(), "select (to_jsonb(t) - 'children' - 'line' - 'mark_at' - 'mark_tries' - 'tree' - 'folded')::text from "+table+" t order by 1")
			if err != nil {
				return err
			}
			if all[table], err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
				return err
			}
		}
		return nil
	})
	return all
}

func migrate(t *testing.T, s *Schema, to int) {
	t.Helper()
	if err := s.Migrate(t.Context(), to); err != nil {
		t.Fatal(err)
	}
}

// TestVersionOneComesUp: what version 1 wrote is read by the newest, its trails
// verify, its queues keep their order, and all of it is there after the way back
// (J10).
func TestVersionOneComesUp(t *testing.T) {
	t.Parallel()
	url, schema := versionOne(t)
	before := dump(t, url)
	if _, err := Open(t.Context(), Config{URL: url}); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("opened at version 1: %v", err)
	}
	for range 2 {
		migrate(t, schema, len(migrations()))
		db := open(t, url)
		checkVersionOne(t, db)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		migrate(t, schema, 1)
		if diff := cmp.Diff(before, dump(t, url)); diff != "" {
			t.Fatalf("after the way back (-before +after):\n%s", diff)
		}
	}
}

func checkVersionOne(t *testing.T, db *DB) {
	t.Helper()
	jobs, err := db.Jobs(t.Context(), store.JobFilter{})
	if err != nil || len(jobs) != 5 {
		t.Fatalf("%d jobs, %v, want 5", len(jobs), err)
	}
	byName := map[string]*pawl.Job{}
	for _, j := range jobs {
		byName[j.Description] = j
		if !lifecycle.Job.Ended(j.State) && j.Rank != pawl.RankAt(j.CreatedAt, j.Priority) {
			t.Errorf("job %s has rank %d", j.Description, j.Rank)
		}
	}
	low, high, running, done, failed := byName["low"], byName["high"], byName["running"], byName["done"], byName["failed"]
	if high.Priority != 5 || high.WorkerCount != 4 || high.Definition != 7 || running.Private != running.Key() || low.Private != 0 ||
		string(done.Output) != `{"ok":true}` || failed.Ending != lifecycle.JobFailed || failed.Error.Class != "x" || failed.Continues != done.Key() {
		t.Errorf("jobs are not what they were: %v", byName)
	}
	children, err := db.Jobs(t.Context(), store.JobFilter{Parent: done.Key()})
	if err != nil || len(children) != 1 || children[0].Key() != failed.Key() {
		t.Errorf("children %v, %v", children, err)
	}
	do(t, db, &store.Query{Claims: []store.ClaimQuery{{Routes: []rowkey.Route{1}, Limit: 9}}}, func(f *store.Facts, _ *draft) {
		want := store.ClaimFacts{Steps: firsts([]*pawl.Job{running}), Starts: keysOf([]*pawl.Job{high, low})}
		if diff := cmp.Diff(want, f.Claims[0]); diff != "" {
			t.Errorf("claims (-want +got):\n%s", diff)
		}
		if s := f.Steps[first(running)]; s == nil || s.Rank != pawl.RankAt(s.EnqueuedAt, 2) {
			t.Errorf("enqueued step %+v", s)
		}
	})
	trails := 0
	err = db.Trails(t.Context(), 0, func(tr store.TrailOf) error { trails++; checkTrail(t, tr); return nil })
	if err != nil || trails != 16 {
		t.Errorf("%d trails, %v, want those of 5 jobs, 10 steps and a worker", trails, err)
	}
	refusals, err := db.Refusals(t.Context(), low.Key(), store.RefusalPlace{}, 0)
	if err != nil || len(refusals) != 1 {
		t.Errorf("refusals %v, %v", refusals, err)
	}
	logs, err := db.Logs(t.Context(), done.Key(), 0, store.LogPlace{}, 100)
	if err != nil || len(logs) != 1 || string(logs[0].Data) != "hello" {
		t.Errorf("logs %v, %v", logs, err)
	}
}

// TestDownWithWhatIsNew: version 1 gets along with what version 2 has written,
// which comes up again without what it cannot say (J10).
func TestDownWithWhatIsNew(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	var j, child *pawl.Job
	do(t, db, &store.Query{}, func(_ *store.Facts, d *draft) {
		j, child = d.newJob(1), d.newJob(1)
		j.Private, j.Rank, j.Pool, j.Quota, j.Version, j.Definition = j.Key(), 5, 6, 7, 8, 9
		j.Ending, j.Hooks, j.Open, j.Blocked = lifecycle.JobCompleted, pawl.HooksRun, 1, 2
		child.Private, child.Parent, child.ParentStep = j.Key(), j.Key(), pawl.MakeOrd(1, 0)
		for node := range 3 {
			d.newStep(j, node+1, 1).Mark = pawl.Blocked
		}
		d.newSchedule("s")
		d.Versions = []*pawl.Version{{Workspace: "w", Name: "n", Version: 1}}
		d.Quotas = []*pawl.Quota{{Workspace: "w", Name: "n", Slots: 1}}
		d.NewSignals = []*pawl.Signal{{Job: j.Key(), Seq: 1}}
	})
	do(t, db, &store.Query{Jobs: []rowkey.Job{j.Key()}}, func(f *store.Facts, d *draft) {
		j = f.Jobs[j.Key()]
		d.moveJob(j, lifecycle.JobRunning, lifecycle.JobAllocateResources)
	})
	url := db.cfg.URL
	db.Close()
	migrate(t, db.Schema, 1)
	rows := dump(t, url)
	if len(rows["job"]) != 2 || len(rows["step"]) != 3 || len(rows["audit"]) != 8 {
		t.Errorf("%d jobs, %d steps, %d entries; want 2, 3, 8", len(rows["job"]), len(rows["step"]), len(rows["audit"]))
	}
	migrate(t, db.Schema, len(migrations()))
	db = open(t, url)
	got, err := db.Job(t.Context(), j.Key())
	want := *j
	want.Inputs = []byte(`{"n":1}`)
	want.Pool, want.Quota, want.Version, want.Ending, want.Hooks, want.Open, want.Blocked = 0, 0, 0, "", pawl.HooksNotYet, 3, 0
	want.Tree = &pawl.Tree{Tree: audit.Tree{N: -1}} // as if it were older than trees
	want.Children = true                            // as if its child were no step of it
	want.Rank, want.Mark, want.MarkAt = pawl.RankAt(j.CreatedAt, 0), pawl.Attention, j.UpdatedAt
	if diff := cmp.Diff(&want, got); diff != "" || err != nil {
		t.Errorf("job: %v (-want +got):\n%s", err, diff)
	}
	if got, err := db.Job(t.Context(), child.Key()); err != nil || got.Private != child.Key() || got.Parent != j.Key() {
		t.Errorf("child %+v, %v", got, err)
	}
	a, err := db.Look(t.Context(), store.LookQuery{Limit: 10})
	if err != nil || !cmp.Equal(a.Marked, []store.Marked{{At: want.MarkAt, Job: j.Key()}}) {
		t.Errorf("marked %v, %v", a.Marked, err)
	}
	trails := 0
	err = db.Trails(t.Context(), 0, func(tr store.TrailOf) error { trails++; checkTrail(t, tr); return nil })
	if err != nil || trails != 5 {
		t.Errorf("%d trails, %v, want those of 2 jobs and 3 steps", trails, err)
	}
}

// TestDomains: the way to version 4 and back leaves to views what was granted on
// them, what is built on them, and the types of their columns (J10).
func TestDomains(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	url, newest := db.cfg.URL, len(migrations())
	submit(t, db, 1, 1)
	db.Close()
	migrate(t, db.Schema, 3)
	execAll(t, url, "grant select on jobs to pg_monitor", "create view mine as select status, depth from jobs")
	look := func() (all []string) {
		onURL(t, url, func(conn *pgx.Conn) error {
			rows, err := conn.Query(t.Context(), `select table_name || '.' || column_name || ' ' || data_type || coalesce(' ' || domain_name, '')
from information_schema.columns where table_name in ('workers', 'worker_state_transitions', 'jobs', 'job_state_transitions', 'mine')
union all select grantee || ' ' || privilege_type from information_schema.role_table_grants where table_name = 'jobs' and grantee = 'pg_monitor'
union all select row(m.*)::text from mine m
union all select coalesce(from_state, '') || '>' || to_state from job_state_transitions order by 1`)
			if err == nil {
				all, err = pgx.CollectRows(rows, pgx.RowTo[string])
			}
			return err
		})
		return all
	}
	before := look()
	for _, to := range []int{newest, 3, newest} {
		migrate(t, db.Schema, to)
		if diff := cmp.Diff(before, look()); diff != "" {
			t.Errorf("at version %d (-before +after):\n%s", to, diff)
		}
	}
}

func execAll(t *testing.T, url string, sql ...string) {
	t.Helper()
	onURL(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), strings.Join(sql, ";"))
		return err
	})
}

// TestAnOlderPawlWritesNothing: a pawl that knows nothing of lines, under which version 6
// was forced, neither submits nor moves what nobody would find (J10).
func TestAnOlderPawlWritesNothing(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	db.Close()
	migrate(t, db.Schema, 5)
	onURL(t, db.cfg.URL, func(conn *pgx.Conn) error {
		const entry = "insert into audit (job, ord, seq, state, event, reason, actor, request_id, metadata, at, hash, more) values ($1, 0, 1, '', '', '', '', '', '', 0, '', null)"
		_, err := conn.Prepare(t.Context(), "entry", entry)
		for version, well := range map[int]bool{5: true, len(migrations()): false} {
			if err == nil {
				migrate(t, db.Schema, version)
				_, moved := conn.Exec(t.Context(), "entry", version)
				if (moved == nil) != well {
					t.Errorf("a move in the words of version 5 at version %d: %v", version, moved)
				}
			}
		}
		return err
	})
}

// TestOrderOfColumns: in a new database the columns of jobs and steps that have a fixed length come
// first. Tables that were there before stay as they are, whatever a snapshot shows of them; all else
// is the same.
func TestOrderOfColumns(t *testing.T) {
	t.Parallel()
	last := len(migrations())
	const ordered = `select bool_and(fixed) from (select attlen > 0 or not exists (
  select from pg_attribute b where b.attrelid = a.attrelid and b.attnum > a.attnum and b.attlen > 0) as fixed
from pg_attribute a where a.attrelid = any ('{job, step}'::regclass[]) and a.attnum > 0) c`
	const oldSnapshots = "do $$ begin execute format('alter database %I set default_transaction_isolation = %L', current_database(), 'repeatable read'); end $$"
	var lists [][]string
	for _, tt := range []struct {
		name    string
		from    int // the version from which it comes
		before  string
		ordered bool
	}{
		{"a new database", 0, "", true},
		{"a new database with old snapshots", 0, oldSnapshots, true},
		{"an empty database of the version before", last - 1, "", false},
		{"an empty database with old snapshots", last - 1, oldSnapshots, false},
	} {
		url := pgtest.URL(t)
		onURL(t, url, func(conn *pgx.Conn) error {
			_, err := conn.Exec(t.Context(), tt.before)
			return err
		})
		s, err := OpenSchema(t.Context(), Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		migrate(t, s, tt.from)
		migrate(t, s, last)
		onURL(t, url, func(conn *pgx.Conn) error {
			var got bool
			if err := conn.QueryRow(t.Context(), ordered).Scan(&got); err != nil {
				return err
			}
			if got != tt.ordered {
				t.Errorf("%s: columns in the new order: %v, want %v", tt.name, got, tt.ordered)
			}
			rows, err := conn.Query(t.Context(), `select line from (`+catalogSQL+`) c(line)
union all select attrelid::regclass::text || attname || coalesce(pg_get_expr(adbin, adrelid), '') from pg_attribute left join pg_attrdef on adrelid = attrelid and adnum = attnum
  where attrelid = any ('{job, step}'::regclass[]) and attnum > 0 and not attisdropped
union all select relname || reloptions::text || relpersistence::text from pg_class where oid = any ('{job, step}'::regclass[])
union all select pg_get_viewdef(c.oid) from pg_class c where relkind = 'v' and relnamespace = current_schema()::regnamespace order by 1`)
			if err != nil {
				return err
			}
			list, err := pgx.CollectRows(rows, pgx.RowTo[string])
			lists = append(lists, list)
			return err
		})
	}
	for _, list := range lists[1:] {
		if diff := cmp.Diff(lists[0], list); diff != "" {
			t.Errorf("a new database, and another (-new +other):\n%s", diff)
		}
	}
}

// TestABrokenIndexIsNotTakenForBuilt: one that was to be built beforehand, and was not to its end.
func TestABrokenIndexIsNotTakenForBuilt(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	s, err := OpenSchema(t.Context(), Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	const claims = 13
	migrate(t, s, claims-1)
	onURL(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "create index step_cancel on step (due_at) where due_event = 'cancel'; update pg_index set indisvalid = false where indexrelid = 'step_cancel'::regclass")
		return err
	})
	if err := s.Migrate(t.Context(), claims); err == nil || !strings.Contains(err.Error(), "step_cancel") {
		t.Errorf("migrated with an index that is not valid: %v", err)
	}
	onURL(t, url, func(conn *pgx.Conn) error {
		_, err := conn.Exec(t.Context(), "reindex index concurrently step_cancel")
		return err
	})
	migrate(t, s, claims)
}
