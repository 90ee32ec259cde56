package postgres

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// multiply adds n copies of a job, with the keys behind its own.
func multiply(t *testing.T, db *DB, job int64, n int) {
	t.Helper()
	execute(t, db, `insert into job select (jsonb_populate_record(j, jsonb_build_object('id', j.id + g))).*
from job j cross join generate_series(1, $2::int) g where j.id = $1`, job, n)
}

var (
	scanned  = regexp.MustCompile(`(Seq|Index|Index Only|Bitmap Heap) Scan\b.* on (job|step|worker)\b.*\(actual rows=([\d.]+) loops=(\d+)\)`)
	filtered = regexp.MustCompile(`Rows Removed by (?:Filter|Index Recheck): (\d+)`)
)

// rowsRead runs a query and returns how many rows it has read of tables or in their place of
// an index, and its plan. Keys read from the index of jobs in flight do not count.
func rowsRead(t *testing.T, db *DB, sql string, args ...any) (n int, plan string) {
	t.Helper()
	rows, err := db.pool.Query(t.Context(), "explain (analyze, timing off, costs off, summary off) "+sql, args...)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	defer rows.Close()
	var lines []string
	loops := 0
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
		if strings.Contains(line, "->") {
			loops = 0
		}
		if m := scanned.FindStringSubmatch(line); m != nil && !strings.Contains(line, "Index Only Scan using job_open") {
			each, _ := strconv.ParseFloat(m[3], 64)
			loops, _ = strconv.Atoi(m[4])
			n += int(each * float64(loops))
		}
		if m := filtered.FindStringSubmatch(line); m != nil {
			each, _ := strconv.Atoi(m[1])
			n += each * loops
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return n, strings.Join(lines, "\n")
}

// TestJobKeysAreBounded (J4): a page of a list reads no more rows than it may, whatever
// statistics it is planned with, and stops as soon as it is full.
func TestJobKeysAreBounded(t *testing.T) {
	t.Parallel()
	const jobs, bound = 60_000, 20_000
	db := fresh(t)
	j := submit(t, db, 1, 1)[0]
	open := []machine.State{lifecycle.JobPending}
	filters := map[string]struct {
		f    store.JobFilter
		most int
	}{
		"no match":           {store.JobFilter{States: []machine.State{lifecycle.JobFailed}, Limit: 51}, bound},
		"no such workspace":  {store.JobFilter{Workspace: "none", Limit: 51}, bound},
		"in flight":          {store.JobFilter{Workspace: "none", States: open, Limit: 51}, bound},
		"all":                {store.JobFilter{Limit: 51}, 60},
		"full, in flight":    {store.JobFilter{States: open, Limit: 51}, bound},
		"children":           {store.JobFilter{Parent: 5, Limit: 51}, 60},
		"children, no match": {store.JobFilter{Parent: 5, Workspace: "none", Limit: 51}, bound},
		"metadata":           {store.JobFilter{Metadata: map[string]string{"team": "none"}, Limit: 51}, bound},
		"still":              {store.JobFilter{Still: 1, States: open, Limit: 51}, bound},
		"of a job":           {store.JobFilter{Continues: 5, Limit: 51}, 60},
	}
	check := func(when string) {
		for name, tt := range filters {
			sql, args := jobKeysQuery(tt.f, openOnly(tt.f), bound)
			if n, plan := rowsRead(t, db, sql, args...); n > tt.most || n < 51 || strings.Contains(plan, "hashed") {
				t.Errorf("%s, %s: %d rows are read, want 51 to %d:\n%s", when, name, n, tt.most, plan)
			}
		}
	}
	multiply(t, db, int64(j.Key()), jobs)
	execute(t, db, "update job set parent = 5, continues = 5")
	execute(t, db, `insert into step select (jsonb_populate_record(s, jsonb_build_object('ord', s.ord + g))).*
from step s cross join generate_series(1, $2::int) g where s.job = $1`, int64(j.Key()), bound/4)
	check("not analyzed")
	execute(t, db, "analyze")
	check("analyzed")
	if n, plan := rowsRead(t, db, newestSteps, 500); n != 500 {
		t.Errorf("%d steps are read for the newest 500:\n%s", n, plan)
	}
	_, next, err := db.JobKeys(t.Context(), filters["no match"].f, bound)
	if want := fmt.Sprint(int64(j.Key()) + jobs - bound + 1); err != nil || fmt.Sprint(int64(next)) != want {
		t.Errorf("next is %d, %v; want %s", next, err, want)
	}
}

// TestStepOrdsAreBounded (J4): the same of the steps of a wide job.
func TestStepOrdsAreBounded(t *testing.T) {
	t.Parallel()
	const steps, bound = 60_000, 20_000
	db := fresh(t)
	j := submit(t, db, 1, 1)[0]
	execute(t, db, `insert into step select (jsonb_populate_record(s, jsonb_build_object('ord', s.ord + g))).*
from step s cross join generate_series(1, $2::int) g where s.job = $1`, int64(j.Key()), steps)
	check := func(when string) {
		for name, tt := range map[string]struct {
			f    store.StepFilter
			most int
		}{
			"no match": {store.StepFilter{States: []machine.State{lifecycle.StepSkipped}}, bound + 1}, // and its job
			"all":      {store.StepFilter{}, 60},
			"behind":   {store.StepFilter{After: 1<<20 + 50_000, States: []machine.State{lifecycle.StepSkipped}}, steps - 50_000 + 2},
		} {
			tt.f.Job, tt.f.Limit = j.Key(), 51
			sql, args := stepOrdsQuery(tt.f, bound)
			if n, plan := rowsRead(t, db, sql, args...); n > tt.most || n < 51 {
				t.Errorf("%s, %s: %d rows are read, want 51 to %d:\n%s", when, name, n, tt.most, plan)
			}
		}
	}
	check("not analyzed")
	execute(t, db, "analyze")
	check("analyzed")
}

// TestCountsAreBounded (J4): what has ended long ago is not read to count what is in flight,
// nor to find the routes of it.
func TestCountsAreBounded(t *testing.T) {
	t.Parallel()
	const jobs, newest = 40_000, 10_001
	db := fresh(t)
	j := submit(t, db, 2, 1)[1]
	multiply(t, db, int64(j.Key()), jobs)
	execute(t, db, "insert into step select (jsonb_populate_record(s, jsonb_build_object('job', j.id))).* from step s cross join job j where s.job = $1 and j.id > s.job", int64(j.Key()))
	execute(t, db, "update job set state = 'COMPLETED', line = 0 where id >= $1", int64(j.Key()))
	execute(t, db, "update step set state = 'complete', line = 0 where job >= $1", int64(j.Key()))
	execute(t, db, "update step set state = 'enqueued', line = 1 where job < $1", int64(j.Key()))
	check := func(when string) {
		for _, workspace := range []string{"", "w"} {
			sql, args := countsQuery(workspace, newest)
			if n, plan := rowsRead(t, db, sql, args...); n < newest || n > newest+10 {
				t.Errorf("%s, counts of %q: %d rows are read, want about %d:\n%s", when, workspace, n, newest, plan)
			}
		}
		if n, plan := rowsRead(t, db, readLines, 10); n < 1 || n > 10 {
			t.Errorf("%s, lines: %d rows are read, want about 1:\n%s", when, n, plan)
		}
	}
	check("not analyzed")
	execute(t, db, "vacuum analyze")
	check("analyzed")
	counts, err := db.Counts(t.Context(), "", newest)
	if err != nil || !counts.More || counts.Jobs[lifecycle.JobCompleted] != newest || counts.Jobs[lifecycle.JobPending] != 1 || counts.Steps[lifecycle.StepEnqueued] != 1 {
		t.Errorf("%+v, %v", counts, err)
	}
}

// TestWaitsAreBounded (J4): steps that wait are found without those of other jobs.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	const jobs = 20_000
	db := fresh(t)
	j := submit(t, db, 2, 1)[1]
	multiply(t, db, int64(j.Key()), jobs)
	execute(t, db, "insert into step select (jsonb_populate_record(s, jsonb_build_object('job', j.id))).* from step s cross join job j where s.job = $1 and j.id > s.job", int64(j.Key()))
	execute(t, db, "update step set state = 'complete', line = 0 where job >= $1", int64(j.Key()))
	execute(t, db, `update step set state = 'in_progress', line = 2, worker = 0, total = 0, input = '{"kind":"approval"}' where job <= $1`, int64(j.Key()))
	check := func(when string) {
		for _, workspace := range []string{"", "w"} {
			f := store.WaitFilter{Kind: "approval", Workspace: workspace, Limit: 51}
			sql, args := waitsQuery(f, 20_000)
			if n, plan := rowsRead(t, db, sql, args...); n < 2 || n > 10 {
				t.Errorf("%s, of %q: %d rows are read, want about 4:\n%s", when, workspace, n, plan)
			}
		}
	}
	check("not analyzed")
	execute(t, db, "vacuum analyze")
	check("analyzed")
}
