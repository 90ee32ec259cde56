package engine

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/definitions"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// actorEngine is the actor of the engine's own moves.
const actorEngine = "engine"

// A tx holds the facts of one transaction and, on top of them, the changes its commands
// have made so far.
//
// If a command reads something that its query did not ask for, it gets nil and is refused
// with an error that names it (missed).
type tx struct {
	facts  *store.Facts
	asked  asked
	fault  error // what the present command has missed
	broken error // why nothing of the transaction may be committed, or nil
	now    int64

	known  *definitions.Known
	faults map[rowkey.Definition]error // of definitions that cannot be read

	jobs      map[rowkey.Job]*held[pawl.Job]
	steps     map[pawl.StepKey]*held[pawl.Step]
	workers   map[rowkey.Worker]*held[pawl.Worker]
	schedules map[rowkey.Schedule]*held[pawl.Schedule]
	tokens    map[rowkey.Token]*held[pawl.Token]
	pauses    map[rowkey.QueuePause]*held[pawl.QueuePause]
	webhooks  map[rowkey.Webhook]*held[pawl.Webhook]
	heldJobs  []held[pawl.Job] // those of the facts
	heldSteps []held[pawl.Step]
	ofJob     map[rowkey.Job]*held[pawl.Step] // first of the linked list of a job's steps in sight, newest first
	room      room

	salt        func() audit.Salt
	entries     []store.Entry
	drafts      []draft // one for each entry
	counted     []counting
	seals       []audit.Seal // reused space for the seals of entries
	salts       []audit.Salt // reused space for their salts
	refusals    []pawl.Refusal
	definitions []*pawl.Definition
	answers     map[store.IdempotencyKey]*store.Answer
	enqueued    []pawl.StepKey // by this transaction; some may have been claimed since
	versions    []*pawl.Version
	quotas      []*pawl.Quota
	reserved    []*pawl.Reservation
	released    []*pawl.Reservation
	newSignals  []*pawl.Signal
	taken       []*pawl.Signal
	turns       map[rowkey.Worker]store.Turn
	slots       []store.Pool // taken by this transaction, one entry per slot
	handoffs    []handoff
	spare       []spare
	full        []rowkey.Route // routes for which a submission has found no slot
	unserved    int            // jobs that lent slots could have taken

	ended            store.Changes // what was decided early
	sealed, branched int           // of the entries and of counted: the first so many are sealed, and folded

	command int // counts commands, to identify the first touch of a record by each
	journal journal
	claims  int // claim queries handed out so far
}

// held is a record and the facts known about it.
type held[R any] struct {
	record  *R
	id      string // public id; empty until needed
	was     int64  // version when loaded; meaningless if made
	made    bool
	dirty   bool
	written bool               // early: it must not change again
	next    *held[R]           // of the same job, if it is a step
	command int                // the last command that saw it
	loaded  [2]json.RawMessage // the inputs and metadata that were loaded with it
	span
}

// touched is a record as a command found it.
type touched[R any] struct {
	*held[R]
	before  R
	dirtied bool
}

// A journal holds what undo restores.
type journal struct {
	jobs                          []touched[pawl.Job]
	steps                         []touched[pawl.Step]
	workers                       []touched[pawl.Worker]
	madeJobs                      []rowkey.Job
	madeSteps                     []pawl.StepKey
	madeWorkers                   []rowkey.Worker
	schedules                     []touched[pawl.Schedule]
	madeSchedules                 []rowkey.Schedule
	tokens                        []touched[pawl.Token]
	webhooks                      []touched[pawl.Webhook]
	madeTokens                    []rowkey.Token
	pauses                        []touched[pawl.QueuePause]
	madePauses                    []rowkey.QueuePause
	madeWebhooks                  []rowkey.Webhook
	answered                      []store.IdempotencyKey
	turns                         []turned
	entries, refusals, defs, enqs int

	versions, quotas, signals, taken, slots, handoffs, counted, reserved, released int
}

