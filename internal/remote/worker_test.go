package remote_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// far runs a worker over HTTP until stop is called.
func far(t *testing.T, url string, c worker.Config, handle func(*worker.Worker)) (w *worker.Worker, stop func() error) {
	t.Helper()
	if c.Beat == 0 {
		c.Beat = 20 * time.Millisecond
	}
	w, err := worker.New(linker{open(t, url)}, c)
	must(t, err)
	handle(w)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	return w, func() error {
		cancel()
		return <-over
	}
}

const chain = `name: chain
steps:
  - {id: a, handler: far, with: {n: 1}}
  - {id: b, handler: far, needs: [a], with: {n: "${{ steps.a.output }}"}}
  - {id: c, handler: far, needs: [b], with: {n: "${{ steps.b.output }}"}}
output: ${{ steps.c.output }}
`

// TestWorkerOverHTTP: the worker of a Go program works over a server: it claims what waits
// and what comes later, its output and logs are there, and it ends its record.
func TestWorkerOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	before := submit(t, s.local, chain, "")
	w, stop := far(t, s.url, worker.Config{Name: "far"}, func(w *worker.Worker) {
		worker.Handle(w, "far", func(ctx context.Context, in struct{ N int }) (int, error) {
			worker.TaskOf(ctx).Log.Notef("got %d", in.N)
			return in.N * 2, nil
		})
	})
	ids := []pawl.ID{before}
	for range 20 {
		ids = append(ids, submit(t, s.local, chain, ""))
	}
	for _, id := range ids {
		j, err := s.local.Wait(t.Context(), id)
		must(t, err)
		if j.State != lifecycle.JobCompleted || string(j.Output) != "8" {
			t.Fatalf("job %s is %s with %s", id, j.State, j.Output)
		}
	}
	lines := 0
	must(t, s.local.Logs(t.Context(), before, "", func(pawl.LogLine) error { lines++; return nil }))
	if lines != 3 {
		t.Errorf("the job has %d lines of log, want 3", lines)
	}
	id := w.ID()
	must(t, stop())
	if v := s.worker(t, id); v.Status != lifecycle.WorkerCompleted {
		t.Errorf("a worker that has drained is %s", v.Status)
	}
}

func (s *site) worker(t *testing.T, text string) *pawl.WorkerView {
	t.Helper()
	id, err := pawl.ParseID(pawl.WorkerPrefix, text)
	must(t, err)
	v, err := s.local.Worker(t.Context(), id)
	must(t, err)
	return v
}

const one = "name: one\nsteps: [{id: a, handler: far, retry: {max_attempts: 3, base: 1ms}}]\n"

// TestWorkerIsCanceled: a cancel reaches a step that runs elsewhere; an interrupted drain
// gives steps back; a failure is tried again; a snooze waits.
func TestWorkerIsCanceled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	started := make(chan struct{}, 10)
	var calls atomic.Int64
	handle := func(w *worker.Worker) {
		worker.Handle(w, "far", func(ctx context.Context, _ any) (string, error) {
			switch calls.Add(1) {
			case 1:
				started <- struct{}{}
				<-ctx.Done()
				return "", ctx.Err()
			case 2:
				return "", errors.New("once")
			case 3:
				return "", worker.Snooze(time.Millisecond)
			case 5:
				started <- struct{}{}
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "done", nil
		})
	}
	_, stop := far(t, s.url, worker.Config{DrainTimeout: time.Nanosecond}, handle)
	first := submit(t, s.local, one, "")
	<-started
	_, err := s.local.Cancel(t.Context(), first, pawl.Change{Actor: "ada"})
	must(t, err)
	j, err := s.local.Wait(t.Context(), first)
	must(t, err)
	if j.State != lifecycle.JobCanceled {
		t.Errorf("the first job is %s", j.State)
	}
	second := submit(t, s.local, one, "")
	j, err = s.local.Wait(t.Context(), second)
	must(t, err)
	v, err := s.local.Job(t.Context(), second)
	must(t, err)
	if j.State != lifecycle.JobCompleted || v.Steps[0].Attempts != 2 || v.Steps[0].Claims != 3 {
		t.Errorf("the second job is %s after %d attempts and %d claims; want 2, and 3", j.State, v.Steps[0].Attempts, v.Steps[0].Claims)
	}
	third := submit(t, s.local, one, "")
	<-started
	must(t, stop())
	v, err = s.local.Job(t.Context(), third)
	must(t, err)
	if a := v.Steps[0]; a.Attempts != 0 || a.Status == lifecycle.StepInProgress {
		t.Errorf("after an interrupted drain the step is %s after %d attempts", a.Status, a.Attempts)
	}
	_, stop = far(t, s.url, worker.Config{}, handle)
	if j, err = s.local.Wait(t.Context(), third); err != nil || j.State != lifecycle.JobCompleted {
		t.Errorf("the third job: %v, %v", j, err)
	}
	must(t, stop())
}

// TestWorkerIsTerminated: an operator ends a worker for good.
func TestWorkerIsTerminated(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	w, stop := far(t, s.url, worker.Config{}, func(w *worker.Worker) {
		worker.Handle(w, "far", func(context.Context, any) (any, error) { return nil, nil })
	})
	id := submit(t, s.local, one, "")
	_, err := s.local.Wait(t.Context(), id)
	must(t, err)
	self, err := pawl.ParseID(pawl.WorkerPrefix, w.ID())
	must(t, err)
	_, err = s.local.TerminateWorker(t.Context(), self, pawl.Change{Actor: "ada", Reason: "sold"})
	must(t, err)
	<-w.Over()
	var end *worker.TerminatedError
	if err := stop(); !errors.As(err, &end) || end.Actor != "ada" || end.Reason != "sold" {
		t.Errorf("the worker ends with %v", err)
	}
}

// TestWorkerIsTakenForDead: a worker that was taken for dead registers anew and names what it
// ran, which then has lost nothing.
func TestWorkerIsTakenForDead(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	started, open := make(chan string, 10), make(chan struct{})
	w, stop := far(t, s.url, worker.Config{}, func(w *worker.Worker) {
		worker.Handle(w, "far", func(ctx context.Context, _ any) (string, error) {
			started <- fmt.Sprint(worker.TaskOf(ctx).Claim)
			select {
			case <-open:
				return "done", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		})
	})
	id := submit(t, s.local, one, "")
	<-started
	self, err := pawl.ParseID(pawl.WorkerPrefix, w.ID())
	must(t, err)
	must(t, s.local.Terminate(t.Context(), self.WorkerKey(), decide.Note{Reason: "silent for 6 s"}))
	if claim := <-started; claim != "2" {
		t.Errorf("it runs again by claim %s", claim)
	}
	close(open)
	j, err := s.local.Wait(t.Context(), id)
	must(t, err)
	v, err := s.local.Job(t.Context(), id)
	must(t, err)
	if j.State != lifecycle.JobCompleted || v.Steps[0].Attempts != 1 {
		t.Errorf("the job is %s, after %d attempts", j.State, v.Steps[0].Attempts)
	}
	if w.ID() == self.Public(pawl.WorkerPrefix) {
		t.Error("it has not registered anew")
	}
	must(t, stop())
}
