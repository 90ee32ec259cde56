package explain

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// History calls f with the moves of a job and of all its steps in order of time, and with
// the facts that were refused. It ends with the first error of f. It reads pages, so f may
// be slow; moves made meanwhile may or may not be included.
func (r *Reader) History(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	h, err := r.historyOf(ctx, id)
	if err != nil {
		return err
	}
	h.f = f
	for at := (store.HistoryPlace{}); ; {
		var page []store.Entry
		if page, at, err = r.store.History(ctx, h.job.Key(), at, store.TrailPageRows); err != nil {
			return err
		}
		if len(page) == 0 {
			return h.refused(ctx, 0)
		}
		for i := range page {
			if err := h.entry(ctx, &page[i]); err != nil {
				return err
			}
		}
	}
}

func (r *Reader) historyOf(ctx context.Context, id pawl.ID) (*history, error) {
	j, err := store.FindJob(ctx, r.store, id)
	if err != nil {
		return nil, err
	}
	def, err := r.defs.Get(ctx, j.Definition)
	if err != nil {
		return nil, err
	}
	return newHistory(r.store, j, def, nil), nil
}

// A history is the progress of reading a job's history.
type history struct {
	store   Source
	job     *pawl.Job
	def     *workflow.Definition
	f       func(pawl.Transition) error
	only    pawl.Ord // of the step at this place; 0: of the whole job
	states  map[pawl.Ord]machine.State
	measure *pawl.Measure

	late  []pawl.Refusal // read and not yet passed on
	after store.RefusalPlace
	ended bool // there are no more
}

func newHistory(s Source, j *pawl.Job, def *workflow.Definition, f func(pawl.Transition) error) *history {
	return &history{store: s, job: j, def: def, f: f, states: map[pawl.Ord]machine.State{}, measure: pawl.NewMeasure()}
}

func (h *history) entry(ctx context.Context, e *store.Entry) error {
	if err := h.refused(ctx, e.At); err != nil {
		return err
	}
	if err := h.recall(ctx, e); err != nil {
		return err
	}
	return h.f(h.seen(e))
}

// seen returns an entry as a row of the history, which is that of the entity after those
// seen before.
func (h *history) seen(e *store.Entry) pawl.Transition {
	e.Entity, e.From = h.name(e.Ord), h.states[e.Ord]
	h.states[e.Ord] = e.To
	t := pawl.TransitionOf(&e.Entry)
	if e.Ord != 0 {
		t.Step = h.def.Key(e.Ord)
	}
	h.measure.Took(&t)
	return t
}

func (h *history) name(ord pawl.Ord) string {
	if ord == 0 {
		return h.job.ID.Public(pawl.JobPrefix)
	}
	return h.job.ID.Step(ord).Public(pawl.StepPrefix)
}

// refused passes on the facts refused before a time, or all that are left if it is 0.
func (h *history) refused(ctx context.Context, before int64) (err error) {
	for {
		if len(h.late) == 0 && !h.ended {
			if h.late, err = h.store.Refusals(ctx, h.job.Key(), h.after, store.ListPage); err != nil {
				return err
			}
			h.ended = len(h.late) == 0
		}
		if h.ended || before != 0 && h.late[0].At >= before {
			return nil
		}
		r := h.late[0]
		if h.only == 0 || h.only == r.Ord {
			err = h.f(pawl.Transition{Entity: h.name(r.Ord), Step: h.def.Key(r.Ord),
				Event: r.Event, Reason: r.Why, Actor: r.Actor, Metadata: r.Data, At: pawl.Timestamp(r.At), Refused: true})
			if err != nil {
				return err
			}
		}
		h.late, h.after = h.late[1:], store.RefusalPlace{At: r.At, ID: r.ID}
	}
}
