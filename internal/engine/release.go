package engine

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A release takes the steps of a worker that is dead or has ended away from it. It does not
// change their jobs: it leaves the outcomes for the evaluator to apply.
//
// A step that must not overlap with itself, according to its definition or its worker, is
// released only when the whole silence has passed since the worker was last heard from, by
// the worker's own measure too: by then the worker has ended the step itself. Until then
// the step stays with its ended worker, and every scan of the living workers finds it
// again.
type release struct {
	worker rowkey.Worker
	note   decide.Note
	end    bool // terminate the worker, unless it is terminated
	strict bool // with end: a worker that is terminated is refused
	judged bool // with end: the judge took it for dead, so that one that has ended since stays as it is

	interrupt bool          // the steps are interrupted, not lost: an operator wants it so, or they cannot be the cause
	quiet     time.Duration // time since the worker was last heard from

	declared link.Declaration
	silence  time.Duration                                // the longest that any process uses
	defs     map[rowkey.Definition]*workflow.Definition   // of the steps held, by key; nil: unreadable
	known    func(rowkey.Definition) *workflow.Definition // from memory, or nil
	unread   []rowkey.Definition                          // of those, the ones not in memory yet
}

// release commits a release, the first time by calling first. Definitions that are not in
// memory are read between two commits; the first commit releases the steps that do not need
// them.
func (e *Engine) release(ctx context.Context, r *release, first func() error) error {
	if err := e.prepareRelease(ctx, r); err != nil {
		return err
	}
	for commit := first; ; commit = func() error { return e.committer.one(ctx, r) } {
		if err := commit(); err != nil || len(r.unread) == 0 {
			return err
		}
		r.strict = false // it is terminated now
		for _, key := range r.unread {
			def, err := e.defs.Get(ctx, key)
			if err != nil && !store.Unreadable(err) {
				return err
			}
			r.defs[key] = def
		}
	}
}

func (e *Engine) prepareRelease(ctx context.Context, r *release) error {
	r.silence, r.defs = max(e.cfg.Silence, health.Silence), make(map[rowkey.Definition]*workflow.Definition)
	r.known = e.defs.Of
	w, err := e.store.Worker(ctx, r.worker)
	if errors.Is(err, store.ErrNotFound) {
		return nil // the decision refuses that
	}
	if err != nil {
		return err
	}
	if len(w.Metadata) > 0 && json.Unmarshal(w.Metadata, &r.declared) == nil && r.declared.Silence > 0 {
		r.silence = max(e.cfg.Silence, time.Duration(r.declared.Silence))
	}
	if r.end || !lifecycle.Worker.Ended(w.State) {
		return nil
	}
	end, spared, err := e.workerEnd(ctx, r.worker)
	r.interrupt = end.Operator || spared
	return err
}

func (r *release) subject() store.EntityKey { return store.WorkerEntity(r.worker) }

func (r *release) query(q *store.Query) {
	q.Workers = append(q.Workers, r.worker)
	q.Held = append(q.Held, r.worker)
}

func (r *release) decide(t *tx) error {
	r.unread = nil
	w := t.worker(r.worker)
	if w == nil {
		return pawl.Errorf(pawl.NotFound, "there is no worker with key %d", r.worker)
	}
	ended := w.State == lifecycle.WorkerTerminated || r.judged && lifecycle.Worker.Ended(w.State)
	if r.end && (r.strict || !ended) {
		if err := t.moveWorker(w, lifecycle.WorkerTerminate, r.note); err != nil {
			return err
		}
	}
	if !lifecycle.Worker.Ended(w.State) {
		return nil
	}
	for _, k := range t.held(r.worker) {
		if err := r.lose(t, w, k); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) lose(t *tx, w *pawl.Worker, k pawl.StepKey) error {
	s, j := t.step(k), t.job(k.Job)
	if s == nil || j == nil || s.State != lifecycle.StepInProgress || s.Worker != r.worker || r.mayOverlap(t, s, j) {
		return nil
	}
	if r.interrupt {
		return blindly(t, s, j).Report(s, interrupted(w, r.note))
	}
	f := &pawl.Failure{Class: "lost", Message: "its worker " + w.ID.Public(pawl.WorkerPrefix) + " ended: " + r.note.Reason}
	return blindly(t, s, j).Report(s, decide.Report{Event: lifecycle.StepLost, Failure: f, Note: decide.Note{Reason: r.note.Reason}})
}

// mayOverlap reports whether the step must not overlap with itself while its worker may
// still run it. For a step claimed after the worker was last seen, the time counts from the
// claim.
func (r *release) mayOverlap(t *tx, s *pawl.Step, j *pawl.Job) bool {
	if r.quiet >= r.silence && t.now-s.StartedAt >= r.silence.Microseconds() {
		return false
	}
	if r.declared.Isolation == workflow.IsolationStop {
		return true
	}
	def, read := r.defs[j.Definition]
	if !read {
		def = r.known(j.Definition)
	}
	if !read && def == nil {
		r.unread = append(r.unread, j.Definition)
		return true
	}
	return def == nil || def.Node(s.Ord.Node()).Isolation == workflow.IsolationStop
}

// An endMetadata is what the trail of a worker records about its end.
type endMetadata struct {
	Spared bool `json:"steps_spared,omitempty"` // its steps have lost nothing by it
}

func endNote(d health.Death) []byte {
	if d.Counts {
		return nil
	}
	b, _ := json.Marshal(endMetadata{Spared: true})
	return b
}

// Terminate ends a worker and releases its steps: they are lost, and other workers try them
// again (J9, T1).
func (e *Engine) Terminate(ctx context.Context, worker rowkey.Worker, note decide.Note) error {
	r := &release{worker: worker, note: note, end: true}
	return e.release(ctx, r, func() error { return e.committer.one(ctx, r) })
}

// Takeover immediately releases the steps of workers whose processes are known to be dead.
// The engine finds other dead workers within seconds. A lock that was lost with a
// connection does not prove that a worker is dead, but gone may know it for workers of its
// own machine. gone may be nil.
func (e *Engine) Takeover(ctx context.Context, gone func(*pawl.Worker) bool) error {
	seen, err := e.store.Observe(ctx)
	if err != nil || len(seen.Workers) == 0 {
		return err
	}
	workers, err := e.store.Workers(ctx, store.WorkerFilter{Living: true})
	if err != nil {
		return err
	}
	dead := make(map[rowkey.Worker]bool)
	for _, w := range workers {
		dead[w.Key()] = gone != nil && gone(w)
	}
	for i := range seen.Workers {
		if s := &seen.Workers[i]; s.Lock == health.Lost && dead[s.Worker] {
			s.Lock = health.Free
		}
	}
	_ = e.evaluator.bury(ctx, health.Proven(seen)) // the next scan finds them, too, and says so
	return nil
}
