package storetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync/atomic"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Mint makes increasing ids. Those of two mints do not collide in practice.
type Mint struct{ n atomic.Uint32 }

// NewMint returns a mint with a random start.
func NewMint() *Mint {
	m := &Mint{}
	m.n.Store(rand.Uint32N(1 << 30))
	return m
}

// ID returns an id made at the time now, in microseconds.
func (m *Mint) ID(now int64) pawl.ID {
	return pawl.MakeID(pawl.Time(now), m.n.Add(1), rand.Uint64())
}

// A Batch builds the changes of one transaction: records that move by their tables, and their
// trail, chained and sealed.
type Batch struct {
	store.Changes
	Reason    func() string // of each entry; nil: a usual reason for some entries
	Actor     string        // of each entry; empty: "suite"
	now       int64
	jobs      map[rowkey.Job]bool // new or updated already
	steps     map[pawl.StepKey]bool
	workers   map[rowkey.Worker]bool
	schedules map[rowkey.Schedule]bool
	tokens    map[rowkey.Token]bool
	pauses    map[rowkey.QueuePause]bool
	webhooks  map[rowkey.Webhook]bool
}

// NewBatch returns an empty batch whose entries have the time now.
func NewBatch(now int64) *Batch {
	return &Batch{now: now, jobs: map[rowkey.Job]bool{}, steps: map[pawl.StepKey]bool{}, workers: map[rowkey.Worker]bool{},
		schedules: map[rowkey.Schedule]bool{}, tokens: map[rowkey.Token]bool{}, pauses: map[rowkey.QueuePause]bool{}, webhooks: map[rowkey.Webhook]bool{}}
}

// AddJob adds a new job, SUBMITTED.
func (b *Batch) AddJob(j *pawl.Job) {
	b.jobs[j.Key()] = true
	b.NewJobs = append(b.NewJobs, j)
	b.create(lifecycle.Job, JobKey(j), j.ID.Public(pawl.JobPrefix), &j.Record)
}

// AddStep adds a new step of the job, pending.
func (b *Batch) AddStep(j *pawl.Job, s *pawl.Step) {
	s.Job = j.Key()
	b.steps[s.StepKey] = true
	b.NewSteps = append(b.NewSteps, s)
	b.create(lifecycle.Step, StepKey(s), j.ID.Step(s.Ord).Public(pawl.StepPrefix), &s.Record)
}

// AddWorker adds a new worker, IDLE.
func (b *Batch) AddWorker(w *pawl.Worker) {
	b.workers[w.Key()] = true
	b.NewWorkers = append(b.NewWorkers, w)
	b.create(lifecycle.Worker, WorkerKey(w), w.ID.Public(pawl.WorkerPrefix), &w.Record)
}

// AddSchedule adds a new schedule, active.
func (b *Batch) AddSchedule(s *pawl.Schedule) {
	b.schedules[s.Key()] = true
	b.NewSchedules = append(b.NewSchedules, s)
	b.create(lifecycle.Schedule, ScheduleKey(s), s.ID.Public(pawl.SchedulePrefix), &s.Record)
}

// AddToken adds a new token, active.
func (b *Batch) AddToken(t *pawl.Token) {
	b.tokens[t.Key()] = true
	b.NewTokens = append(b.NewTokens, t)
	b.create(lifecycle.Token, TokenKey(t), t.ID.Public(pawl.TokenPrefix), &t.Record)
}

// MoveToken applies the events in turn. It panics if the table refuses one.
func (b *Batch) MoveToken(t *pawl.Token, events ...machine.Event) {
	if !b.tokens[t.Key()] {
		b.tokens[t.Key()] = true
		b.Tokens = append(b.Tokens, store.Update[*pawl.Token]{Record: t, Was: t.Seq})
	}
	b.move(lifecycle.Token, TokenKey(t), t.ID.Public(pawl.TokenPrefix), &t.Record, events)
}

// AddPause adds a new pause of a queue.
func (b *Batch) AddPause(p *pawl.QueuePause) {
	b.pauses[p.Key()] = true
	b.NewPauses = append(b.NewPauses, p)
	b.create(lifecycle.QueuePause, PauseKey(p), p.ID.Public(pawl.QueuePausePrefix), &p.Record)
}

// MovePause applies the events in turn. It panics if the table refuses one.
func (b *Batch) MovePause(p *pawl.QueuePause, events ...machine.Event) {
	if !b.pauses[p.Key()] {
		b.pauses[p.Key()] = true
		b.Pauses = append(b.Pauses, store.Update[*pawl.QueuePause]{Record: p, Was: p.Seq})
	}
	b.move(lifecycle.QueuePause, PauseKey(p), p.ID.Public(pawl.QueuePausePrefix), &p.Record, events)
}

// AddWebhook adds a new webhook, active.
func (b *Batch) AddWebhook(w *pawl.Webhook) {
	b.webhooks[w.Key()] = true
	b.NewWebhooks = append(b.NewWebhooks, w)
	b.create(lifecycle.Webhook, WebhookKey(w), w.ID.Public(pawl.WebhookPrefix), &w.Record)
}

