package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

var schemaTests = []test{
	{name: "J10/DownAndUp", run: downAndUp},
	{name: "J10/DownOneAndUp", run: func(e *env) { _, newest := e.version(); downSomeAndUp(e, newest-1) }},
	{name: "J10/DownSomeAndUp", run: func(e *env) { downSomeAndUp(e, beforeFeed) }},
	{name: "J10/Plan", run: plan},
	{name: "J10/BadVersion", run: badVersion},
	{name: "J10/StateConstraints", run: stateConstraints},
	{name: "J10/OtherConstraints", run: otherConstraints},
	{name: "J10/Columns", run: viewColumns},
	{name: "J10/Jobs", run: viewOfJobs},
	{name: "J10/Workers", run: viewOfWorkers},
	{name: "J10/IdempotencyKeys", run: viewOfKeys},
}

func (e *env) version() (current, newest int) {
	e.Helper()
	current, newest, err := e.st.Version(e.ctx)
	e.ok(err)
	return current, newest
}

// downAndUp: a populated database migrates down, version by version, and up again, and works.
func downAndUp(e *env) {
	e.add(2, claimed(1))
	e.addWorker()
	current, newest := e.version()
	if current != newest || newest < 1 {
		e.Fatalf("a new database has version %d of %d", current, newest)
	}
	for v := newest - 1; v >= 0; v-- {
		e.ok(e.st.Migrate(e.ctx, v))
		if got, _ := e.version(); got != v {
			e.Fatalf("version %d, want %d", got, v)
		}
	}
	if got := e.st.Opened(); got != newest {
		e.Errorf("it was opened at version %d, want %d", got, newest)
	}
	if _, err := e.st.Jobs(e.ctx, store.JobFilter{}); err == nil {
		e.Error("jobs can be listed without a schema")
	}
	e.ok(e.st.Migrate(e.ctx, newest))
	e.ok(e.st.Migrate(e.ctx, newest)) // nothing to do
	if jobs := e.jobs(store.JobFilter{}); len(jobs) != 0 {
		e.Errorf("%d jobs came back from nothing", len(jobs))
	}
	m := e.add(1, nil)
	e.diff("jobs", []rowkey.Job{m.key()}, e.jobs(store.JobFilter{}))
}

// downSomeAndUp: data that both versions can represent, or that is kept aside, survives the way
// down to a version and up, and all its trails verify. Other data may be lost, but does no harm.
func downSomeAndUp(e *env, to int) {
	_, newest := e.version()
	var job *pawl.Job
	var step *pawl.Step
	w := e.addWorker()
	e.do(&store.Query{}, func(f *store.Facts, b *Batch) {
		job, step, _ = e.full(f.Now)
		job.Private = job.Key()
		job.Version, job.ParentStep, job.Schedule, job.Pool, job.Quota, job.Hooks, job.Blocked, step.Pool = 0, 0, 0, 0, 0, 0, 0, 0
		b.AddJob(job)
		b.AddStep(job, step)
	})
	last := e.add(2, func(m made, b *Batch) {
		enqueued(1, 0)(m, b)
		m.job.Ending, m.job.Hooks, m.job.Pool, m.job.Quota, m.job.Version = lifecycle.JobCompleted, pawl.HooksRun, 1, 3, 2
		m.steps[0].Mark, m.steps[0].Pool, m.job.Blocked, m.job.Children = pawl.Blocked, 5, 1, true
		b.MoveJob(m.job, lifecycle.JobHooks)
	})
	child := e.add(0, func(m made, _ *Batch) { m.job.Parent = last.key() })
	e.addSchedule("s", nil)
	token, pause, webhook := e.addToken("t", nil), e.addPause("q"), e.addWebhook("w", nil)
	e.signal(last.job, "go", `1`)
	e.ok(e.st.Migrate(e.ctx, to))
	e.ok(e.st.Migrate(e.ctx, newest))
	if e.db.Name != "" {
		e.st = e.open() // a handle need not outlive the schema it was opened on
	}
	e.verify(0)
	gotJob, err := e.st.Job(e.ctx, job.Key())
	e.ok(err)
	gotSteps, err := e.st.Steps(e.ctx, job.Key(), 0, 0)
	e.ok(err)
	gotWorker, err := e.st.Worker(e.ctx, w.Key())
	e.ok(err)
	gotJob.Rank, gotSteps[0].Rank = job.Rank, step.Rank // computed again
	e.diff("job", job, gotJob)
	e.diff("steps", []*pawl.Step{step}, gotSteps)
	e.diff("worker", w, gotWorker)
	e.sameToken(token)
	e.diff("pause", []*pawl.QueuePause{pause}, e.pausesOf(store.PauseFilter{}))
	e.sameWebhook(webhook)
	e.diff("jobs", []rowkey.Job{child.key(), last.key(), job.Key()}, e.jobs(store.JobFilter{}))
	parent, err := e.st.Job(e.ctx, last.key())
	e.ok(err)
	if !parent.Children || gotJob.Children {
		e.Errorf("children: %v and %v, want true of the job that has some", parent.Children, gotJob.Children)
	}
	if got := e.see(&store.Query{Claims: []store.ClaimQuery{claim(5, 1)}}).Claims[0].Steps; len(got) != 2 {
		e.Errorf("claims %v, want both steps that are enqueued", got)
	}
}

