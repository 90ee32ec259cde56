package engine_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

const nap = 10 * time.Minute

// A sleeper is a handler that snoozes a number of times, and then succeeds.
type sleeper struct{ left atomic.Int64 }

func newSleeper(times int64) *sleeper {
	s := &sleeper{}
	s.left.Store(times)
	return s
}

func (s *sleeper) run(context.Context, *worker.Task) worker.Result {
	if s.left.Add(-1) >= 0 {
		return worker.Result{Snooze: nap}
	}
	return worker.Result{Output: []byte(`"found"`)}
}

// startSleeper starts a process whose handler h snoozes, and whose handler nop does not.
func startSleeper(t *testing.T, s store.Store, times int64) *process {
	t.Helper()
	return startProcess(t, s, map[string]worker.Handler{"h": newSleeper(times).run, "nop": nop})
}

// snoozing returns step a when it snoozes after that many claims.
func (p *process) snoozing(id pawl.ID, claims int) pawl.StepView {
	p.t.Helper()
	return p.see(id, "a", func(s *pawl.StepView) bool {
		return s.Status == lifecycle.StepPending && s.NotBefore != 0 && s.Claims == claims
	})
}

// TestSnooze: a step that snoozes is tried again at its time, and not before. A snooze is
// not a failure and does not count as an attempt, so that a policy of one attempt allows
// it; and it holds no slot of its job, which has one here (T6, T7, J7).
func TestSnooze(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *database) {
		p := startSleeper(t, db.open(), 2)
		id := p.submit(define(t, "name: nap\nworkers: 1\nsteps: [{id: a, handler: h, retry: {max_attempts: 1}}, {id: b, handler: nop}]\n"), "")
		for claims := 1; claims <= 2; claims++ {
			s := p.snoozing(id, claims)
			p.see(id, "b", func(s *pawl.StepView) bool { return s.Status == lifecycle.StepComplete })
			left := s.NotBefore.Time().Sub(db.clock())
			if s.Attempts != 0 || s.Error != nil || left <= 0 || left > nap {
				t.Errorf("after claim %d: %d attempts, error %v, %s left; want none, none and up to %s", claims, s.Attempts, s.Error, left, nap)
			}
			db.elapse(nap)
		}
		v := p.wait(id)
		if a := steps(v)["a"]; v.Status != lifecycle.JobCompleted || a.Attempts != 1 || a.Claims != 3 {
			t.Errorf("the job is %s after %d attempts and %d claims, want it COMPLETED after 1 and 3: %v", v.Status, a.Attempts, a.Claims, v.Error)
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// TestASnoozeOutlivesItsProcess: no worker holds a snoozing step. If the process that ran
// it has ended, a process that runs at the time of the step tries it again (T6, T10).
func TestASnoozeOutlivesItsProcess(t *testing.T) {
	onShared(t, func(t *testing.T, db *database) {
		p := startSleeper(t, db.open(), 1)
		id := p.submit(define(t, oneStep), "")
		s := p.snoozing(id, 1)
		p.stop()
		other := startSleeper(t, db.open(), 0)
		if after := steps(other.job(id))["a"]; after.NotBefore != s.NotBefore || after.Claims != 1 {
			t.Errorf("it is %+v after its process has ended, want it as before: %+v", after, s)
		}
		db.elapse(nap)
		if v := other.wait(id); v.Status != lifecycle.JobCompleted || steps(v)["a"].Attempts != 1 {
			t.Errorf("the job is %s: %+v", v.Status, steps(v)["a"])
		}
		verify(t, other.store)
	})
}

// TestWhatEndsASnooze: a cancel, the timeout of the job, and an operator that skips the
// step or requests the next attempt now (T1, T13, J2).
func TestWhatEndsASnooze(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(t *testing.T, db *database, p *process, id pawl.ID) error
		job  string
		step string
	}{
		{"cancel", func(t *testing.T, _ *database, p *process, id pawl.ID) error {
			return errorOf(p.engine.Cancel(t.Context(), id, note("enough")))
		}, "CANCELED", "cancelled"},
		{"timeout of the job", func(_ *testing.T, db *database, _ *process, _ pawl.ID) error {
			db.elapse(nap / 2)
			return nil
		}, "CANCELED", "cancelled"},
		{"skip", func(t *testing.T, _ *database, p *process, id pawl.ID) error {
			return errorOf(p.engine.SkipStep(t.Context(), id, "a", note("not needed")))
		}, "COMPLETED", "skipped"},
		{"retry", func(t *testing.T, _ *database, p *process, id pawl.ID) error {
			return errorOf(p.engine.RetryStep(t.Context(), id, "a", note("it is there")))
		}, "COMPLETED", "complete"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onDatabases(t, func(t *testing.T, db *database) {
				p := startSleeper(t, db.open(), 1)
				id := p.submit(define(t, "name: nap\ntimeout: 5m\nsteps: [{id: a, handler: h}]\n"), "")
				p.snoozing(id, 1)
				must(t, tt.end(t, db, p, id))
				if v := p.wait(id); string(v.Status) != tt.job || string(steps(v)["a"].Status) != tt.step {
					t.Errorf("the job is %s, the step %s; want %s, %s", v.Status, steps(v)["a"].Status, tt.job, tt.step)
				}
				p.settled(id)
				verify(t, p.store)
			})
		})
	}
}