// definition returns a definition that is in memory. If it is not, the error is a *need, or
// the reason why it could not be read if that was tried.
func (t *tx) definition(key rowkey.Definition) (*workflow.Definition, error) {
	if def := t.known.Of(key); def != nil {
		return def, nil
	}
	if err := t.faults[key]; err != nil {
		return nil, err
	}
	return nil, &need{[]rowkey.Definition{key}}
}

// newTx returns a transaction on the facts of a query, which uses l. made is about how many jobs it
// will create.
func newTx(q *store.Query, f *store.Facts, made int, l list) *tx {
	more := 0 // of early facts: about what will be claimed, as many as are reported
	if f.Claims == nil {
		for i := range q.Claims {
			more += q.Claims[i].Limit
		}
		more = min(more, len(f.Jobs))
	}
	t := &tx{
		facts: f, asked: asked{q: q}, now: f.Now,
		jobs:    make(map[rowkey.Job]*held[pawl.Job], len(f.Jobs)+more+made),
		steps:   make(map[pawl.StepKey]*held[pawl.Step], len(f.Steps)+more+made),
		workers: make(map[rowkey.Worker]*held[pawl.Worker], len(f.Workers)),
		ofJob:   make(map[rowkey.Job]*held[pawl.Step], len(f.Jobs)+more+made),
		entries: l.entries, drafts: l.drafts, counted: l.counted, seals: l.seals, salts: l.salts,
		journal: journal{jobs: l.touchedJobs, steps: l.touchedSteps},
	}
	t.heldJobs, t.heldSteps = slices.Grow(l.jobs, len(f.Jobs)+more), slices.Grow(l.steps, len(f.Steps)+more)
	t.see()
	for k, s := range f.Schedules {
		if t.schedules == nil {
			t.schedules = make(map[rowkey.Schedule]*held[pawl.Schedule], len(f.Schedules))
		}
		t.schedules[k] = &held[pawl.Schedule]{record: s, was: s.Seq, loaded: [2]json.RawMessage{s.Inputs}}
	}
	for k, token := range f.Tokens {
		if t.tokens == nil {
			t.tokens = make(map[rowkey.Token]*held[pawl.Token], len(f.Tokens))
		}
		t.tokens[k] = &held[pawl.Token]{record: token, was: token.Seq}
	}
	for k, p := range f.Pauses {
		if t.pauses == nil {
			t.pauses = make(map[rowkey.QueuePause]*held[pawl.QueuePause], len(f.Pauses))
		}
		t.pauses[k] = &held[pawl.QueuePause]{record: p, was: p.Seq}
	}
	for k, w := range f.Webhooks {
		if t.webhooks == nil {
			t.webhooks = make(map[rowkey.Webhook]*held[pawl.Webhook], len(f.Webhooks))
		}
		t.webhooks[k] = &held[pawl.Webhook]{record: w, was: w.Seq}
	}
	return t
}

// see adds the jobs, steps and workers of the facts that are not known yet.
func (t *tx) see() {
	for k, j := range t.facts.Jobs {
		if t.jobs[k] == nil {
			t.jobs[k] = keep(&t.heldJobs, held[pawl.Job]{record: j, was: j.Seq, loaded: [2]json.RawMessage{j.Inputs, j.Metadata}})
		}
	}
	for k, s := range t.facts.Steps {
		if t.steps[k] == nil {
			h := keep(&t.heldSteps, held[pawl.Step]{record: s, was: s.Seq})
			t.steps[k] = h
			t.link(h)
		}
	}
	for k, w := range t.facts.Workers {
		if t.workers[k] == nil {
			t.workers[k] = &held[pawl.Worker]{record: w, was: w.Seq}
		}
	}
}

// keep adds a record to a list whose records do not move, and returns where it is.
func keep[R any](list *[]held[R], h held[R]) *held[R] {
	n := len(*list)
	if n == cap(*list) {
		return &h
	}
	*list = append(*list, h)
	return &(*list)[n]
}

