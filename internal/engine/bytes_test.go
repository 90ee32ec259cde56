package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// A metered store counts the bytes of outputs read with pages of steps.
type metered struct {
	store.Store
	bytes atomic.Int64
}

func (w *metered) Steps(ctx context.Context, job rowkey.Job, after pawl.Ord, limit int) ([]*pawl.Step, error) {
	page, err := w.Store.Steps(ctx, job, after, limit)
	for _, s := range page {
		w.bytes.Add(int64(len(s.Output)))
	}
	return page, err
}

// TestGatheringStopsAtTheLimit: the outputs of a fan-out are read only up to the limit of
// their list, since each of them may be as long as that limit.
func TestGatheringStopsAtTheLimit(t *testing.T) { // T8
	onShared(t, func(t *testing.T, db *database) {
		w := &metered{Store: db.open()}
		large := strings.Repeat("x", engine.MaxOutput-2)
		p := startProcess(t, w, map[string]worker.Handler{"large": worker.Func(func(context.Context, *worker.Task) (any, error) { return large, nil })})
		id := p.submit(define(t, "name: w\nsteps: [{id: each, foreach: [1, 2, 3, 4, 5, 6, 7, 8], handler: large}]\noutput: ${{ steps.each.output }}\n"), "")
		until(t, "the job ends", func() bool { // a view of it also reads outputs
			j, err := w.Job(t.Context(), id.JobKey())
			must(t, err)
			return lifecycle.Job.Ended(j.State)
		})
		if got := w.bytes.Load(); got > 2*engine.MaxOutput {
			t.Errorf("%d bytes of outputs were read, want at most those of 2 of 8", got)
		}
		if v := p.job(id); v.Status != lifecycle.JobFailed || steps(v)["each"].Error.Class != "output_too_large" {
			t.Errorf("the job is %s (%v)", v.Status, v.Error)
		}
	})
}

// TestSignalsHaveALimit: signals beyond the byte limit of untaken signals are refused, and
// those before it are still taken.
func TestSignalsHaveALimit(t *testing.T) { // T8
	onShared(t, func(t *testing.T, db *database) {
		p := startProcess(t, db.open(), map[string]worker.Handler{"h": nop})
		id := p.submit(define(t, "name: w\nsteps: [{id: ask, approval: {prompt: go?}}, {id: hear, needs: [ask], foreach: [1, 2, 3, 4], event: {name: e}}]\noutput: ${{ steps.hear.output }}\n"), "")
		p.waiting(id, "ask")
		data := func(n int) json.RawMessage { return json.RawMessage(fmt.Sprintf("%q", strings.Repeat("x", n-2))) }
		for range store.MaxSignalBytes / engine.MaxOutput {
			must(t, errorOf(p.engine.Signal(t.Context(), id, "e", data(engine.MaxOutput), ann)))
		}
		_, err := p.engine.Signal(t.Context(), id, "e", data(3), ann)
		if pawl.KindOf(err) != pawl.Conflict || !strings.HasPrefix(err.Error(), "data: 3 bytes: job ") || !strings.Contains(err.Error(), " may have 4194304") {
			t.Errorf("one more: %v", err)
		}
		must(t, errorOf(p.engine.Approve(t.Context(), id, "ask", nil, ann)))
		if v := p.wait(id); v.Status != lifecycle.JobFailed || !strings.Contains(v.Error.Message, "and an output has at most 1048576") {
			t.Errorf("the job is %s: %v; want it failed by the list of its outputs", v.Status, v.Error)
		}
	})
}