// TestASnoozeInAPausedJob: its time may pass, and the step begins when the job is resumed
// (J2).
func TestASnoozeInAPausedJob(t *testing.T) {
	onDatabases(t, func(t *testing.T, db *database) {
		p := startSleeper(t, db.open(), 1)
		id := p.submit(define(t, oneStep), "")
		p.snoozing(id, 1)
		must(t, errorOf(p.engine.PauseJob(t.Context(), id, note("wait"))))
		db.elapse(nap)
		s := p.see(id, "a", func(s *pawl.StepView) bool { return s.NotBefore == 0 })
		if s.Status != lifecycle.StepPending || s.Claims != 1 {
			t.Errorf("the step of a paused job is %s after %d claims, want it pending after 1", s.Status, s.Claims)
		}
		must(t, errorOf(p.engine.ResumeJob(t.Context(), id, note(""))))
		if v := p.wait(id); v.Status != lifecycle.JobCompleted {
			t.Errorf("the job is %s: %v", v.Status, v.Error)
		}
		p.settled(id)
	})
}

// TestWhySnoozing: the reason of a snoozing step says so, and its past state can be read
// afterwards (K6, T9).
func TestWhySnoozing(t *testing.T) {
	t.Parallel()
	db := aFile(t)
	p := startSleeper(t, db.open(), 1)
	id := p.submit(define(t, "name: nap\nsteps: [{id: a, handler: h, retry: {max_attempts: 3}}]\n"), "")
	s := p.snoozing(id, 1)
	r := p.because(id, "a", pawl.ReasonBackoff, "it snoozes until ", ", as its handler asked (attempt 1 of 3)", "pawl step retry")
	if r.Until != s.NotBefore {
		t.Errorf("it snoozes until %s by its reason, and %s by the step", r.Until, s.NotBefore)
	}
	must(t, errorOf(p.engine.RetryStep(t.Context(), id, "a", note("now"))))
	p.wait(id)
	p.comparePast(id)
	then := p.stepAt(id, "a", p.moments(id, "a")[lifecycle.StepInterrupt])
	if then.NotBefore != s.NotBefore || then.Attempts != 0 || then.Error != nil {
		t.Errorf("the past has %+v, want it as it was: %+v", then, s)
	}
	history, err := collected(t.Context(), p.engine.History, id)
	must(t, err)
	for _, m := range history {
		if m.Event == lifecycle.StepInterrupt && (m.Reason != decide.Snoozed || !strings.HasPrefix(m.Actor, pawl.WorkerPrefix)) {
			t.Errorf("the interrupt is of %s because %q, want a worker, and %q", m.Actor, m.Reason, decide.Snoozed)
		}
	}
}
