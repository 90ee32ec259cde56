package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Enlist makes a remote worker (J1), once per request id.
func (e *Engine) Enlist(ctx context.Context, r link.Registration, c pawl.Change) (pawl.Receipt, error) {
	w := &r.Worker
	req, err := e.newRequest(c, w.Workspace, "POST /api/workers", w.Name, w.Host, w.PID, w.Capacity, w.Handlers, w.Silence, w.Metadata, r.Before)
	if err != nil {
		return pawl.Receipt{}, err
	}
	if known, done, err := req.earlier(ctx); done || err != nil {
		return known, err
	}
	w.ID = e.NewID()
	cmd := &register{worker: *w, note: noteOf(c)}
	if r.Before != nil {
		if err := e.succeed(ctx, cmd, r.Before); err != nil {
			return pawl.Receipt{}, err
		}
	}
	done, err := e.act(ctx, req, cmd, c)
	if err == nil {
		e.wake(0, true, false) // pending jobs may have waited for it
		e.evaluator.look()
	}
	return done, err
}

// BeatFor records that a remote worker is alive; see store.Ledger.Beat.
func (e *Engine) BeatFor(ctx context.Context, worker pawl.ID, claims []link.Stop) (*link.Pulsed, time.Duration, error) {
	g, err := e.guests.guest(ctx, e.store, worker)
	if err != nil {
		return nil, 0, err
	}
	said, err := e.store.Beat(ctx, link.Pulse{Worker: worker.WorkerKey(), Remote: true, Clock: pawl.Micros(e.cfg.Clock()), Claims: claims, Unnamed: claims == nil})
	return said, g.worker.Silence, err
}

// StepID returns the id of a step that exists.
func (e *Engine) StepID(ctx context.Context, key pawl.StepKey) (pawl.ID, error) {
	if known, _ := e.jobs.get(key.Job); known != nil {
		return known.id.Step(key.Ord), nil
	}
	j, err := e.store.Job(ctx, key.Job)
	if err != nil {
		return pawl.ID{}, err
	}
	return j.ID.Step(key.Ord), nil
}

// ActWorker applies an event that the worker itself asks for. One that has never had a task
// ends as terminated, since its table has no other end for it.
func (e *Engine) ActWorker(ctx context.Context, worker pawl.ID, event machine.Event, c pawl.Change) (pawl.Receipt, error) {
	if event != lifecycle.WorkerCompleteTasks {
		return e.operateWorker(ctx, worker, c, event)
	}
	w, err := store.FindWorker(ctx, e.store, worker)
	if err != nil {
		return pawl.Receipt{}, err
	}
	r, err := e.newRequest(c, w.Workspace, "POST /api/workers/{id}/complete", worker)
	if err != nil {
		return pawl.Receipt{}, err
	}
	return e.act(ctx, r, &endWorker{moveWorker{key: worker.WorkerKey(), note: noteOf(c)}}, c)
}

// An endWorker ends a worker that has drained.
type endWorker struct{ moveWorker }

func (m *endWorker) decide(t *tx) error {
	m.event = lifecycle.WorkerCompleteTasks
	if w := t.worker(m.key); w != nil && w.State == lifecycle.WorkerIdle {
		m.event = lifecycle.WorkerTerminate
	}
	return m.moveWorker.decide(t)
}

// ends reports whether an event that a worker has reported is stored as another one, or as
// itself: what was not a success is a cancel if the step had been asked to stop.
func ends(stored, reported machine.Event) bool {
	return stored == reported || stored == lifecycle.StepCancel && reported != lifecycle.StepSuccess
}

// reportedBefore reports whether the trail of a step says that the same worker has ended the
// same claim as the report does.
func (e *Engine) reportedBefore(ctx context.Context, r *link.Report) (before bool, err error) {
	own := false
	err = trail.EachEntry(ctx, e.store, store.StepEntity(r.Step), func(e *audit.Entry) error {
		switch {
		case e.Event == lifecycle.StepClaim:
			var told struct {
				Claim int `json:"claim"`
			}
			own = e.Actor == r.Actor && json.Unmarshal(e.Metadata, &told) == nil && told.Claim == r.Claim
		case own && e.Actor == r.Actor:
			before = before || ends(e.Event, r.Event)
		}
		return nil
	})
	return before, err
}

// LogEnd returns the offset behind what is stored of a stream of a claim.
func (e *Engine) LogEnd(ctx context.Context, step pawl.StepKey, claim int, stream string) (end int64, err error) {
	after := store.LogPlace{Ord: step.Ord, Claim: claim - 1, At: 1<<63 - 1}
	for {
		chunks, err := e.store.Logs(ctx, step.Job, step.Ord, after, logPage)
		if err != nil {
			return 0, err
		}
		for i := range chunks {
			if c := &chunks[i]; c.Claim == claim && c.Stream == stream {
				end = max(end, c.Offset+int64(len(c.Data)))
			}
		}
		if len(chunks) == 0 || chunks[len(chunks)-1].Claim > claim {
			return end, nil
		}
		after = store.PlaceOf(&chunks[len(chunks)-1])
	}
}

// logPage is how many chunks of a log are read at once.
const logPage = 500

// queued returns how many steps and jobs the transaction has left in the queue, by route.
func (t *tx) queued() map[rowkey.Route]int {
	var n map[rowkey.Route]int
	add := func(r rowkey.Route) {
		if n == nil {
			n = make(map[rowkey.Route]int)
		}
		n[r]++
	}
	for _, k := range t.enqueued {
		if s := t.steps[k]; s != nil && s.record.State == lifecycle.StepEnqueued {
			add(s.record.Route)
		}
	}
	for _, h := range t.jobs {
		if h.made && h.record.Route != 0 && h.record.State == lifecycle.JobPending {
			add(h.record.Route)
		}
	}
	return n
}