// open begins a command.
func (t *tx) open() {
	t.command++
	t.fault = nil
	clear(t.journal.jobs) // the next command may touch fewer, and what is pooled keeps nothing alive
	clear(t.journal.steps)
	t.journal = journal{
		jobs: t.journal.jobs[:0], steps: t.journal.steps[:0], workers: t.journal.workers[:0],
		madeJobs: t.journal.madeJobs[:0], madeSteps: t.journal.madeSteps[:0], madeWorkers: t.journal.madeWorkers[:0],
		schedules: t.journal.schedules[:0], madeSchedules: t.journal.madeSchedules[:0], tokens: t.journal.tokens[:0], madeTokens: t.journal.madeTokens[:0],
		pauses: t.journal.pauses[:0], madePauses: t.journal.madePauses[:0],
		webhooks: t.journal.webhooks[:0], madeWebhooks: t.journal.madeWebhooks[:0],
		entries: len(t.entries), refusals: len(t.refusals), defs: len(t.definitions), enqs: len(t.enqueued),
		versions: len(t.versions), quotas: len(t.quotas), signals: len(t.newSignals), taken: len(t.taken), slots: len(t.slots), handoffs: len(t.handoffs), counted: len(t.counted),
		reserved: len(t.reserved), released: len(t.released),
	}
}

// undo reverts what the command has done since open.
func (t *tx) undo() {
	j := &t.journal
	restore(j.jobs)
	restore(j.steps)
	restore(j.workers)
	restore(j.schedules)
	restore(j.tokens)
	restore(j.pauses)
	restore(j.webhooks)
	for _, k := range j.madeJobs {
		delete(t.jobs, k)
	}
	for _, k := range j.madeSteps {
		delete(t.steps, k)
		t.ofJob[k.Job] = t.ofJob[k.Job].next // made last
	}
	for _, k := range j.madeWorkers {
		delete(t.workers, k)
	}
	for _, k := range j.madeSchedules {
		delete(t.schedules, k)
	}
	for _, k := range j.madeTokens {
		delete(t.tokens, k)
	}
	for _, k := range j.madePauses {
		delete(t.pauses, k)
	}
	for _, k := range j.madeWebhooks {
		delete(t.webhooks, k)
	}
	for _, s := range t.taken[j.taken:] {
		s.Taken = 0
	}
	t.settle(t.handoffs[j.handoffs:])
	t.handoffs = t.handoffs[:j.handoffs]
	t.versions, t.quotas, t.slots = t.versions[:j.versions], t.quotas[:j.quotas], t.slots[:j.slots]
	t.newSignals, t.taken = t.newSignals[:j.signals], t.taken[:j.taken]
	t.reserved, t.released = t.reserved[:j.reserved], t.released[:j.released]
	for _, k := range j.answered {
		delete(t.answers, k)
	}
	t.restoreTurns()
	t.entries, t.drafts, t.refusals = t.entries[:j.entries], t.drafts[:j.entries], t.refusals[:j.refusals]
	t.counted = t.counted[:j.counted]
	t.definitions, t.enqueued = t.definitions[:j.defs], t.enqueued[:j.enqs]
}

func restore[R any](list []touched[R]) {
	for i := range list {
		h := &list[i]
		*h.record, h.dirty = h.before, h.dirtied
	}
}

// link adds a step to those in sight of its job.
func (t *tx) link(h *held[pawl.Step]) {
	job := h.record.Job
	h.next, t.ofJob[job] = t.ofJob[job], h
}

// touch records how a command found a record. Every command that sees a record may change
// it.
func touch[R any](t *tx, h *held[R], list *[]touched[R]) *R {
	if h.command != t.command {
		if h.written {
			t.broken = errChangedAgain
		}
		h.command = t.command
		*list = append(*list, touched[R]{h, *h.record, h.dirty})
	}
	return h.record
}

// public returns the public id of a record.
func (h *held[R]) public(id pawl.ID, prefix string) string {
	if h.id == "" {
		h.id = id.Public(prefix)
	}
	return h.id
}