func plan(e *env) {
	_, newest := e.version()
	steps, err := e.st.Plan(e.ctx, newest)
	e.ok(err)
	if len(steps) != 0 {
		e.Errorf("plan to where it is: %q", steps)
	}
	steps, err = e.st.Plan(e.ctx, 0)
	e.ok(err)
	if text := strings.ToLower(strings.Join(steps, "\n")); !strings.Contains(text, "drop table") {
		e.Errorf("plan to 0 drops nothing: %s", text)
	}
	if current, _ := e.version(); current != newest {
		e.Errorf("planning moved the schema to %d", current)
	}
}

func badVersion(e *env) {
	_, newest := e.version()
	for _, v := range []int{-1, newest + 1} {
		if err := e.st.Migrate(e.ctx, v); pawl.KindOf(err) != pawl.Invalid {
			e.Errorf("migrate to %d: error %v, want one of kind Invalid", v, err)
		}
	}
}

// stateConstraints: the database accepts each state of a table, and no other. The trail of
// jobs and steps proves itself.
func stateConstraints(e *env) {
	e.add(1, nil)
	e.addWorker()
	e.addSchedule("s", nil)
	e.addToken("t", nil)
	e.addPause("q")
	e.addWebhook("w", nil)
	for _, tt := range []struct {
		m      *machine.Machine
		tables []string
	}{
		{lifecycle.Job, []string{"job"}},
		{lifecycle.Step, []string{"step"}},
		{lifecycle.Worker, []string{"worker", "worker_audit"}},
		{lifecycle.Schedule, []string{"schedule", "schedule_audit"}},
		{lifecycle.Token, []string{"token", "token_audit"}},
		{lifecycle.QueuePause, []string{"queue_pause", "queue_pause_audit"}},
		{lifecycle.Webhook, []string{"webhook", "webhook_audit"}},
	} {
		for _, table := range tt.tables {
			for _, s := range append(slices.Clone(everyState()), "nonsense") {
				_, _, err := e.db.SQL(e.ctx, fmt.Sprintf("update %s set state = '%s'", table, s))
				if (err == nil) != tt.m.Has(s) {
					e.Errorf("state %s in %s: error %v", s, table, err)
				}
			}
		}
	}
}

// otherConstraints: an ending that is not an end, and a depth beyond the maximum, are refused.
func otherConstraints(e *env) {
	e.add(1, nil)
	for set, ok := range map[string]bool{
		"ending = ''": true, "ending = 'COMPLETED'": true, "ending = 'FAILED'": true, "ending = 'CANCELED'": true,
		"ending = 'RUNNING'": false, "ending = 'nonsense'": false,
		"depth = 0": true, "depth = 5": true, "depth = 6": false, "depth = -1": false,
	} {
		if _, _, err := e.db.SQL(e.ctx, "update job set "+set); (err == nil) != ok {
			e.Errorf("%s: error %v", set, err)
		}
	}
}

