package store

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/machine"
)

// The tables of the records. A new field of a record needs one line here and a migration in
// each store.

// Jobs are the columns of jobs.
var Jobs = tableOf("job",
	as(Fixed, uuid("uuid", func(j *pawl.Job) []byte { return j.ID[:] })),
	as(Key, computed("id", func(j *pawl.Job) int64 { return int64(j.Key()) })),
	as(Fixed,
		text("workspace", func(j *pawl.Job) *string { return &j.Workspace }),
		text("workflow", func(j *pawl.Job) *string { return &j.Workflow }),
		text("description", func(j *pawl.Job) *string { return &j.Description }),
		long("parent", func(j *pawl.Job) *rowkey.Job { return &j.Parent }),
		long("parent_step", func(j *pawl.Job) *pawl.Ord { return &j.ParentStep }),
		long("continues", func(j *pawl.Job) *rowkey.Job { return &j.Continues }),
		long("schedule", func(j *pawl.Job) *rowkey.Schedule { return &j.Schedule }),
		number("depth", func(j *pawl.Job) *int { return &j.Depth }),
		long("private", func(j *pawl.Job) *rowkey.Job { return &j.Private }),
	),
	recordColumns(func(j *pawl.Job) *pawl.Record { return &j.Record }),
	as(Moving,
		long("definition", func(j *pawl.Job) *rowkey.Definition { return &j.Definition }),
		number("version", func(j *pawl.Job) *int { return &j.Version }),
		number("worker_count", func(j *pawl.Job) *int { return &j.WorkerCount }),
		long("route", func(j *pawl.Job) *rowkey.Route { return &j.Route }),
		number("priority", func(j *pawl.Job) *int { return &j.Priority }),
		long("rank", func(j *pawl.Job) *int64 { return &j.Rank }),
		long("pool", func(j *pawl.Job) *rowkey.Pool { return &j.Pool }),
		long("quota", func(j *pawl.Job) *rowkey.Pool { return &j.Quota }),
		boolean("paused", func(j *pawl.Job) *bool { return &j.Paused }),
		boolean("children", func(j *pawl.Job) *bool { return &j.Children }),
		short("mark", func(j *pawl.Job) *int8 { return (*int8)(&j.Mark) }),
		long("mark_at", func(j *pawl.Job) *int64 { return &j.MarkAt }),
		number("mark_tries", func(j *pawl.Job) *int { return &j.MarkTries }),
		text("ending", func(j *pawl.Job) *string { return (*string)(&j.Ending) }),
		short("hooks", func(j *pawl.Job) *int8 { return (*int8)(&j.Hooks) }),
		number("open", func(j *pawl.Job) *int { return &j.Open }),
		number("blocked", func(j *pawl.Job) *int { return &j.Blocked }),
		number("active", func(j *pawl.Job) *int { return &j.Active }),
		tree("tree", func(j *pawl.Job) **pawl.Tree { return &j.Tree }),
		long("started_at", func(j *pawl.Job) *int64 { return &j.StartedAt }),
		long("completed_at", func(j *pawl.Job) *int64 { return &j.CompletedAt }),
	),
	as(Body,
		raw("inputs", func(j *pawl.Job) *json.RawMessage { return &j.Inputs }),
		raw("output", func(j *pawl.Job) *json.RawMessage { return &j.Output }),
		failure("error", func(j *pawl.Job) **pawl.Failure { return &j.Error }),
		raw("metadata", func(j *pawl.Job) *json.RawMessage { return &j.Metadata }),
	),
)

// Steps are the columns of steps.
var Steps = tableOf("step",
	as(Key,
		long("job", func(s *pawl.Step) *rowkey.Job { return &s.Job }),
		long("ord", func(s *pawl.Step) *pawl.Ord { return &s.Ord }),
	),
	recordColumns(func(s *pawl.Step) *pawl.Record { return &s.Record }),
	as(Moving,
		short("mark", func(s *pawl.Step) *int8 { return (*int8)(&s.Mark) }),
		long("mark_at", func(s *pawl.Step) *int64 { return &s.MarkAt }),
		number("mark_tries", func(s *pawl.Step) *int { return &s.MarkTries }),
		number("unmet", func(s *pawl.Step) *int { return &s.Unmet }),
		boolean("skipped", func(s *pawl.Step) *bool { return &s.Skipped }),
		number("attempts", func(s *pawl.Step) *int { return &s.Attempts }),
		number("claims", func(s *pawl.Step) *int { return &s.Claims }),
		number("losses", func(s *pawl.Step) *int { return &s.Losses }),
		long("worker", func(s *pawl.Step) *rowkey.Worker { return &s.Worker }),
		long("route", func(s *pawl.Step) *rowkey.Route { return &s.Route }),
		number("priority", func(s *pawl.Step) *int { return &s.Priority }),
		long("rank", func(s *pawl.Step) *int64 { return &s.Rank }),
		long("pool", func(s *pawl.Step) *rowkey.Pool { return &s.Pool }),
		number("total", func(s *pawl.Step) *int { return &s.Total }),
		number("made", func(s *pawl.Step) *int { return &s.Made }),
		number("live", func(s *pawl.Step) *int { return &s.Live }),
		tree("tree", func(s *pawl.Step) **pawl.Tree { return &s.Tree }),
		long("folded", func(s *pawl.Step) *int64 { return &s.Folded }),
		long("enqueued_at", func(s *pawl.Step) *int64 { return &s.EnqueuedAt }),
		long("started_at", func(s *pawl.Step) *int64 { return &s.StartedAt }),
		long("completed_at", func(s *pawl.Step) *int64 { return &s.CompletedAt }),
	),
	as(Body,
		raw("input", func(s *pawl.Step) *json.RawMessage { return &s.Input }),
		raw("output", func(s *pawl.Step) *json.RawMessage { return &s.Output }),
		failure("error", func(s *pawl.Step) **pawl.Failure { return &s.Error }),
	),
)