func (t *tx) job(key rowkey.Job) *pawl.Job {
	if h := t.jobs[key]; h != nil {
		return touch(t, h, &t.journal.jobs)
	}
	if t.facts.Unreadable == 0 && !slices.Contains(t.asked.q.Jobs, key) && !t.isAnswered(key) {
		t.missed("Jobs", "job %d", key)
	}
	return nil
}

func (t *tx) step(key pawl.StepKey) *pawl.Step {
	s := t.stepInSight(key)
	if s == nil && t.facts.Unreadable == 0 && !t.asked.step(key) {
		t.missed("Steps", "step %s", key)
	}
	return s
}

// stepInSight returns a step that some command of the transaction has asked for, or nil.
func (t *tx) stepInSight(key pawl.StepKey) *pawl.Step {
	if h := t.steps[key]; h != nil {
		return touch(t, h, &t.journal.steps)
	}
	return nil
}

func (t *tx) worker(key rowkey.Worker) *pawl.Worker {
	w := t.workerInSight(key)
	if w == nil && t.facts.Unreadable == 0 && !slices.Contains(t.asked.q.Workers, key) && !slices.Contains(t.asked.q.Watched, key) {
		t.missed("Workers", "worker %d", key)
	}
	return w
}

// workerInSight returns a worker that some command of the transaction has asked for, or
// nil.
func (t *tx) workerInSight(key rowkey.Worker) *pawl.Worker {
	if h := t.workers[key]; h != nil {
		return touch(t, h, &t.journal.workers)
	}
	if t.facts.Claims == nil && len(t.asked.q.Claims) > 0 {
		t.broken = errTooEarly
	}
	return nil
}

func (t *tx) schedule(key rowkey.Schedule) *pawl.Schedule {
	if h := t.schedules[key]; h != nil {
		return touch(t, h, &t.journal.schedules)
	}
	if t.facts.Unreadable == 0 && !slices.Contains(t.asked.q.Schedules, key) {
		t.missed("Schedules", "schedule %d", key)
	}
	return nil
}

// makeJob adds a new job; its creation is its first audit row.
func (t *tx) makeJob(j *pawl.Job, note decide.Note) error {
	k := j.Key()
	if t.jobs[k] != nil {
		return fmt.Errorf("job key %d is taken: %w", k, store.ErrStale)
	}
	h := t.room.jobs.next()
	*h = held[pawl.Job]{record: j, made: true, dirty: true, command: t.command}
	t.jobs[k] = h
	t.journal.madeJobs = append(t.journal.madeJobs, k)
	t.create(store.JobEntity(k), h.public(j.ID, pawl.JobPrefix), lifecycle.Job, draft{record: &j.Record, span: &h.span, tree: &j.Tree}, note)
	return nil
}

func (t *tx) makeStep(j *pawl.Job, ord pawl.Ord) *pawl.Step {
	s, h := &pawl.Step{StepKey: pawl.StepKey{Job: j.Key(), Ord: ord}, Priority: j.Priority}, t.room.steps.next()
	*h = held[pawl.Step]{record: s, made: true, dirty: true, command: t.command}
	t.steps[s.StepKey] = h
	t.link(h)
	t.journal.madeSteps = append(t.journal.madeSteps, s.StepKey)
	t.create(store.StepEntity(s.StepKey), h.public(j.ID.Step(ord), pawl.StepPrefix), lifecycle.Step, draft{record: &s.Record, span: &h.span, tree: &s.Tree}, decide.Note{})
	return s
}

func (t *tx) makeWorker(w *pawl.Worker, note decide.Note) {
	k := w.Key()
	h := &held[pawl.Worker]{record: w, made: true, dirty: true, command: t.command}
	t.workers[k] = h
	t.journal.madeWorkers = append(t.journal.madeWorkers, k)
	t.create(store.WorkerEntity(k), h.public(w.ID, pawl.WorkerPrefix), lifecycle.Worker, draft{record: &w.Record, span: &h.span}, note)
}