func everyState() []machine.State {
	return slices.Concat(lifecycle.Job.States, lifecycle.Step.States, lifecycle.Worker.States, lifecycle.Schedule.States, lifecycle.Token.States, lifecycle.QueuePause.States, lifecycle.Webhook.States)
}

// sql returns the rows of a query.
func (e *env) sql(query string) [][]string {
	e.Helper()
	_, rows, err := e.db.SQL(e.ctx, query)
	e.ok(err)
	return rows
}

// viewColumns: the tables of 001, sections 3.2 and 5, exist under their names with their
// columns.
func viewColumns(e *env) {
	for table, want := range map[string]string{
		"workers":                  "id workspace_id status created_at updated_at metadata",
		"worker_state_transitions": "id worker_id from_state to_state reason timestamp",
		"jobs":                     "id parent_job_id depth status worker_count created_at started_at completed_at task_description",
		"job_state_transitions":    "id job_id from_state to_state reason timestamp",
		"idempotency_keys":         "request_id endpoint response_status response_body created_at expires_at",
	} {
		columns, _, err := e.db.SQL(e.ctx, "select * from "+table)
		e.ok(err)
		for _, c := range strings.Fields(want) {
			if !slices.Contains(columns, c) {
				e.Errorf("%s has no column %s: %v", table, c, columns)
			}
		}
	}
}

func viewOfJobs(e *env) {
	parent := e.add(1, nil)
	child := e.add(1, func(m made, b *Batch) {
		m.job.Parent, m.job.Depth, m.job.Description = parent.key(), 1, "what"
		b.MoveJob(m.job, lifecycle.JobAllocateResources)
		m.job.StartedAt = b.now
	})
	id, parentID := child.job.ID.Public(pawl.JobPrefix), parent.job.ID.Public(pawl.JobPrefix)
	e.diff("job", [][]string{{id, parentID, "1", "RUNNING", "2", "what"}},
		e.sql("select id, parent_job_id, depth, status, worker_count, task_description from jobs"+
			" where created_at is not null and started_at is not null and completed_at is null"))
	e.diff("parent", [][]string{{parentID, "NULL"}}, e.sql("select id, parent_job_id from jobs where started_at is null"))
	got := e.sql("select from_state, to_state from job_state_transitions where job_id = '" + id + "' and timestamp is not null order by id")
	want := [][]string{{"NULL", "SUBMITTED"}, {"SUBMITTED", "PENDING"}, {"PENDING", "RUNNING"}}
	if d := cmp.Diff(want, got); d != "" {
		e.Errorf("transitions (-want +got):\n%s", d)
	}
}

func viewOfWorkers(e *env) {
	w := e.addWorker()
	e.do(&store.Query{Workers: []rowkey.Worker{w.Key()}}, func(f *store.Facts, b *Batch) {
		b.MoveWorker(f.Workers[w.Key()], lifecycle.WorkerStartTask)
	})
	id := w.ID.Public(pawl.WorkerPrefix)
	e.diff("worker", [][]string{{id, "w", "RUNNING"}}, e.sql("select id, workspace_id, status from workers where updated_at >= created_at"))
	e.diff("transitions", [][]string{{id, "NULL", "IDLE", ""}, {id, "IDLE", "RUNNING", "because"}},
		e.sql("select worker_id, from_state, to_state, reason from worker_state_transitions order by id"))
}

func viewOfKeys(e *env) {
	k := store.IdempotencyKey{Workspace: "w", Key: "r-1"}
	expires := e.now() + 3600e6
	e.do(&store.Query{Keys: []store.IdempotencyKey{k}}, func(_ *store.Facts, b *Batch) {
		b.Answer(k, &store.Answer{Endpoint: "POST /api/jobs", Status: 201, Body: []byte(`{"id":1}`), ExpiresAt: expires})
	})
	e.diff("keys", [][]string{{"r-1", "POST /api/jobs", "201", `{"id":1}`}},
		e.sql("select request_id, endpoint, response_status, response_body from idempotency_keys where expires_at > created_at"))
}