// Workers are the columns of workers.
var Workers = tableOf("worker",
	as(Fixed, uuid("uuid", func(w *pawl.Worker) []byte { return w.ID[:] })),
	as(Key, computed("id", func(w *pawl.Worker) int64 { return int64(w.Key()) })),
	as(Fixed,
		text("workspace", func(w *pawl.Worker) *string { return &w.Workspace }),
		text("name", func(w *pawl.Worker) *string { return &w.Name }),
		text("host", func(w *pawl.Worker) *string { return &w.Host }),
		number("pid", func(w *pawl.Worker) *int { return &w.PID }),
		long("silence", func(w *pawl.Worker) *time.Duration { return &w.Silence }),
	),
	recordColumns(func(w *pawl.Worker) *pawl.Record { return &w.Record }),
	as(Moving,
		number("capacity", func(w *pawl.Worker) *int { return &w.Capacity }),
		numbers("routes", func(w *pawl.Worker) *[]rowkey.Route { return &w.Routes }),
		texts("handlers", func(w *pawl.Worker) *[]string { return &w.Handlers }),
	),
	as(Body, raw("metadata", func(w *pawl.Worker) *json.RawMessage { return &w.Metadata })),
)

// Schedules are the columns of schedules.
var Schedules = tableOf("schedule",
	as(Fixed, uuid("uuid", func(s *pawl.Schedule) []byte { return s.ID[:] })),
	as(Key, computed("id", func(s *pawl.Schedule) int64 { return int64(s.Key()) })),
	as(Fixed,
		text("workspace", func(s *pawl.Schedule) *string { return &s.Workspace }),
		text("name", func(s *pawl.Schedule) *string { return &s.Name }),
	),
	recordColumns(func(s *pawl.Schedule) *pawl.Record { return &s.Record }),
	as(Moving,
		text("workflow", func(s *pawl.Schedule) *string { return &s.Workflow }),
		text("cron", func(s *pawl.Schedule) *string { return &s.Cron }),
		text("time_zone", func(s *pawl.Schedule) *string { return &s.TimeZone }),
		long("catch_up", func(s *pawl.Schedule) *time.Duration { return &s.CatchUp }),
		text("overlap", func(s *pawl.Schedule) *string { return &s.Overlap }),
		number("priority", func(s *pawl.Schedule) *int { return &s.Priority }),
		long("due", func(s *pawl.Schedule) *int64 { return &s.Due }),
		long("last_job", func(s *pawl.Schedule) *rowkey.Job { return &s.LastJob }),
		long("waiting", func(s *pawl.Schedule) *int64 { return &s.Waiting }),
	),
	as(Body, raw("inputs", func(s *pawl.Schedule) *json.RawMessage { return &s.Inputs })),
)

// Tokens are the columns of tokens.
var Tokens = tableOf("token",
	as(Fixed, uuid("uuid", func(t *pawl.Token) []byte { return t.ID[:] })),
	as(Key, computed("id", func(t *pawl.Token) int64 { return int64(t.Key()) })),
	as(Fixed,
		text("name", func(t *pawl.Token) *string { return &t.Name }),
		texts("roles", func(t *pawl.Token) *[]pawl.Role { return &t.Roles }),
		texts("workspaces", func(t *pawl.Token) *[]string { return &t.Workspaces }),
		hash("sum", func(t *pawl.Token) []byte { return t.Sum[:] }),
	),
	as(Moving, long("expires_at", func(t *pawl.Token) *int64 { return &t.ExpiresAt })),
	recordColumns(func(t *pawl.Token) *pawl.Record { return &t.Record }),
)