func (t *tx) makeSchedule(s *pawl.Schedule, note decide.Note) {
	k := s.Key()
	if t.schedules == nil {
		t.schedules = make(map[rowkey.Schedule]*held[pawl.Schedule])
	}
	h := &held[pawl.Schedule]{record: s, made: true, dirty: true, command: t.command}
	t.schedules[k] = h
	t.journal.madeSchedules = append(t.journal.madeSchedules, k)
	t.create(store.ScheduleEntity(k), h.public(s.ID, pawl.SchedulePrefix), lifecycle.Schedule, draft{record: &s.Record, span: &h.span}, note)
}

func (t *tx) create(k store.EntityKey, id string, m *machine.Machine, d draft, note decide.Note) {
	d.record.State, d.record.CreatedAt = m.Initial, t.now
	t.append(k, id, d, audit.Entry{To: m.Initial, Event: m.Create}, note)
}

// move applies an event to a record by its table, and appends the audit row.
func (t *tx) move(k store.EntityKey, id string, m *machine.Machine, d draft, event machine.Event, note decide.Note) error {
	to, err := m.Next(d.record.State, event)
	if err != nil {
		if refusal, ok := err.(*machine.Refusal); ok {
			refusal.Entity = id
		}
		return err
	}
	from := d.record.State
	d.record.State = to
	t.append(k, id, d, audit.Entry{From: from, To: to, Event: event}, note)
	return nil
}

// append adds an entry, which is sealed with all others of the transaction.
func (t *tx) append(k store.EntityKey, id string, d draft, e audit.Entry, note decide.Note) {
	r := d.record
	e.Version, e.Entity, e.Sequence, e.At = audit.Version2, id, r.Seq+1, max(t.now, r.UpdatedAt)
	e.Reason, e.Actor, e.RequestID, e.Metadata = note.Reason, note.Actor, note.RequestID, note.Metadata
	if e.Actor == "" {
		e.Actor = actorEngine
	}
	r.Seq, r.UpdatedAt = e.Sequence, e.At
	if note.Failure != nil || note.Data != nil {
		d.note = &decide.Note{Failure: note.Failure, Data: note.Data}
	}
	t.entries, t.drafts = append(t.entries, store.Entry{EntityKey: k, Entry: e}), append(t.drafts, d)
}

func (t *tx) moveJob(j *pawl.Job, event machine.Event, note decide.Note) error {
	k := j.Key()
	h := t.jobs[k]
	h.dirty = true
	return t.move(store.JobEntity(k), h.public(j.ID, pawl.JobPrefix), lifecycle.Job, draft{record: &j.Record, span: &h.span, tree: &j.Tree}, event, note)
}

func (t *tx) moveStep(j *pawl.Job, s *pawl.Step, event machine.Event, note decide.Note) error {
	h := t.steps[s.StepKey]
	h.dirty = true
	if event == lifecycle.StepEnqueue {
		t.enqueued = append(t.enqueued, s.StepKey)
	}
	err := t.move(store.StepEntity(s.StepKey), h.public(j.ID.Step(s.Ord), pawl.StepPrefix), lifecycle.Step, draft{record: &s.Record, span: &h.span, tree: &s.Tree}, event, note)
	if err == nil && s.Folded != 0 {
		t.entries[len(t.entries)-1].Again, s.Folded = s.Folded, 0
	}
	return err
}

func (t *tx) moveWorker(w *pawl.Worker, event machine.Event, note decide.Note) error {
	k := w.Key()
	h := t.workers[k]
	h.dirty = true
	return t.move(store.WorkerEntity(k), h.public(w.ID, pawl.WorkerPrefix), lifecycle.Worker, draft{record: &w.Record, span: &h.span}, event, note)
}

func (t *tx) moveSchedule(s *pawl.Schedule, event machine.Event, note decide.Note) error {
	k := s.Key()
	h := t.schedules[k]
	h.dirty = true
	return t.move(store.ScheduleEntity(k), h.public(s.ID, pawl.SchedulePrefix), lifecycle.Schedule, draft{record: &s.Record, span: &h.span}, event, note)
}

