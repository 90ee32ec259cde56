package engine_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/worker"
)

func fanOf(name, items string) string {
	return "name: " + name + "\ninputs: {items: {type: array}}\nsteps:\n  - {id: many, handler: work, foreach: " + items + "}"
}

// TestAWideFanOutStarvesNobody: beside a fan-out of 10,000 that came first, jobs of 20
// instances each run to their end while nearly all of the fan-out still waits. The fan-out
// also continues meanwhile: every fourth slot is for a job that has yet to begin (J7). The
// test checks the order in which steps run, not time.
func TestAWideFanOutStarvesNobody(t *testing.T) {
	t.Parallel()
	const jobs, each = 20, 20
	onStores(t, func(t *testing.T, open func() store.Store) {
		var mu sync.Mutex
		var order []bool // per run: whether it belonged to the wide job
		begun := make(chan struct{})
		work := func(_ context.Context, task *worker.Task) worker.Result {
			mu.Lock()
			defer mu.Unlock()
			if order = append(order, task.Workflow == "wide"); len(order) == 50 {
				close(begun)
			}
			return worker.Result{}
		}
		p := start(t, open(), setup{handlers: map[string]worker.Handler{"work": work}, capacity: 5})
		wide := p.submit(define(t, fanOf("wide", `"${{ inputs.items }}"`)), items(10_000))
		<-begun
		ids := p.submitMany(define(t, fanOf("small", "[1"+strings.Repeat(", 1", each-1)+"]")), jobs)
		mu.Lock()
		from := len(order)
		mu.Unlock()
		for _, id := range ids {
			p.wait(id)
		}
		if j, err := p.store.Job(t.Context(), wide.JobKey()); err != nil || j.CompletedAt != 0 {
			t.Fatalf("the wide job has ended (%v), so that nothing was seen", err)
		}
		mu.Lock()
		defer mu.Unlock()
		small, wides, before := 0, 0, 0
		for _, isWide := range order[from:] {
			if isWide {
				wides++
			} else {
				small, before = small+1, wides // before: wide runs before the last small one
			}
		}
		if before == 0 || before > 4*small {
			t.Errorf("%d wide instances ran beside %d small ones; want some, and no more than %d", before, small, 4*small)
		}
	})
}