// QueuePauses are the columns of pauses of queues.
var QueuePauses = tableOf("queue_pause",
	as(Fixed, uuid("uuid", func(p *pawl.QueuePause) []byte { return p.ID[:] })),
	as(Key, computed("id", func(p *pawl.QueuePause) int64 { return int64(p.Key()) })),
	as(Fixed,
		text("workspace", func(p *pawl.QueuePause) *string { return &p.Workspace }),
		text("queue", func(p *pawl.QueuePause) *string { return &p.Queue }),
	),
	recordColumns(func(p *pawl.QueuePause) *pawl.Record { return &p.Record }),
)

// Webhooks are the columns of webhooks.
var Webhooks = tableOf("webhook",
	as(Fixed, uuid("uuid", func(w *pawl.Webhook) []byte { return w.ID[:] })),
	as(Key, computed("id", func(w *pawl.Webhook) int64 { return int64(w.Key()) })),
	as(Fixed,
		text("workspace", func(w *pawl.Webhook) *string { return &w.Workspace }),
		text("name", func(w *pawl.Webhook) *string { return &w.Name }),
		text("begin", func(w *pawl.Webhook) *string { return &w.Begin }),
	),
	recordColumns(func(w *pawl.Webhook) *pawl.Record { return &w.Record }),
	as(Moving,
		text("url", func(w *pawl.Webhook) *string { return &w.URL }),
		text("job", func(w *pawl.Webhook) *string { return &w.Job }),
		texts("machines", func(w *pawl.Webhook) *[]string { return &w.Machines }),
		texts("events", func(w *pawl.Webhook) *[]machine.Event { return &w.Events }),
		blob("secret", func(w *pawl.Webhook) *[]byte { return &w.Secret }),
		blob("former", func(w *pawl.Webhook) *[]byte { return &w.Former }),
		long("former_until", func(w *pawl.Webhook) *int64 { return &w.FormerUntil }),
	),
)

// RecordColumns are the columns that every table has.
var RecordColumns = recordColumns(func(r *pawl.Record) *pawl.Record { return r })

func recordColumns[R any](of func(*R) *pawl.Record) []*Column[R] {
	return append(as(Fixed, long("created_at", func(r *R) *int64 { return &of(r).CreatedAt })), as(Moving,
		text("state", func(r *R) *string { return (*string)(&of(r).State) }),
		long("seq", func(r *R) *int64 { return &of(r).Seq }),
		hash("head", func(r *R) []byte { return of(r).Head[:] }),
		long("due_at", func(r *R) *int64 { return &of(r).DueAt }),
		text("due_event", func(r *R) *string { return (*string)(&of(r).DueEvent) }),
		long("updated_at", func(r *R) *int64 { return &of(r).UpdatedAt }),
	)...)
}

func as[R any](role Role, list ...*Column[R]) []*Column[R] {
	for _, c := range list {
		c.Role = role
	}
	return list
}

func computed[R any](name string, from func(*R) int64) *Column[R] {
	return &Column[R]{Name: name, From: from}
}

func long[R any, N ~int64](name string, at func(*R) *N) *Column[R] {
	return columnOf(name, KindNumber, int64Field, at)
}

func number[R any](name string, at func(*R) *int) *Column[R] {
	return columnOf(name, KindNumber, intField, at)
}

func short[R any](name string, at func(*R) *int8) *Column[R] {
	return columnOf(name, KindNumber, int8Field, at)
}

func boolean[R any](name string, at func(*R) *bool) *Column[R] {
	return columnOf(name, KindBool, boolField, at)
}

func text[R any](name string, at func(*R) *string) *Column[R] {
	return columnOf(name, KindText, textField, at)
}

func hash[R any](name string, at func(*R) []byte) *Column[R] { return fixed(name, KindHash, at) }

func blob[R any](name string, at func(*R) *[]byte) *Column[R] {
	return columnOf(name, KindBlob, blobField, at)
}

func uuid[R any](name string, at func(*R) []byte) *Column[R] { return fixed(name, KindUUID, at) }

func fixed[R any](name string, kind Kind, at func(*R) []byte) *Column[R] {
	c := columnOf(name, kind, bytesField, func(r *R) *byte { return &at(r)[0] })
	c.length = len(at(new(R)))
	return c
}

func tree[R any](name string, at func(*R) **pawl.Tree) *Column[R] {
	return columnOf(name, KindTree, treeField, at)
}

func raw[R any](name string, at func(*R) *json.RawMessage) *Column[R] {
	return columnOf(name, KindJSON, jsonField, at)
}

func failure[R any](name string, at func(*R) **pawl.Failure) *Column[R] {
	return columnOf(name, KindJSON, failureField, at)
}

func numbers[R any, N ~int64](name string, at func(*R) *[]N) *Column[R] {
	return columnOf(name, KindJSON, numbersField, at)
}

func texts[R any, S ~string](name string, at func(*R) *[]S) *Column[R] {
	return columnOf(name, KindJSON, textsField, at)
}