// signals returns the signals of a job that no step has taken, oldest first.
func (t *tx) signals(job rowkey.Job) []*pawl.Signal {
	var free []*pawl.Signal
	for _, s := range slices.Concat(t.facts.Signals[job], t.newSignals) {
		if s.Taken == 0 && s.Job == job {
			free = append(free, s)
		}
	}
	return free
}

// untaken returns the number and the size of a job's signals that no step has taken.
func (t *tx) untaken(job rowkey.Job) store.Untaken {
	if !slices.Contains(t.asked.q.Untaken, job) {
		t.missed("Untaken", "the number of signals of job %d", job)
	}
	u := t.facts.Untaken[job]
	for _, s := range t.newSignals {
		if s.Job == job {
			u.Count, u.Bytes = u.Count+1, u.Bytes+len(s.Data)
		}
	}
	for _, s := range t.taken {
		if s.Job == job {
			u.Count, u.Bytes = u.Count-1, u.Bytes-len(s.Data)
		}
	}
	return u
}

func (t *tx) takeSignal(s *pawl.Signal, by pawl.Ord) {
	s.Taken = by
	t.taken = append(t.taken, s)
}

// newest returns the newest version of a workflow, or nil.
func (t *tx) newest(n pawl.WorkflowName) *pawl.Version {
	for _, v := range slices.Backward(t.versions) {
		if v.Workspace == n.Workspace && v.Name == n.Name {
			return v
		}
	}
	if !slices.Contains(t.asked.q.Names, n) {
		t.missed("Names", "workflow %s", n.Name)
	}
	return t.facts.Versions[n]
}

// held returns the steps in progress that a worker holds.
func (t *tx) held(worker rowkey.Worker) []pawl.StepKey {
	if !slices.Contains(t.asked.q.Held, worker) {
		t.missed("Held", "what worker %d holds", worker)
	}
	return t.facts.Held[worker]
}

// used returns how many slots of a pool are taken, including those taken by this
// transaction.
func (t *tx) used(p store.Pool) int {
	n, ok := t.facts.Pools[p]
	if !ok {
		t.missed("Pools", "pool %d", p.Key)
	}
	for _, taken := range t.slots {
		if taken == p {
			n++
		}
	}
	return n
}

// takeSlots takes slots of a pool until the end of the transaction; after that the records
// count them.
func (t *tx) takeSlots(p store.Pool, n int) {
	for range n {
		t.slots = append(t.slots, p)
	}
}

// answer stores the response to a request with an idempotency key (J8).
func (t *tx) answer(k store.IdempotencyKey, a store.Answer) {
	if t.answers == nil {
		t.answers = make(map[store.IdempotencyKey]*store.Answer)
	}
	a.ExpiresAt = t.now + IdempotencyTTL.Microseconds()
	t.answers[k] = &a
	t.journal.answered = append(t.journal.answered, k)
}

// answered returns the response to a request with an idempotency key, from this transaction
// or the store; New is set if there is none.
func (t *tx) answered(k store.IdempotencyKey) *store.Answer {
	if a := t.answers[k]; a != nil {
		return a
	}
	a := t.facts.Keys[k]
	if a == nil {
		t.missed("Keys", "request id %q", k.Key)
		return &store.Answer{New: true}
	}
	return a
}

// first returns the entry used to settle an unknown outcome.
func (t *tx) first() (store.Entry, bool) {
	if t == nil || len(t.entries) == 0 {
		return store.Entry{}, false
	}
	return t.entries[0], true
}

// due sets the time of a mark that is set: an Attention without a time is due now, and no
// other mark has a time.
func due(now int64, mark pawl.Mark, at *int64, tries *int) {
	switch {
	case mark != pawl.Attention:
		*at, *tries = 0, 0
	case *at == 0:
		*at = now
	}
}

