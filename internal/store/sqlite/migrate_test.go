package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	zombie "zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// version1 returns a database of version 1, opened for migration, with the rows
// of testdata/version1.sql.
func version1(t *testing.T) (path string, db *sqlite.DB) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pawl.db")
	db = open(t, sqlite.Config{Path: path, AnyVersion: true})
	t.Cleanup(func() { db.Close() })
	migrate(t, db, 1)
	rows, err := os.ReadFile(filepath.Join("testdata", "version1.sql"))
	if err != nil {
		t.Fatal(err)
	}
	raw(t, path, string(rows))
	return path, db
}

func migrate(t *testing.T, db *sqlite.DB, to int) {
	t.Helper()
	if err := db.Migrate(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if got, _, err := db.Version(t.Context()); err != nil || got != to {
		t.Fatalf("version %d, %v; want %d", got, err, to)
	}
}

// tables are those of version 1.
var tables = []string{"worker", "worker_audit", "definition", "job", "step", "audit", "idempotency", "refusal"}

// content returns the rows of the tables and views of version 1, and how they are
// declared.
func content(t *testing.T, db *sqlite.DB) map[string][][]string {
	t.Helper()
	all := map[string][][]string{}
	ask := func(name, statement string) {
		err := db.Raw(t.Context(), func(c *zombie.Conn) error {
			_, rows, err := query(c, statement)
			all[name] = rows
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range append([]string{"workers", "worker_state_transitions", "jobs", "job_state_transitions", "idempotency_keys"}, tables...) {
		ask(name, "SELECT * FROM "+name)
	}
	ask("schema", "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name")
	return all
}

// A populated database of version 1 comes up: everything in it can be read, its
// trails verify, and what waits is found in its order. It goes down again, and is
// what it was (J10).
func TestMigrateVersion1(t *testing.T) {
	t.Parallel()
	_, db := version1(t)
	before := content(t, db)
	if len(before["job"]) != 8 || len(before["step"]) != 13 {
		t.Fatalf("%d jobs and %d steps to begin with", len(before["job"]), len(before["step"]))
	}
	for range 2 {
		migrate(t, db, 2)
		up := content(t, db)
		for _, name := range []string{"jobs", "job_state_transitions", "workers", "worker_state_transitions", "idempotency_keys", "audit"} {
			if diff := cmp.Diff(before[name], up[name]); diff != "" {
				t.Errorf("%s (-version 1 +version 2):\n%s", name, diff)
			}
		}
		_, newest, err := db.Version(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		migrate(t, db, newest)
		verifyTrails(t, db, 23)
		checkVersion1(t, db)
		migrate(t, db, 1)
		if diff := cmp.Diff(before, content(t, db)); diff != "" {
			t.Errorf("after the way up and down (-before +after):\n%s", diff)
		}
	}
}

// verifyTrails checks every trail against its record, and how many there are.
func verifyTrails(t *testing.T, db *sqlite.DB, want int) {
	t.Helper()
	n := 0
	err := db.Trails(t.Context(), 0, func(trail store.TrailOf) error {
		n++
		var head audit.Hash
		for _, e := range trail.Entries {
			sealed := e
			sealed.Seal(head)
			if head = e.Hash; sealed.Hash != head {
				t.Errorf("%s: entry %d does not fit the chain", trail.ID, e.Sequence)
			}
		}
		if trail.Record.Head != head || trail.Record.Seq != int64(len(trail.Entries)) || trail.Record.Seq == 0 {
			t.Errorf("%s: the record is at %d, its trail at %d", trail.ID, trail.Record.Seq, len(trail.Entries))
		}
		return nil
	})
	if err != nil || n != want {
		t.Errorf("%d trails, %v; want %d", n, err, want)
	}
}

// checkVersion1 looks at the rows of testdata/version1.sql as version 2 shows
// them.
func checkVersion1(t *testing.T, db *sqlite.DB) {
	t.Helper()
	byWorkflow := map[string][]*pawl.Job{}
	for _, j := range listJobs(t, db, store.JobFilter{}) {
		byWorkflow[j.Workflow] = append([]*pawl.Job{j}, byWorkflow[j.Workflow]...) // oldest first
		if want := pawl.RankAt(j.CreatedAt, j.Priority); j.Rank != want || j.Version != 0 || j.Pool != 0 || string(j.Inputs) != `{"n":1}` {
			t.Errorf("job %+v, want rank %d, no version, no pool, its inputs", j, want)
		}
	}
	queued, fan, failing, ended := byWorkflow["queued"], byWorkflow["fan"][0], byWorkflow["failing"][0], byWorkflow["ended"]
	for i, want := range []rowkey.Job{0, queued[1].Key(), 0} {
		if queued[i].Private != want {
			t.Errorf("job %d is private to %d, want %d", i, queued[i].Private, want)
		}
	}
	if failing.Parent != fan.Key() || failing.Ending != lifecycle.JobFailed || failing.Error.Step != "a" || string(ended[0].Output) != `{"ok":true}` {
		t.Errorf("jobs %+v and %+v", failing, ended[0])
	}
	f := see(t, db, &store.Query{
		Claims: []store.ClaimQuery{{Worker: 1, Routes: []rowkey.Route{5}, Limit: 9}}, Waiting: []store.JobLimit{{Job: fan.Key(), Limit: 5}},
		Nodes: []rowkey.Job{fan.Key()}, Keys: []store.IdempotencyKey{{Workspace: "default", Key: "r-1"}},
	})
	want := store.ClaimFacts{Steps: []pawl.StepKey{{Job: fan.Key(), Ord: pawl.MakeOrd(2, 2)}}, Starts: []rowkey.Job{queued[1].Key(), queued[0].Key()}}
	if diff := cmp.Diff(want, f.Claims[0]); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	marked, err := db.Marked(t.Context(), fan.Key())
	if err != nil || len(marked) != 1 || len(f.Waiting[fan.Key()]) != 1 || len(f.Nodes[fan.Key()]) != 4 {
		t.Errorf("waiting %v, marked %v, nodes %v, %v", f.Waiting, marked, f.Nodes, err)
	}
	for _, a := range f.Keys {
		if a.New || a.Status != 201 {
			t.Errorf("answer %+v, want the stored one", a)
		}
	}
	checkRest(t, db, fan)
}

func checkRest(t *testing.T, db *sqlite.DB, fan *pawl.Job) {
	t.Helper()
	steps, err := db.Steps(t.Context(), fan.Key(), 0, 0)
	if err != nil || len(steps) != 6 {
		t.Fatalf("%d steps, %v; want 6", len(steps), err)
	}
	held := steps[2]
	if held.Error == nil || string(held.Input) != "1" || held.Claims != 2 || held.Rank != pawl.RankAt(held.EnqueuedAt, 3) {
		t.Errorf("step %+v", held)
	}
	workers, err := db.Workers(t.Context(), store.WorkerFilter{Living: true})
	if err != nil || len(workers) != 1 || workers[0].Key() != held.Worker {
		t.Errorf("living workers %v, %v; want the one that holds the step", workers, err)
	}
	refusals, err := db.Refusals(t.Context(), fan.Key(), store.RefusalPlace{}, 0)
	if err != nil || len(refusals) != 1 {
		t.Errorf("refusals %v, %v; want one", refusals, err)
	}
	if d, err := db.Definition(t.Context(), fan.Definition); err != nil || d.Name != "flow" {
		t.Errorf("definition %+v, %v", d, err)
	}
	enqueued, running, err := db.InFlight(t.Context())
	if err != nil || enqueued[5] != 1 || running[0] != 1 || running[held.Worker] != 1 {
		t.Errorf("in flight: %v and %v, %v", enqueued, running, err)
	}
}

func listJobs(t *testing.T, db *sqlite.DB, f store.JobFilter) []*pawl.Job {
	t.Helper()
	jobs, err := db.Jobs(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// see returns facts, and changes nothing.
func see(t *testing.T, db *sqlite.DB, q *store.Query) *store.Facts {
	t.Helper()
	var facts *store.Facts
	err := db.Do(t.Context(), q, func(f *store.Facts) (*store.Changes, error) {
		facts = f
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return facts
}

// A database of an older version is refused until it is migrated, and then works
// (J10).
func TestOpenVersion1(t *testing.T) {
	t.Parallel()
	path, older := version1(t)
	if db, err := sqlite.Open(t.Context(), sqlite.Config{Path: path}); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("%v, %v: want an error of kind Conflict", db, err)
	}
	_, newest, err := older.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := older.Plan(t.Context(), newest)
	if err != nil || len(plan) != newest-1 || !strings.Contains(plan[0], "CREATE TABLE schedule") {
		t.Errorf("plan of %d steps, %v", len(plan), err)
	}
	migrate(t, older, newest)
	db := open(t, sqlite.Config{Path: path})
	defer db.Close()
	added := add(t, db, 1)[0]
	if jobs := listJobs(t, db, store.JobFilter{States: []machine.State{lifecycle.JobSubmitted}}); len(jobs) != 1 || jobs[0].Key() != added.Key() {
		t.Errorf("jobs %v, want the one that was added", jobs)
	}
}

// What only version 2 has goes on the way down; what is left is consistent.
func TestMigrateDownLoses(t *testing.T) {
	t.Parallel()
	_, db := version1(t)
	migrate(t, db, 2)
	exec := func(statement string) [][]string {
		t.Helper()
		var rows [][]string
		err := db.Raw(context.Background(), func(c *zombie.Conn) (err error) {
			_, rows, err = query(c, statement)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	exec("UPDATE job SET ending = 'COMPLETED', hooks = 1, blocked = 2, open = 1, mark = 0, pool = 5 WHERE workflow = 'fan'")
	exec("UPDATE job SET ending = 'COMPLETED', blocked = 0, private = 7 WHERE workflow = 'ended' AND state = 'COMPLETED'")
	exec("UPDATE step SET mark = 3 WHERE ord = " + decimal(int64(pawl.MakeOrd(3, 0))))
	migrate(t, db, 1)
	want := [][]string{{"", "3", "1", "0"}, {"", "0", "0", "1"}}
	got := slices.Concat(exec("SELECT ending, open, mark, private FROM job WHERE workflow = 'fan'"),
		exec("SELECT ending, open, mark, private FROM job WHERE workflow = 'ended' AND state = 'COMPLETED'"))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([][]string{{"0", "1"}}, exec("SELECT mark, unmet FROM step WHERE ord = "+decimal(int64(pawl.MakeOrd(3, 0))))); diff != "" {
		t.Errorf("the blocked step (-want +got):\n%s", diff)
	}
}
