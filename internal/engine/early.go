package engine

import (
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A store may have the reports of an exchange be decided before it has read what the exchange
// claims. What they change for good can then be written meanwhile: jobs that end, and their steps.
// If they change anything else, such as a job of which another step becomes ready, the claim may
// change that again, and all is written at the end, once.

// errChangedAgain is the error of a transaction that comes back to what it has written early. It is
// decided again as a whole, on rows that are read.
var errChangedAgain = fmt.Errorf("a record was written before the transaction was decided: %w", store.ErrStale)

// errTooEarly is the error of a transaction that needs a worker before workers have been read. It is
// decided again likewise.
var errTooEarly = fmt.Errorf("a worker was needed before it was read: %w", store.ErrStale)

// early returns what the commands have changed until now, sealed, or nil if some of it may change
// again.
func (t *tx) early() *store.Changes {
	if len(t.entries) == 0 || !t.final() {
		return nil
	}
	c := new(store.Changes)
	if t.broken = t.work(c); t.broken != nil {
		return nil
	}
	t.hash()
	t.ended = *c
	for _, u := range c.Jobs {
		t.jobs[u.Record.Key()].written = true
	}
	for _, u := range c.Steps {
		t.steps[u.Record.StepKey].written = true
	}
	return c
}

// final reports whether all changes are of jobs that have ended, and of their steps.
func (t *tx) final() bool {
	for _, h := range t.jobs {
		if h.made || h.dirty && !lifecycle.Job.Ended(h.record.State) {
			return false
		}
	}
	for k, h := range t.steps {
		if h.made || h.dirty && !hasEnded(t.jobs[k.Job]) {
			return false
		}
	}
	return t.broken == nil
}

func hasEnded(h *held[pawl.Job]) bool { return h != nil && lifecycle.Job.Ended(h.record.State) }

// complete adds the facts that early ones lacked. The clock does not go back. Inputs and metadata come
// with a claim, also those of a job that is known.
func (t *tx) complete() {
	t.now = max(t.now, t.facts.Now)
	for _, h := range t.jobs {
		if !h.made && !h.written {
			h.loaded = [2]json.RawMessage{h.record.Inputs, h.record.Metadata}
		}
	}
	t.see()
}
