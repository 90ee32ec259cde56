package sqlite

import (
	"context"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// explain returns how SQLite would run a query.
func explain(t *testing.T, db *DB, query string) string {
	t.Helper()
	var lines []string
	err := db.Raw(t.Context(), func(c *sqlite.Conn) error {
		s, _, err := c.PrepareTransient("EXPLAIN QUERY PLAN " + query)
		if err != nil {
			return err
		}
		defer s.Finalize()
		return newPrepared(s).rows(func(cols *columns) error {
			lines = append(lines, cols.s.ColumnText(3))
			return nil
		})
	})
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return strings.Join(lines, "\n")
}

func memoryDB(t *testing.T) *DB {
	t.Helper()
	db, err := Open(context.Background(), Config{Path: memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Every hot query finds its rows by an index, in order: its work depends on what
// it answers, not on how much waits (T3, K8).
func TestPlans(t *testing.T) {
	t.Parallel()
	db := memoryDB(t)
	for s, want := range map[statement][]string{
		selectJob:            {"SEARCH job USING INTEGER PRIMARY KEY"},
		selectStep:           {"SEARCH step USING PRIMARY KEY (job=? AND ord=?)"},
		selectClaimableSteps: {"SEARCH step USING COVERING INDEX step_flight (state=? AND place=?)"},
		selectClaimableJobs:  {"SEARCH job USING COVERING INDEX job_open (state=? AND route=? AND paused=?)"},
		selectUnrouted:       {"SEARCH job USING COVERING INDEX job_open (state=? AND route=? AND paused=? AND rank>?)"},
		selectMarked:         {"SEARCH step USING INDEX step_mark (mark=? AND job=?)"},
		selectWaiting:        {"SEARCH step USING COVERING INDEX step_mark (mark=? AND job=? AND mark_at=?)"},
		selectRunning:        {"SEARCH job USING INDEX job_open (state=? AND (route,paused,rank)>(?,?,?))"},
		selectRunningRoute:   {"SEARCH job USING COVERING INDEX job_open (state=? AND route>?)"},
		selectRunningRanks:   {"SEARCH job USING COVERING INDEX job_open (state=? AND route=? AND paused=?)"},
		selectStepsBare:      {"SEARCH step USING PRIMARY KEY (job=? AND ord>?)"},
		selectMarkedJobs:     {"SEARCH job USING COVERING INDEX job_mark_at (mark_at>? AND mark_at<?)"},
		selectOldJobs:        {"SEARCH o USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)", "job_continues", "job_parent"},
		selectOldJob:         {"SEARCH o USING INTEGER PRIMARY KEY (rowid=?)"},
		removeSteps:          {"SEARCH step USING PRIMARY KEY (job=? AND ord=?)", "SEARCH step USING PRIMARY KEY (job=?)"},
		removeTrails:         {"SEARCH audit USING PRIMARY KEY (job=? AND ord=? AND seq=?)", "SEARCH audit USING PRIMARY KEY (job=?)"},
		removeSignals:        {"SEARCH signal USING PRIMARY KEY (job=? AND seq=?)", "SEARCH signal USING PRIMARY KEY (job=?)"},
		removeRefusals:       {"SEARCH refusal USING INTEGER PRIMARY KEY (rowid=?)", "refusal_job (job=?)"},
		selectRemoval:        {"SEARCH removal USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"},
		selectNextMarkedStep: {"SEARCH step USING COVERING INDEX step_mark_at (mark_at>? AND mark_at<?)"},
		selectHeld:           {"SEARCH step USING INDEX step_flight (state=? AND place=?)"},
		selectStops:          {"SEARCH step USING INDEX step_flight (state=? AND place=?)"},
		selectNextHolder:     {"SEARCH step USING COVERING INDEX step_flight (state=? AND place>?)"},
		selectDueSteps:       {"step USING INDEX step_due (due_at>? AND due_at<?)"},
		selectDueJobs:        {"job USING INDEX job_due (due_at>? AND due_at<?)"},
		selectDueSchedules:   {"schedule USING INDEX schedule_due (due_at>? AND due_at<?)"},
		selectNextDue: {"step USING COVERING INDEX step_due (due_at>?)", "job USING COVERING INDEX job_due (due_at>?)",
			"schedule USING COVERING INDEX schedule_due (due_at>?)"},
		sweepAnswers:        {"idempotency USING COVERING INDEX idempotency_expiry (expires_at>? AND expires_at<?)"},
		countPoolJobs:       {"SEARCH job USING COVERING INDEX job_pool (pool=? AND state=?)"},
		selectPoolPending:   {"SEARCH job USING INDEX job_pool (pool=? AND state=? AND rank>?)"},
		countPoolQuota:      {"SEARCH job USING COVERING INDEX job_quota (quota=?)"},
		countPoolSteps:      {"SEARCH step USING COVERING INDEX step_pool (pool=?)"},
		selectNewestVersion: {"SEARCH version USING PRIMARY KEY (workspace=? AND name=?)"},
		selectVersion:       {"SEARCH version USING PRIMARY KEY (workspace=? AND name=? AND version=?)"},
		selectVersions:      {"SEARCH version USING PRIMARY KEY (workspace=? AND name=? AND version<?)"},
		selectSchedule:      {"SEARCH schedule USING INTEGER PRIMARY KEY"},
		selectScheduled:     {"SEARCH schedule USING INDEX schedule_name (workspace=? AND name=?)"},
		selectTokened:       {"SEARCH token USING INDEX token_name (name=?)"},
		selectHooked:        {"SEARCH webhook USING INDEX webhook_name (workspace=? AND name=?)"},
		selectTokens:        {"SEARCH token USING INTEGER PRIMARY KEY"},
		selectWebhooks:      {"SEARCH webhook USING INTEGER PRIMARY KEY"},
		selectToken:         {"SEARCH token USING INTEGER PRIMARY KEY"},
		selectWebhook:       {"SEARCH webhook USING INTEGER PRIMARY KEY"},
		selectTokenTrail:    {"SEARCH token_audit USING PRIMARY KEY (token=? AND seq>?)"},
		selectWebhookTrail:  {"SEARCH webhook_audit USING PRIMARY KEY (webhook=? AND seq>?)"},
		selectNextToken:     {"SEARCH token USING INTEGER PRIMARY KEY", "SEARCH token_audit USING PRIMARY KEY (token>?)"},
		selectNextWebhook:   {"SEARCH webhook USING INTEGER PRIMARY KEY", "SEARCH webhook_audit USING PRIMARY KEY (webhook>?)"},
		selectDueTokens:     {"token USING INDEX token_due (due_at>? AND due_at<?)"},
		selectFreeSignals:   {"SEARCH signal USING INDEX signal_free (job=?)"},
		selectSignals:       {"SEARCH signal USING INDEX signal_free (job=?)"},
		countFreeSignals:    {"SEARCH signal USING INDEX signal_free (job=?)"},
		takeSignal:          {"SEARCH signal USING PRIMARY KEY (job=? AND seq=?)"},
		selectNextNode:      {"SEARCH step USING PRIMARY KEY (job=? AND ord>?)"},
		selectInFlight:      {"SEARCH step USING COVERING INDEX step_flight (state=?)"},
		selectJobSequence:   {"SEARCH job USING INTEGER PRIMARY KEY", "SEARCH step USING PRIMARY KEY (job=?)"},
		selectNextRoute:     {"SEARCH step USING COVERING INDEX step_flight (state=? AND place>?)"},
		selectLine:          {"SEARCH step USING COVERING INDEX step_flight (state=? AND place=?)", "SEARCH step USING INDEX step_flight (state=? AND place=?)"},
		selectHeldLines:     {"SEARCH step USING INDEX step_flight (state=? AND place>?)"},
		selectNextSchedule:  {"SEARCH schedule USING INTEGER PRIMARY KEY", "SEARCH schedule_audit USING PRIMARY KEY (schedule>?)"},
		selectLivingWorkers: {"worker USING INDEX worker_living"},
		selectNextJob:       {"SEARCH job USING INTEGER PRIMARY KEY", "SEARCH audit USING PRIMARY KEY (job>?)"},
		selectJobTrail:      {"SEARCH audit USING PRIMARY KEY (job=? AND ord=? AND seq>?)"},
		selectScheduleTrail: {"SEARCH schedule_audit USING PRIMARY KEY (schedule=? AND seq>?)"},
		selectRefusals:      {"SEARCH refusal USING INDEX refusal_job (job=? AND at>?)"},
	} {
		plan := explain(t, db, texts[s])
		for _, w := range want {
			if !strings.Contains(plan, w) {
				t.Errorf("plan of %s lacks %q:\n%s", texts[s], w, plan)
			}
		}
		sorts := strings.Contains(plan, "USE TEMP B-TREE FOR ORDER BY")
		if mayes := s == selectMarked || s == selectHeld || s == selectStops; sorts && !mayes {
			t.Errorf("%s sorts:\n%s", texts[s], plan)
		}
	}
}

// Open jobs, children and successors are listed by their index, and steps that
// make a job move are looked for in that job alone.
func TestPlansOfJobLists(t *testing.T) {
	t.Parallel()
	db := memoryDB(t)
	open := []machine.State{lifecycle.JobRunning, lifecycle.JobPending}
	for want, filter := range map[string]store.JobFilter{
		"INDEX job_open":                      {States: open, Limit: 10},
		"INDEX job_parent (parent=?":          {Parent: 1, Workspace: "w", Limit: 10},
		"INDEX job_parent (parent=? AND":      {Parent: 1, States: open},
		"INDEX job_continues (continues=?":    {Continues: 1, Before: 9},
		"SEARCH step USING PRIMARY KEY (job=": {Still: 1, States: open},
	} {
		text, _ := jobsQuery(filter)
		if plan := explain(t, db, text); !strings.Contains(plan, want) {
			t.Errorf("plan of %s lacks %q:\n%s", text, want, plan)
		}
	}
}

// The keys of a list are found in the order of an index, so that the number of rows looked
// at is that of the limit (J4).
func TestPlansOfJobKeys(t *testing.T) {
	t.Parallel()
	db := memoryDB(t)
	open := []machine.State{lifecycle.JobRunning, lifecycle.JobPending}
	for want, filter := range map[string]store.JobFilter{
		"SEARCH job USING INTEGER PRIMARY KEY (rowid<?)":                 {Workspace: "w", States: []machine.State{lifecycle.JobFailed}},
		"SEARCH job USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)":     {From: 3},
		"SEARCH job USING COVERING INDEX job_open (state=?":              {Workspace: "w", States: open},
		"SEARCH job USING INDEX job_parent (parent=? AND":                {Parent: 1, States: open},
		"SEARCH job USING COVERING INDEX job_continues (continues=? AND": {Continues: 1},
		"SEARCH step USING PRIMARY KEY (job=?)":                          {Still: 5, From: 3},
	} {
		text, _ := jobKeysQuery(filter, 9)
		plan := explain(t, db, text)
		inOrder := !strings.Contains(plan, "USE TEMP B-TREE FOR ORDER BY") || strings.Contains(want, "job_open")
		if !strings.Contains(plan, want) || strings.Contains(plan, "SCAN job") || !inOrder {
			t.Errorf("plan of %s lacks %q, or does not follow the index:\n%s", text, want, plan)
		}
	}
	text, _ := waitsQuery(store.WaitFilter{Kind: "approval", Workspace: "w"}, 9)
	plan := explain(t, db, text)
	for _, want := range []string{"SEARCH step USING COVERING INDEX step_flight (state=? AND place=?)", "SEARCH s USING PRIMARY KEY (job=? AND ord=?)", "SEARCH job USING INTEGER PRIMARY KEY"} {
		if !strings.Contains(plan, want) || strings.Contains(plan, "SCAN step") {
			t.Errorf("plan of %s lacks %q:\n%s", text, want, plan)
		}
	}
	text, _ = stepOrdsQuery(store.StepFilter{States: []machine.State{lifecycle.StepSkipped}}, 9)
	if plan := explain(t, db, text); !strings.Contains(plan, "SEARCH step USING PRIMARY KEY (job=? AND ord>? AND ord<?)") || strings.Contains(plan, "TEMP B-TREE") {
		t.Errorf("plan of %s:\n%s", text, plan)
	}
}

// The ends of a step that a query spells out are those of its table.
func TestEndsInQuery(t *testing.T) {
	t.Parallel()
	for _, s := range lifecycle.Step.States {
		if spelt := strings.Contains(texts[selectOpenSteps], "'"+string(s)+"'"); spelt != lifecycle.Step.Ended(s) {
			t.Errorf("state %s is in the list of ends: %v", s, spelt)
		}
	}
	for _, s := range lifecycle.Worker.States {
		if spelt := strings.Contains(living, "'"+string(s)+"'"); spelt == lifecycle.Worker.Ended(s) {
			t.Errorf("worker state %s is in the list of the living: %v", s, spelt)
		}
	}
	for _, s := range lifecycle.Job.States {
		if spelt := strings.Contains(jobsOpen, "'"+string(s)+"'"); spelt == lifecycle.Job.Ended(s) {
			t.Errorf("job state %s is in the list of the open: %v", s, spelt)
		}
	}
}

// Every statement can be prepared, those of the logs on their own database.
func TestStatements(t *testing.T) {
	t.Parallel()
	db := memoryDB(t)
	w, err := db.logs.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for s := range statementCount {
		c := db.writer.conn
		if s == insertChunk || s == removeChunks || s == selectChunks || s == selectChunk || s == selectNextLog {
			c = w.conn
		}
		if texts[s] == "" {
			t.Errorf("statement %d has no text", s)
		} else if _, err := c.prep(s); err != nil {
			t.Errorf("%v", err)
		}
	}
}

// TestPlansOfMoves: the rows of each part are read in the order of an index, from where they are
// continued, and no further than they may be; what is selected is read by key (K6, T3).
func TestPlansOfMoves(t *testing.T) {
	t.Parallel()
	db := memoryDB(t)
	for part, want := range map[string]struct{ first, next string }{
		store.PartNear:    {"SEARCH audit USING PRIMARY KEY (job>? AND job<?)", "SEARCH audit USING PRIMARY KEY (job>? AND (job,ord,seq)<(?,?,?))"},
		store.PartDistant: {"SEARCH audit USING INDEX audit_distant (at>? AND at<?)", "SEARCH audit USING INDEX audit_distant (at>? AND (at,job,ord,seq)<(?,?,?,?))"},
		"worker":          {"SEARCH worker_audit USING INDEX worker_audit_at (at>? AND at<?)", "SEARCH worker_audit USING INDEX worker_audit_at (at>? AND (at,worker,seq)<(?,?,?))"},
	} {
		for want, start := range map[string]store.MoveRow{want.first: {}, want.next: {Part: store.PartOf(part)}} {
			query, values := movesQuery(&store.MoveFilter{From: 1, To: 9, Actor: "a", Event: "e", State: "s"}, part, start, 10)
			if n := strings.Count(query, "?"); n != len(values) {
				t.Errorf("%s has %d parameters and %d values", part, n, len(values))
			}
			if plan := explain(t, db, query); !strings.Contains(plan, want) || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN audit") || strings.Contains(plan, "SCAN worker") {
				t.Errorf("the plan of %s lacks %q:\n%s", part, want, plan)
			}
		}
	}
}
