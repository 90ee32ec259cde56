package postgres

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// looksUp are the statements whose work is to find records by key.
var looksUp = []*statement{readNamed, readAhead, readJobs, readSteps, setJobs, setSteps, claimOne, claimMany, claimLone, countPools, readSchedules, readVersions, readSignals, setSchedules, setTaken, setAnswers, dropKeys, readKeys,
	moveJobs.read, countJobs.read, startJobs.read, finishJobs.read, startSteps.read, finishSteps.read, takeSteps.read, endSteps.read, moveSteps.read, spreadSteps.read, moveJobs.known, countJobs.known, startJobs.known, finishJobs.known, startSteps.known, finishSteps.known, takeSteps.known, endSteps.known, moveSteps.known, moveJobs.alone.alone, countJobs.alone.alone, takeSteps.alone.alone, endSteps.alone.alone, spreadSteps.alone.alone, verifyJobs, verifySteps,
	wholeJob, wholeCount, wholeKin, wholeSteps, wholeTrail}

// TestPlansUseIndexes: no statement of a transaction or of the agenda reads a
// whole table, though it was planned when there was next to nothing in it: a
// plan is kept while the table grows.
func TestPlansUseIndexes(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{0, 1, 2, 5, 60} {
		t.Run(fmt.Sprintf("analyzed with %d rows", rows), func(t *testing.T) {
			t.Parallel()
			db := fresh(t)
			if rows > 0 {
				submit(t, db, rows, 1)
				execute(t, db, "insert into idempotency select 'w', g::text, 'e', '', 200, '', 1, 1 from generate_series(1, $1::int) g", rows)
				execute(t, db, "analyze")
			}
			conn, err := db.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			for _, s := range statements {
				if !regexp.MustCompile(`^(select|with|insert|update|delete|\()`).MatchString(s.sql) {
					continue
				}
				plan := explain(t, conn, s)
				if regexp.MustCompile(`Seq Scan on (job|step|audit|log|idempotency|refusal|schedule|token|webhook|registered|signal|quota)`).MatchString(plan) {
					t.Errorf("%s reads a whole table:\n%s", s.name, plan)
				}
				if slices.Contains(looksUp, s) {
					checkConditions(t, conn, s, plan)
				}
				// A scan of the primary key without a condition is one too.
				all := regexp.MustCompile(`Scan using (job|step|idempotency|schedule|registered|signal|quota)_pkey[^\n]*\n(\s+)(Index Cond)?`)
				for _, m := range all.FindAllStringSubmatch(plan, -1) {
					if slices.Contains(looksUp, s) && m[3] == "" {
						t.Errorf("%s reads a whole index:\n%s", s.name, plan)
					}
				}
			}
		})
	}
}

// checkConditions holds the conditions of index scans against the columns of the index:
// they have to be on its first ones, without a gap, since all that a gap leaves open is read.
func checkConditions(t *testing.T, conn *pgxpool.Conn, s *statement, plan string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`Scan using (\w+) on [^\n]*\n\s+Index Cond: ([^\n]*)`).FindAllStringSubmatch(plan, -1) {
		var columns []string
		err := conn.QueryRow(t.Context(), "select array(select pg_get_indexdef($1::regclass, n, true) from generate_series(1, (select indnkeyatts from pg_index where indexrelid = $1::regclass)) n)", m[1]).Scan(&columns)
		if err != nil {
			t.Fatal(err)
		}
		gap := ""
		for _, c := range columns {
			switch bound := regexp.MustCompile(`\b` + c + `\b`).MatchString(m[2]); {
			case !bound:
				gap = c
			case gap != "":
				t.Errorf("%s reads %s by %s, which leaves %s open:\n%s", s.name, m[1], m[2], gap, plan)
			}
		}
	}
}

