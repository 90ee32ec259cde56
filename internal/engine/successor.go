package engine

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
)

// succeed records the predecessor of a worker, and the steps that the predecessor lost
// though it was alive.
func (e *Engine) succeed(ctx context.Context, cmd *register, before *link.Predecessor) error {
	old, err := e.store.Worker(ctx, before.Worker)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	cmd.predecessor = old.ID.Public(pawl.WorkerPrefix)
	for _, c := range before.Claims {
		lost, err := e.lostBy(ctx, c, cmd.predecessor)
		if err != nil {
			return err
		}
		if lost {
			cmd.acquitted = append(cmd.acquitted, c.StepKey)
		}
	}
	return nil
}

// lostBy reports whether the trail of a step counts a loss of that claim by that worker.
func (e *Engine) lostBy(ctx context.Context, c link.Claimed, worker string) (lost bool, err error) {
	own := false
	err = trail.EachEntry(ctx, e.store, store.StepEntity(c.StepKey), func(e *audit.Entry) error {
		switch e.Event {
		case lifecycle.StepClaim:
			var told struct {
				Claim int `json:"claim"`
			}
			own = e.Actor == worker && json.Unmarshal(e.Metadata, &told) == nil && told.Claim == c.Claims
		case lifecycle.StepLost:
			lost = lost || own
		}
		return nil
	})
	return lost, err
}

// acquit takes back the losses of steps whose worker is alive.
func (r *register) acquit(t *tx) {
	if r.predecessor == "" {
		return
	}
	given := 0
	for _, k := range r.acquitted {
		s := t.step(k)
		if s == nil || s.Losses == 0 || s.State == lifecycle.StepPermanentError || lifecycle.Step.Ended(s.State) {
			continue
		}
		s.Losses--
		t.steps[k].dirty = true
		given++
	}
	r.note.Metadata, _ = json.Marshal(struct {
		Predecessor string `json:"predecessor"`
		GivenBack   int    `json:"losses_given_back,omitempty"`
	}{r.predecessor, given})
}
