package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

var billing = pawl.QueueName{Workspace: pawl.DefaultWorkspace, Name: "billing"}

const billed = "name: billed\nsteps: [{id: a, handler: h, queue: billing}]\n"

// serving starts a process whose worker serves the queues billing and default.
func serving(t *testing.T, s store.Store, capacity int, h worker.Handler) *process {
	t.Helper()
	return start(t, s, setup{handlers: map[string]worker.Handler{"h": h}, capacity: capacity, queues: []string{"billing", "default"}})
}

func (p *process) pause(reason string) pawl.Receipt {
	p.t.Helper()
	r, err := p.engine.PauseQueue(p.t.Context(), billing, note(reason))
	must(p.t, err)
	return r
}

func (p *process) resume() {
	p.t.Helper()
	_, err := p.engine.ResumeQueue(p.t.Context(), billing, note("fixed"))
	must(p.t, err)
}

func (p *process) queue(n pawl.QueueName) *pawl.QueueView {
	p.t.Helper()
	v, err := p.engine.Queue(p.t.Context(), n)
	must(p.t, err)
	return v
}

// TestAPausedQueueGivesNothing: what runs in another process goes on, no step of the queue is
// claimed there meanwhile, other queues are served, and after the resume the backlog runs.
func TestAPausedQueueGivesNothing(t *testing.T) { // T13
	onShared(t, func(t *testing.T, db *database) {
		server := start(t, db.open(), setup{})
		g := newGate(false)
		defer g.release()
		far := serving(t, db.open(), 5, func(ctx context.Context, task *worker.Task) worker.Result {
			if task.Key == "first" {
				return g.run(ctx, task)
			}
			return worker.Result{}
		})
		running := server.submit(define(t, "name: r\nsteps: [{id: first, handler: h, queue: billing}, {id: second, handler: h, queue: billing, needs: [first]}]\n"), "")
		g.wait(t)
		receipt := server.pause("the bank is down")
		if receipt.To != lifecycle.QueuePaused || receipt.From != nil || receipt.Actor != "test" {
			t.Errorf("receipt %+v", receipt)
		}
		far.seesPaused(true)
		var held []pawl.ID
		for range 20 {
			held = append(held, server.submit(define(t, billed), ""))
		}
		for range 5 {
			if v := server.wait(server.submit(define(t, oneStep), "")); v.Status != lifecycle.JobCompleted {
				t.Errorf("a job of another queue is %s", v.Status)
			}
		}
		g.release()
		until(t, "the running step has ended", func() bool { return steps(server.job(running))["first"].Status == lifecycle.StepComplete })
		if v := server.wait(server.submit(define(t, oneStep), "")); v.Status != lifecycle.JobCompleted {
			t.Errorf("a job of another queue is %s", v.Status)
		}
		for _, id := range held {
			if v := server.job(id); v.Status != lifecycle.JobPending {
				t.Errorf("a job of the paused queue is %s", v.Status)
			}
		}
		v := server.queue(billing)
		if v.Paused == nil || v.Paused.Reason != "the bank is down" || v.Paused.ID != receipt.ID || v.Running != 0 {
			t.Errorf("the queue %+v, %+v", v, v.Paused)
		}
		server.because(running, "second", pawl.ReasonQueuePaused, "paused by test", "the bank is down", "pawl queue resume billing")
		server.because(held[0], "", pawl.ReasonQueuePaused, "paused by test", "the bank is down", "pawl queue resume billing")
		server.resume()
		for _, id := range append(held, running) {
			if v := server.wait(id); v.Status != lifecycle.JobCompleted {
				t.Errorf("after the resume a job is %s", v.Status)
			}
		}
		if got := server.queue(billing).Paused; got != nil {
			t.Errorf("the queue is paused: %+v", got)
		}
		moves, err := collected(t.Context(), server.engine.QueueHistory, billing)
		must(t, err)
		var got []string
		for _, m := range moves {
			got = append(got, fmt.Sprintf("%s by %s: %s", m.Event, m.Actor, m.Reason))
		}
		if diff := cmp.Diff([]string{"pause by test: the bank is down", "resume by test: fixed"}, got); diff != "" {
			t.Errorf("history (-want +got):\n%s", diff)
		}
		verify(t, server.store)
	})
}

// seesPaused waits until the process knows whether the queue is paused.
func (p *process) seesPaused(want bool) {
	p.t.Helper()
	until(p.t, fmt.Sprintf("the process sees that paused is %v", want), func() bool {
		paused, err := p.engine.SeesPaused(p.t.Context(), billing)
		must(p.t, err)
		return paused == want
	})
}