func explain(t *testing.T, conn *pgxpool.Conn, s *statement) string {
	t.Helper()
	prepareOn(t, conn, s)
	ctx := context.Background()
	var params int
	if err := conn.QueryRow(ctx, "select coalesce(cardinality(parameter_types), 0) from pg_prepared_statements where name = $1", s.name).Scan(&params); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	sql := "explain execute " + s.name
	if params > 0 {
		sql += "(" + strings.TrimSuffix(strings.Repeat("null,", params), ",") + ")"
	}
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	defer rows.Close()
	var plan strings.Builder
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		plan.WriteString(line + "\n")
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", s.name, err)
	}
	return plan.String()
}

// TestPlansUsePartialIndexes: the predicates of the indexes on what is in flight
// are said in the words of the statements, though states are of a domain.
func TestPlansUsePartialIndexes(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	submit(t, db, 60, 1)
	execute(t, db, "analyze")
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for s, indexes := range map[*statement]string{
		claimOne: "step_ready job_open", claimMany: "step_ready job_open", claimLone: "step_ready job_open", countPools: "job_pool job_quota step_slots",
		readSteps: "step_mark", readSchedules: "schedule_name", readTokens: "token_name", readWebhooks: "webhook_name",
		agenda: "job_open job_mark_at job_due step_mark_at step_due worker_due worker_living schedule_due token_due",
	} {
		plan := explain(t, conn, s)
		for _, index := range strings.Fields(indexes) {
			if !strings.Contains(plan, "using "+index+" ") {
				t.Errorf("%s does not use %s:\n%s", s.name, index, plan)
			}
		}
	}
}

// TestABeatReadsStopsAlone: a beat looks at the steps of its own claims, by key. For a worker that does not
// say what it runs it looks at recent stops, and not at the steps that its worker has held, nor at stops of
// which the index has all since the oldest snapshot (T10).
func TestABeatReadsStopsAlone(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	submit(t, db, 60, 1)
	execute(t, db, "analyze")
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	for s, want := range map[*statement]string{
		{"beat", beat}:        `using step_pkey on step s\b.*\n\s+Index Cond: \(\(job = r.job\) AND \(ord = r.ord\)\)`,
		{"stops", stopsOfAll}: `using step_cancel on step\b.*\n\s+Index Cond: \(due_at > `,
	} {
		plan := explain(t, conn, s)
		if !regexp.MustCompile(want).MatchString(plan) || s.name == "beat" && strings.Contains(plan, "step_cancel") {
			t.Errorf("the plan of %s:\n%s", s.name, plan)
		}
	}
}

// TestAStretchReadsWhatItReturns: who goes through what runs reads rows of the table running
// by key, in their order, and each job by its key.
func TestAStretchReadsWhatItReturns(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	submit(t, db, 60, 1)
	execute(t, db, "insert into running (worker, jobs) select 0, array[g] from generate_series(1, 1000) g")
	execute(t, db, "analyze")
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	s := &statement{"stretch", stretch}
	plan := explain(t, conn, s)
	for _, want := range []string{`Index Scan using running_pkey on running\b.*\n\s+Index Cond: \(id >= `, `Incremental Sort`, `Index Scan using job_pkey on job\b.*\n\s+Index Cond: \(id = k.job\)`} {
		if !regexp.MustCompile(want).MatchString(plan) {
			t.Errorf("the plan lacks %s:\n%s", want, plan)
		}
	}
}