// MoveWebhook applies the events in turn. It panics if the table refuses one.
func (b *Batch) MoveWebhook(w *pawl.Webhook, events ...machine.Event) {
	if !b.webhooks[w.Key()] {
		b.webhooks[w.Key()] = true
		b.Webhooks = append(b.Webhooks, store.Update[*pawl.Webhook]{Record: w, Was: w.Seq})
	}
	b.move(lifecycle.Webhook, WebhookKey(w), w.ID.Public(pawl.WebhookPrefix), &w.Record, events)
}

// MoveJob applies the events in turn. It panics if the table refuses one.
func (b *Batch) MoveJob(j *pawl.Job, events ...machine.Event) {
	if !b.jobs[j.Key()] {
		b.jobs[j.Key()] = true
		b.Jobs = append(b.Jobs, store.Update[*pawl.Job]{Record: j, Was: j.Seq})
	}
	b.move(lifecycle.Job, JobKey(j), j.ID.Public(pawl.JobPrefix), &j.Record, events)
}

// MoveStep applies the events in turn. It panics if the table refuses one.
func (b *Batch) MoveStep(j *pawl.Job, s *pawl.Step, events ...machine.Event) {
	if !b.steps[s.StepKey] {
		b.steps[s.StepKey] = true
		b.Steps = append(b.Steps, store.Update[*pawl.Step]{Record: s, Was: s.Seq})
	}
	b.move(lifecycle.Step, StepKey(s), j.ID.Step(s.Ord).Public(pawl.StepPrefix), &s.Record, events)
}

// MoveWorker applies the events in turn. It panics if the table refuses one.
func (b *Batch) MoveWorker(w *pawl.Worker, events ...machine.Event) {
	if !b.workers[w.Key()] {
		b.workers[w.Key()] = true
		b.Workers = append(b.Workers, store.Update[*pawl.Worker]{Record: w, Was: w.Seq})
	}
	b.move(lifecycle.Worker, WorkerKey(w), w.ID.Public(pawl.WorkerPrefix), &w.Record, events)
}

// MoveSchedule applies the events in turn. It panics if the table refuses one.
func (b *Batch) MoveSchedule(s *pawl.Schedule, events ...machine.Event) {
	if !b.schedules[s.Key()] {
		b.schedules[s.Key()] = true
		b.Schedules = append(b.Schedules, store.Update[*pawl.Schedule]{Record: s, Was: s.Seq})
	}
	b.move(lifecycle.Schedule, ScheduleKey(s), s.ID.Public(pawl.SchedulePrefix), &s.Record, events)
}

// Answer stores the answer to an idempotency key.
func (b *Batch) Answer(k store.IdempotencyKey, a *store.Answer) {
	if b.Answers == nil {
		b.Answers = map[store.IdempotencyKey]*store.Answer{}
	}
	b.Answers[k] = a
}

func (b *Batch) create(m *machine.Machine, k store.EntityKey, id string, r *pawl.Record) {
	r.CreatedAt = b.now
	b.append(k, id, r, audit.Entry{To: m.Initial, Event: m.Create})
}

func (b *Batch) move(m *machine.Machine, k store.EntityKey, id string, r *pawl.Record, events []machine.Event) {
	for _, event := range events {
		to, err := m.Next(r.State, event)
		if err != nil {
			panic(fmt.Sprintf("move %s: %v", id, err))
		}
		b.append(k, id, r, audit.Entry{From: r.State, To: to, Event: event})
	}
}

func (b *Batch) append(k store.EntityKey, id string, r *pawl.Record, e audit.Entry) {
	e.Entity, e.Sequence, e.At = id, r.Seq+1, max(b.now, r.UpdatedAt)
	e.Actor = cmp.Or(b.Actor, "suite")
	if e.Sequence == 2 {
		e.Reason, e.RequestID = "because", "r-"+id
		e.Metadata, _ = json.Marshal(map[string]string{"to": string(e.To)})
	}
	if b.Reason != nil {
		e.Reason = b.Reason()
	}
	e.Seal(r.Head)
	r.State, r.Seq, r.Head, r.UpdatedAt = e.To, e.Sequence, e.Hash, e.At
	b.Entries = append(b.Entries, store.Entry{EntityKey: k, Entry: e})
}

// JobKey returns the key of the job as an entity.
func JobKey(j *pawl.Job) store.EntityKey {
	return store.JobEntity(j.Key())
}

// StepKey returns the key of the step as an entity.
func StepKey(s *pawl.Step) store.EntityKey {
	return store.StepEntity(s.StepKey)
}

// WorkerKey returns the key of the worker as an entity.
func WorkerKey(w *pawl.Worker) store.EntityKey {
	return store.WorkerEntity(w.Key())
}

// ScheduleKey returns the key of the schedule as an entity.
func ScheduleKey(s *pawl.Schedule) store.EntityKey {
	return store.ScheduleEntity(s.Key())
}

// TokenKey returns the key of a token among entities of any kind.
func TokenKey(t *pawl.Token) store.EntityKey { return store.TokenEntity(t.Key()) }

// PauseKey returns the key of a pause of a queue among entities of any kind.
func PauseKey(p *pawl.QueuePause) store.EntityKey { return store.PauseEntity(p.Key()) }

// WebhookKey returns the key of a webhook among entities of any kind.
func WebhookKey(w *pawl.Webhook) store.EntityKey { return store.WebhookEntity(w.Key()) }
