package sqlite

import (
	"fmt"
	"log/slog"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// A reading collects the facts of one query. A row that cannot be decoded is logged and
// omitted, so that it does not stop the others.
type reading struct {
	c      *conn
	f      *store.Facts
	log    *slog.Logger
	faults *store.Faults
	inputs map[rowkey.Job]bool // jobs whose inputs have been read
}

func (db *DB) facts(c *conn, q *store.Query) (*store.Facts, error) {
	r := &reading{c: c, log: db.log, faults: &db.faults, inputs: map[rowkey.Job]bool{}, f: &store.Facts{
		Now:       db.now(),
		Keys:      make(map[store.IdempotencyKey]*store.Answer, len(q.Keys)),
		Versions:  make(map[pawl.WorkflowName]*pawl.Version, len(q.Names)),
		Schedules: make(map[rowkey.Schedule]*pawl.Schedule, len(q.Schedules)),
		Tokens:    make(map[rowkey.Token]*pawl.Token, len(q.Tokens)),
		Limits:    make(map[pawl.WorkflowName]*pawl.Quota, len(q.Limits)),
		Pauses:    make(map[rowkey.QueuePause]*pawl.QueuePause, len(q.Paused)),
		Webhooks:  make(map[rowkey.Webhook]*pawl.Webhook, len(q.Webhooks)),
		Signals:   make(map[rowkey.Job][]*pawl.Signal, len(q.Signals)),
		Untaken:   make(map[rowkey.Job]store.Untaken, len(q.Untaken)),
		Workers:   make(map[rowkey.Worker]*pawl.Worker, len(q.Workers)),
		Turns:     make(map[rowkey.Worker]store.Turn, len(q.Turns)),
		Jobs:      make(map[rowkey.Job]*pawl.Job, len(q.Jobs)),
		Steps:     make(map[pawl.StepKey]*pawl.Step, len(q.Steps)),
		Waiting:   make(map[rowkey.Job][]pawl.StepKey, len(q.Waiting)),
		Open:      make(map[rowkey.Job][]pawl.StepKey, len(q.Open)),
		Nodes:     make(map[rowkey.Job][]pawl.StepKey, len(q.Nodes)),
		Held:      make(map[rowkey.Worker][]pawl.StepKey, len(q.Held)),

		Reservations: make(map[pawl.ID]*pawl.Reservation, len(q.Reservations)),
	}}
	if err := c.cache.refresh(c); err != nil {
		return nil, err
	}
	for _, part := range []func(*store.Query) error{
		r.keys, r.pools, r.names, r.limits, r.schedules, r.tokens, r.pauses, r.webhooks, r.named, r.signals, r.found, r.held, r.claims, r.turns, r.reservations,
	} {
		if err := part(q); err != nil {
			return nil, err
		}
	}
	return r.f, nil
}

// keys reads idempotency keys. An expired key is new again.
func (r *reading) keys(q *store.Query) error {
	for _, k := range q.Keys {
		answer := &store.Answer{New: true}
		err := r.c.each(selectAnswer, func(b *row) {
			b.text(k.Workspace)
			b.text(k.Key)
		}, func(c *columns) error {
			a := &store.Answer{Endpoint: c.text()}
			c.fixed(a.RequestHash[:])
			a.Status, a.ExpiresAt = int(c.int()), c.int()
			a.Body = c.body()
			expired := a.ExpiresAt > 0 && a.ExpiresAt <= r.f.Now
			if !expired && r.decoded(c, "idempotency key", k) {
				answer = a
			}
			return nil
		})
		if err != nil {
			return err
		}
		r.f.Keys[k] = answer
	}
	return nil
}

// named reads the records that the query names.
func (r *reading) named(q *store.Query) error {
	for _, k := range slices.Concat(q.Workers, q.Watched) {
		if err := r.worker(k); err != nil {
			return err
		}
	}
	for _, k := range q.Jobs {
		if err := r.job(k); err != nil {
			return err
		}
	}
	for _, k := range q.Steps {
		if err := r.step(k); err != nil {
			return err
		}
	}
	return nil
}

// found reads the steps that a condition on their jobs selects.
func (r *reading) found(q *store.Query) (err error) {
	for _, l := range q.Waiting {
		if r.f.Waiting[l.Job], err = r.waiting(l); err != nil {
			return err
		}
	}
	for _, k := range q.Open {
		if r.f.Open[k], err = r.steps(selectOpenSteps, int64(k)); err != nil {
			return err
		}
	}
	for _, k := range q.Nodes {
		if r.f.Nodes[k], err = r.nodes(k); err != nil {
			return err
		}
	}
	return nil
}

// waiting reads the steps of a job that wait for a slot. The keys are in the index. Most rows are
// known, and one is expensive to find: while a fan-out runs, every commit reads that of its
// instance 0, which has the whole list.
func (r *reading) waiting(l store.JobLimit) (keys []pawl.StepKey, err error) {
	err = r.c.each(selectWaiting, func(b *row) { b.ints(int64(l.Job), int64(l.Limit)) }, func(c *columns) error {
		keys = append(keys, pawl.StepKey{Job: rowkey.Job(c.int()), Ord: pawl.Ord(c.int())})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if err := r.step(k); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(keys, func(k pawl.StepKey) bool { return r.f.Steps[k] == nil }), nil // cannot be decoded
}

// nodes reads the steps of instance 0. It skips the other instances of each node, of which
// there may be many.
func (r *reading) nodes(job rowkey.Job) ([]pawl.StepKey, error) {
	var keys []pawl.StepKey
	for from, more := pawl.Ord(0), true; more; {
		more = false
		err := r.c.each(selectNextNode, func(b *row) { b.ints(int64(job), int64(from)) }, func(c *columns) error {
			k, ok := r.addStep(c)
			if ok && k.Ord.Instance() == 0 {
				keys = append(keys, k)
			}
			from, more = pawl.MakeOrd(k.Ord.Node()+1, 0), true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return keys, nil
}

func (r *reading) held(q *store.Query) (err error) {
	for _, k := range q.Held {
		if r.f.Held[k], err = r.steps(selectHeld, int64(k)); err != nil {
			return err
		}
		for _, s := range r.f.Held[k] {
			if err := r.job(s.Job); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reading) worker(k rowkey.Worker) error {
	if r.f.Workers[k] != nil {
		return nil
	}
	if w := r.c.cache.worker(k); w != nil {
		r.f.Workers[k] = w
		return nil
	}
	return r.c.each(selectWorker, func(b *row) { b.int(int64(k)) }, func(c *columns) error {
		w := workerTable.readWhole(c)
		w.Metadata = nil
		if r.decoded(c, "worker", k) {
			r.f.Workers[k] = w
			r.c.cache.keepWorker(w)
		}
		return nil
	})
}

func (r *reading) job(k rowkey.Job) error {
	if r.f.Jobs[k] != nil {
		return nil
	}
	if j := r.c.cache.job(k); j != nil {
		r.f.Jobs[k] = j
		return nil
	}
	return r.c.each(selectJob, func(b *row) { b.int(int64(k)) }, func(c *columns) error {
		if j := jobTable.readPlain(c); r.decoded(c, "job", k) {
			r.f.Jobs[k] = j
			r.c.cache.readJob(j, false)
		}
		return nil
	})
}

// jobInputs reads a job with its inputs and metadata, or only these if the job was already
// read.
func (r *reading) jobInputs(k rowkey.Job) error {
	if r.inputs[k] {
		return nil
	}
	r.inputs[k] = true
	if j := r.c.cache.jobInputs(k); j != nil {
		r.addJob(j)
		return nil
	}
	return r.c.each(selectJobInputs, func(b *row) { b.int(int64(k)) }, func(c *columns) error {
		j := jobTable.readPlain(c)
		j.Inputs, j.Metadata = c.body(), c.body()
		if r.decoded(c, "job", k) {
			r.c.cache.readJob(j, true)
			r.addJob(j)
		}
		return nil
	})
}

// addJob adds a job with its inputs and metadata, or adds these to the job.
func (r *reading) addJob(j *pawl.Job) {
	if read := r.f.Jobs[j.Key()]; read != nil {
		read.Inputs, read.Metadata = j.Inputs, j.Metadata
	} else {
		r.f.Jobs[j.Key()] = j
	}
}

func (r *reading) step(k pawl.StepKey) error {
	if r.f.Steps[k] != nil {
		return nil
	}
	if s := r.c.cache.step(k); s != nil {
		r.f.Steps[k] = s
		return nil
	}
	return r.c.each(selectStep, func(b *row) { b.ints(int64(k.Job), int64(k.Ord)) }, func(c *columns) error {
		r.addStep(c)
		return nil
	})
}

// steps reads the steps that s returns, and their keys in order.
func (r *reading) steps(s statement, args ...int64) ([]pawl.StepKey, error) {
	var keys []pawl.StepKey
	err := r.c.each(s, func(b *row) { b.ints(args...) }, func(c *columns) error {
		if k, ok := r.addStep(c); ok {
			keys = append(keys, k)
		}
		return nil
	})
	return keys, err
}

func (r *reading) addStep(c *columns) (pawl.StepKey, bool) {
	s := stepTable.readPlain(c)
	if !r.decoded(c, "step", s.StepKey) {
		return s.StepKey, false
	}
	if r.f.Steps[s.StepKey] == nil {
		r.f.Steps[s.StepKey] = s
		r.c.cache.readStep(s)
	}
	return s.StepKey, true
}

// decoded reports whether the row could be read. A failure is logged once, since every claim
// meets a row at the head of a queue.
func (r *reading) decoded(c *columns, kind string, key any) bool {
	err := c.finish()
	if err == nil {
		return true
	}
	r.f.Unreadable++
	if r.faults.New(fmt.Sprint(kind, key, err)) {
		leftOut(r.log, kind, key, err)
	}
	return false
}

func decoded(log *slog.Logger, c *columns, kind string, key any) bool {
	err := c.finish()
	if err != nil {
		leftOut(log, kind, key, err)
	}
	return err == nil
}

func leftOut(log *slog.Logger, kind string, key any, err error) {
	log.Error("a stored row cannot be decoded and is left out", "kind", kind, "key", key, "error", err)
}