// changes returns what the transaction has to write, or nil for nothing, or why it is broken. It seals the
// entries, and the payload that it writes.
func (t *tx) changes() (*store.Changes, error) {
	if t.broken != nil {
		return nil, t.broken
	}
	c := &store.Changes{Entries: t.entries, Refusals: t.refusals, Definitions: t.definitions, Answers: t.answers,
		Versions: t.versions, Quotas: t.quotas, NewSignals: t.newSignals, Taken: t.taken, Turns: t.turns,
		NewReservations: t.reserved, Released: t.released}
	err := t.work(c)
	for _, h := range t.workers {
		if h.made {
			c.NewWorkers = append(c.NewWorkers, h.record)
		} else if h.dirty {
			c.Workers = append(c.Workers, store.Update[*pawl.Worker]{Record: h.record, Was: h.was})
		}
	}
	for _, h := range t.schedules {
		if h.dirty && err == nil {
			err = t.sealSchedule(h)
		}
		if h.made {
			c.NewSchedules = append(c.NewSchedules, h.record)
		} else if h.dirty {
			c.Schedules = append(c.Schedules, store.Update[*pawl.Schedule]{Record: h.record, Was: h.was})
		}
	}
	for _, h := range t.tokens {
		if h.made {
			c.NewTokens = append(c.NewTokens, h.record)
		} else if h.dirty {
			c.Tokens = append(c.Tokens, store.Update[*pawl.Token]{Record: h.record, Was: h.was})
		}
	}
	for _, h := range t.pauses {
		if h.made {
			c.NewPauses = append(c.NewPauses, h.record)
		} else if h.dirty {
			c.Pauses = append(c.Pauses, store.Update[*pawl.QueuePause]{Record: h.record, Was: h.was})
		}
	}
	for _, h := range t.webhooks {
		if h.made {
			c.NewWebhooks = append(c.NewWebhooks, h.record)
		} else if h.dirty {
			c.Webhooks = append(c.Webhooks, store.Update[*pawl.Webhook]{Record: h.record, Was: h.was})
		}
	}
	if err != nil {
		return nil, err
	}
	t.hash()
	if c.Empty() {
		return nil, nil
	}
	return c, nil
}

// work adds the jobs and steps that the transaction has made or changed, and seals the payload of
// those that it has not written early.
func (t *tx) work(c *store.Changes) error {
	err := t.sealNotes()
	for _, h := range t.jobs {
		if h.written {
			continue
		}
		due(t.now, h.record.Mark, &h.record.MarkAt, &h.record.MarkTries)
		if h.dirty && err == nil {
			err = t.sealJob(h)
		}
		if h.made {
			c.NewJobs = append(c.NewJobs, h.record)
		} else if h.dirty {
			h.record.Inputs = unlessSame(h.record.Inputs, h.loaded[0])
			h.record.Metadata = unlessSame(h.record.Metadata, h.loaded[1])
			c.Jobs = append(c.Jobs, store.Update[*pawl.Job]{Record: h.record, Was: h.was})
		}
	}
	for _, h := range t.steps {
		if h.written {
			continue
		}
		due(t.now, h.record.Mark, &h.record.MarkAt, &h.record.MarkTries)
		if h.dirty && err == nil {
			err = t.sealStep(h)
		}
		if h.made {
			c.NewSteps = append(c.NewSteps, h.record)
		} else if h.dirty {
			c.Steps = append(c.Steps, store.Update[*pawl.Step]{Record: h.record, Was: h.was})
		}
	}
	c.Jobs, c.Steps = append(c.Jobs, t.ended.Jobs...), append(c.Steps, t.ended.Steps...)
	// All writers lock the rows of a commit in the same order.
	slices.SortFunc(c.Jobs, func(a, b store.Update[*pawl.Job]) int { return cmp.Compare(a.Record.Key(), b.Record.Key()) })
	slices.SortFunc(c.Steps, func(a, b store.Update[*pawl.Step]) int { return a.Record.Compare(b.Record.StepKey) })
	return err
}

// unlessSame returns the body that an update has to write. If the body is unchanged since
// it was loaded, it returns nil, which keeps the stored one.
func unlessSame(body, loaded json.RawMessage) json.RawMessage {
	if bytes.Equal(body, loaded) {
		return nil
	}
	return body
}