// TestFusedPlansUseIndexes: so do the fused statements, each row by its key, in their
// order.
func TestFusedPlansUseIndexes(t *testing.T) {
	t.Parallel()
	parts := []*part{verifyWorker, moveJobs.alone, takeSteps.alone, endSteps.alone, newFewEntries[fewEntries]}
	var calls []call
	for _, p := range parts {
		params := 0
		for _, name := range param.FindAllString(p.sql, -1) {
			n, _ := strconv.Atoi(name[1:])
			params = max(params, n)
		}
		calls = append(calls, call{statement: p.alone, part: p, params: make([][]byte, params)})
	}
	for _, rows := range []int{0, 1, 2, 5, 60} {
		t.Run(fmt.Sprintf("analyzed with %d rows", rows), func(t *testing.T) {
			t.Parallel()
			db := fresh(t)
			if rows > 0 {
				submit(t, db, rows, 1)
				execute(t, db, "analyze")
			}
			conn, err := db.pool.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Release()
			s := db.fusedStatements.of(calls)
			plan := explain(t, conn, s)
			want := `(?s)LockRows.*Index Cond: \(id = \$2\).*Update on job.*Index Cond: \(id = \$4\).*Update on step.*Index Cond: \(\(job = .*Update on step.*Index Cond: \(\(job = .*Append\s.*p0.*p1.*p2.*p3`
			if !regexp.MustCompile(want).MatchString(plan) || strings.Contains(plan, "Seq Scan") {
				t.Errorf("%s:\n%s", s.sql, plan)
			}
		})
	}
}

// TestPlansOfMoves: the rows of each part are read in the order of an index, and no further than they
// may be; rows of one time may be sorted (K6, T3).
func TestPlansOfMoves(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	submit(t, db, 60, 1)
	execute(t, db, `insert into audit (job, ord, seq, state, event, reason, actor, request_id, at, hash)
		select job + (g::bigint << 32), ord, seq, state, event, reason, actor, request_id, at + g * 1000000 + g % 2 * 60000000, hash from audit, generate_series(1, 100) g`)
	execute(t, db, "insert into worker_audit (worker, seq, state, event, reason, actor, request_id, at, hash) select g, 1, 'IDLE', 'register', '', 'a', '', g, '' from generate_series(1, 5000) g")
	execute(t, db, "analyze")
	conn, err := db.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	const near, distant, worker = `Index Scan Backward using audit_\w+_pkey on audit_\w+ .*\n\s+Index Cond: `, `Index Scan Backward using audit_\w+at\w* on audit_\w+ .*\n\s+Index Cond: `, `Index Scan Backward using worker_audit_at on worker_audit .*\n\s+Index Cond: `
	for part, want := range map[string]struct{ first, next string }{
		store.PartNear:    {near + `\(\(job >= .*\(job < `, near + `\(.*ROW\(job, ord, seq\) <= `},
		store.PartDistant: {distant + `\(\(at >= .*\(at < `, distant + `\(\(at >= .*\(at <= `},
		"worker":          {worker + `\(\(at >= .*\(at < `, worker + `\(\(at >= .*\(at <= `},
	} {
		for want, start := range map[string]store.MoveRow{want.first: {}, want.next: {Part: store.PartOf(part), At: 1 << 60, StepKey: pawl.StepKey{Job: 1 << 60}}} {
			sql, args := movesQuery(&store.MoveFilter{To: 1 << 60, Actor: "a", State: "s"}, part, start, 10)
			if other, _ := movesQuery(&store.MoveFilter{From: 1, To: 1 << 59, Actor: "b", State: "t"}, part, start, 11); other != sql {
				t.Errorf("%s has a statement for each value:\n%s\n%s", part, sql, other)
			}
			all := &statement{fmt.Sprintf("moves_%s_%d", part, start.Part), sql}
			prepareOn(t, conn, all)
			var values []string
			for _, v := range args {
				values = append(values, fmt.Sprintf("'%v'", v))
			}
			// A plan for these values, and the one for all, which is kept.
			for _, plan := range []string{planOf(t, conn, sql, args...), planOf(t, conn, "execute "+all.name+"("+strings.Join(values, ",")+")")} {
				if !regexp.MustCompile(want).MatchString(plan) || regexp.MustCompile(`(?m)->\s+Sort\b`).MatchString(plan) {
					t.Errorf("the plan of %s lacks %s, or sorts:\n%s", part, want, plan)
				}
			}
		}
	}
}

func planOf(t *testing.T, conn *pgxpool.Conn, sql string, args ...any) string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "explain "+sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