// TestAPauseIsHeardOf: other processes learn of a pause by a hint. Without one they would need
// a second for each change.
func TestAPauseIsHeardOf(t *testing.T) { // T13
	onShared(t, func(t *testing.T, db *database) {
		here, there := start(t, db.open(), setup{}), start(t, db.open(), setup{})
		there.seesPaused(false)
		begun := time.Now()
		const changes = 10
		for range changes / 2 {
			here.pause("")
			there.seesPaused(true)
			here.resume()
			there.seesPaused(false)
		}
		if took := time.Since(begun); took > changes*time.Second/2 {
			t.Errorf("%d changes took %s", changes, took)
		}
	})
}

// hintless loses every hint.
type hintless struct{ store.Store }

func (hintless) Wake(int, ...store.Topic) {}

// TestAPauseWithoutHints: if the process that pauses a queue, or resumes it, dies before its
// hint is sent, the others learn of it all the same.
func TestAPauseWithoutHints(t *testing.T) { // T13
	onShared(t, func(t *testing.T, db *database) {
		far := serving(t, db.open(), 5, nop)
		here := start(t, hintless{db.open()}, setup{})
		here.pause("")
		far.seesPaused(true)
		id := far.submit(define(t, billed), "")
		here.resume()
		here.engine.Close()
		if v := far.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s", v.Status)
		}
	})
}

// TestNothingIsClaimedOnceAPauseHasReturned: in the process that pauses a queue under load.
func TestNothingIsClaimedOnceAPauseHasReturned(t *testing.T) { // T13
	t.Parallel()
	p := serving(t, aFile(t).open(), 3, nop)
	def := define(t, billed)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				p.submit(def, "")
			}
		}
	}()
	until(t, "steps run", func() bool { return p.finished() > 20 })
	p.pause("")
	close(stop)
	<-ended
	until(t, "what ran has ended", func() bool { return p.queue(billing).Running == 0 })
	before := p.finished()
	id := p.submit(def, "")
	p.wait(p.submit(define(t, oneStep), ""))
	if got := p.finished(); got != before+1 || p.job(id).Status != lifecycle.JobPending {
		t.Errorf("%d jobs were completed and then %d, the last one is %s", before, got, p.job(id).Status)
	}
	p.resume()
	p.wait(id)
}

// finished returns how many jobs are completed.
func (p *process) finished() int {
	p.t.Helper()
	c, err := p.engine.Counts(p.t.Context(), "")
	must(p.t, err)
	return c.Jobs[lifecycle.JobCompleted]
}

// TestPausesAreExact: of many requests at once, in two processes, one pauses the queue; a
// repeated request is answered as before; and what is no pause cannot be ended.
func TestPausesAreExact(t *testing.T) { // T13, J8
	onShared(t, func(t *testing.T, db *database) {
		both := []*process{start(t, db.open(), setup{}), start(t, db.open(), setup{})}
		var mu sync.Mutex
		made := map[string]int{}
		var all sync.WaitGroup
		for i := range 12 {
			all.Go(func() {
				r, err := both[i%2].engine.PauseQueue(t.Context(), billing, note(""))
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					made[r.ID]++
				case pawl.KindOf(err) != pawl.Conflict:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(made) != 1 {
			t.Errorf("%d pauses were made", len(made))
		}
		e := both[0].engine
		c := pawl.Change{Actor: "test", RequestID: "once"}
		first, err := e.ResumeQueue(t.Context(), billing, c)
		must(t, err)
		again, err := e.ResumeQueue(t.Context(), billing, c)
		must(t, err)
		if again.Replayed = !again.Replayed; again != first && cmp.Diff(first, again) != "" {
			t.Errorf("%+v, then %+v", first, again)
		}
		if _, err := e.ResumeQueue(t.Context(), billing, note("")); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("resume of what is not paused: %v", err)
		}
		if _, err := e.PauseQueue(t.Context(), pawl.QueueName{Name: "Bad Name"}, note("")); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("a bad name: %v", err)
		}
		both[0].pause("again")
		_, err = e.PauseQueue(t.Context(), billing, note(""))
		var refusal *machine.Refusal
		if !errors.As(err, &refusal) || refusal.State != lifecycle.QueuePaused {
			t.Errorf("a second pause: %v", err)
		}
		if v, err := both[1].engine.Queue(t.Context(), pawl.QueueName{Workspace: "elsewhere", Name: "billing"}); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("the queue of that name elsewhere: %+v, %v", v, err)
		}
		verify(t, both[0].store)
	})
}
