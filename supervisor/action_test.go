package supervisor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// Here are the faults that a first draft of a supervisor had, each with the test
// that shows it. This file is about actions (S3 to S8), and life_test.go about
// observations, adding, removing and stopping (S2, S4, S9 to S11).

// takes is an action that takes its time, and heeds its context.
func takes(d time.Duration) func(context.Context, *plant) error {
	return func(ctx context.Context, _ *plant) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// deaf is an action that takes its time, whatever its context says.
func deaf(d time.Duration) func(context.Context, *plant) error {
	return func(context.Context, *plant) error {
		time.Sleep(d)
		return nil
	}
}

// fails is an action that fails n times; -1: always.
func failing(n int, err error) func(context.Context, *plant) error {
	return func(context.Context, *plant) error {
		if n == 0 {
			return nil
		}
		n--
		return err
	}
}

var errTest = errors.New("it failed")

func TestSlotIsTakenInTheTurn(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: takes(time.Minute)}
		x := h.add(p, supervisor.Options{})
		for range 2000 {
			x.Wake()
			runtime.Gosched()
		}
		pass(30 * time.Second)
		if n := p.began("start"); n != 1 {
			t.Errorf("start began %d times, want 1", n)
		}
	})
}

func TestOneSlotAndNoQueue(t *testing.T) {
	var refused []error
	c := supervisor.Config{Hooks: supervisor.Hooks{Refused: func(_ supervisor.Identity, err error) { refused = append(refused, err) }}}
	bubble(t, c, func(h *hall) {
		p := &plant{id: "web", start: takes(time.Minute)}
		p.next = func(_ string, n snapshot) *decision {
			if !n.Action.InProgress || n.Shutdown {
				return nil
			}
			return &decision{State: own{p: p, is: lifecycle.ServiceTryingToStop}, Action: &deed{p: p, name: "other"}}
		}
		h.add(p, supervisor.Options{})
		pass(30 * time.Second)
		var busy *supervisor.BusyError
		if len(refused) != 1 || !errors.As(refused[0], &busy) || busy.Running != "start" || busy.Refused != "other" {
			t.Errorf("refused %v, want one BusyError that names start and other", refused)
		}
		h.in("web", lifecycle.ServiceTryingToStart) // the state of the decision is refused, too
		if p.began("other") != 0 {
			t.Error("the other action began")
		}
	})
}

func TestStatusIsOneValue(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: takes(10 * time.Second)}
		x := h.add(p, supervisor.Options{})
		pass(time.Second)
		if a := x.Snapshot().Action; !a.InProgress || a.ActionName != "start" {
			t.Errorf("during start: %+v", a)
		}
		pass(20 * time.Second)
		if a := x.Snapshot().Action; a.InProgress || !a.Succeeded || a.ActionName != "start" {
			t.Errorf("after start: %+v", a)
		}
		_ = x.SetSpec(want{Down: true})
		pass(time.Second)
		if a := x.Snapshot().Action; !a.Succeeded || a.ActionName != "stop" {
			t.Errorf("after stop: %+v", a)
		}
	})
}

func TestStopDuringBackoff(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: failing(-1, errTest)}
		h.add(p, supervisor.Options{})
		pass(1500 * time.Millisecond)
		began, n := time.Now(), p.began("start")
		h.stop()
		if took := time.Since(began); took > 50*time.Millisecond {
			t.Errorf("the stop took %s", took)
		}
		pass(time.Minute)
		if p.began("start") != n {
			t.Error("start began after Run returned")
		}
	})
}

func TestCancelledIsNoFailure(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		var cause error
		p := &plant{id: "web", start: func(ctx context.Context, _ *plant) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}}
		p.next = func(_ string, n snapshot) *decision {
			if n.Shutdown && n.Action.ActionName == "start" && n.Action.InProgress {
				return &decision{} // it does not cancel it either: the budget does
			}
			return nil
		}
		x := h.add(p, supervisor.Options{})
		pass(time.Second)
		h.stop()
		a := x.Snapshot().Action
		if a.Failed || p.began("start") != 1 || !errors.Is(cause, supervisor.ErrShuttingDown) {
			t.Errorf("status %+v after %d starts with the cause %v", a, p.began("start"), cause)
		}
	})
}

func TestAcceptedBeforeAShutdown(t *testing.T) {
	j := &slowJournal{}
	bubble(t, supervisor.Config{Journal: j}, func(h *hall) {
		p := &plant{id: "web"}
		x := h.add(p, supervisor.Options{})
		pass(time.Second)
		j.delay.Store(int64(2 * time.Second))
		_ = x.SetSpec(want{Rev: 1})
		p.set(func() { p.up = false })
		pass(5 * time.Second) // exit is committed, start is under way to the journal
		n := p.began("start")
		h.stop()
		if p.began("start") != n {
			t.Error("start began after the shutdown")
		}
	})
}

func TestDeafActionKeepsItsSlot(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: deaf(time.Hour), limits: supervisor.ActionLimits{Timeout: time.Second}}
		x := h.add(p, supervisor.Options{})
		pass(5 * time.Second)
		if a := x.Snapshot().Action; !a.InProgress {
			t.Errorf("in its grace: %+v", a)
		}
		pass(10 * time.Second)
		a := x.Snapshot().Action
		if a.InProgress || !a.Abandoned || a.Kind != supervisor.KindTimeout {
			t.Errorf("after its grace: %+v", a)
		}
		if s := h.s.Stats(); s.Abandoned != 1 || s.Running["start"].Oldest < 10*time.Second {
			t.Errorf("stats %+v", s)
		}
		pass(10 * time.Minute)
		if p.began("start") != 1 || p.overlap {
			t.Errorf("start began %d times beside one that still runs", p.began("start"))
		}
		pass(time.Hour)
		if x.Snapshot().Action.Abandoned {
			t.Error("the slot was not freed")
		}
		h.in("web", lifecycle.ServiceRunning) // the late effect is seen, not started again
	})
}

func TestOverlapIfAllowed(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", limits: supervisor.ActionLimits{Timeout: time.Second, AllowOverlap: true}}
		p.start = func(ctx context.Context, p *plant) error {
			if p.began("start") == 1 {
				return deaf(time.Hour)(ctx, p)
			}
			return nil
		}
		h.add(p, supervisor.Options{})
		pass(20 * time.Second)
		h.in("web", lifecycle.ServiceRunning)
		if p.began("start") != 2 || h.s.Stats().Abandoned != 1 {
			t.Errorf("start began %d times, stats %+v", p.began("start"), h.s.Stats())
		}
		time.Sleep(time.Hour)
	})
}

func TestLateResultIsDiscarded(t *testing.T) {
	var settled []supervisor.ActionStatus
	c := supervisor.Config{Hooks: supervisor.Hooks{Settled: func(_ supervisor.Identity, a supervisor.ActionStatus) { settled = append(settled, a) }}}
	bubble(t, c, func(h *hall) {
		p := &plant{id: "web", start: deaf(time.Hour), limits: supervisor.ActionLimits{Timeout: time.Second, Attempts: 1}}
		x := h.add(p, supervisor.Options{})
		pass(2 * time.Hour)
		if a := x.Snapshot().Action; a.Succeeded || a.Kind != supervisor.KindTimeout {
			t.Errorf("status %+v, want the timeout", a)
		}
		if len(settled) != 1 || !settled[0].Abandoned {
			t.Errorf("settled %+v, want one abandoned", settled)
		}
	})
}

func TestWhoseDeadline(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		start func(context.Context, *plant) error
		want  supervisor.ErrorKind
	}{
		{"ours", takes(time.Hour), supervisor.KindTimeout},
		{"its own", failing(-1, fmt.Errorf("request: %w", context.DeadlineExceeded)), supervisor.KindRetriable},
		{"words are no kind", failing(-1, errors.New("it timed out")), supervisor.KindRetriable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, supervisor.Config{}, func(h *hall) {
				x := h.add(&plant{id: "web", start: tt.start, limits: supervisor.ActionLimits{Timeout: time.Minute, Attempts: 1}}, supervisor.Options{})
				pass(2 * time.Minute)
				if a := x.Snapshot().Action; a.Kind != tt.want {
					t.Errorf("status %+v, want kind %s", a, tt.want)
				}
			})
		})
	}
}

func TestPanicAndGoexit(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(context.Context, *plant) error{
		"panic":  func(context.Context, *plant) error { panic("boom") },
		"goexit": func(context.Context, *plant) error { runtime.Goexit(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, supervisor.Config{}, func(h *hall) {
				p := &plant{id: "web", start: start}
				h.add(p, supervisor.Options{})
				pass(time.Minute)
				st, _ := h.s.Status("web")
				if st.Action.Kind != supervisor.KindPanic || !st.Action.Failed || p.began("start") != 1 {
					t.Errorf("status %+v after %d starts, want one that panicked", st.Action, p.began("start"))
				}
			})
		})
	}
}

func TestStatusIsOfOneAction(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: failing(1, errTest), stop: takes(time.Hour)}
		x := h.add(p, supervisor.Options{})
		pass(5 * time.Second)
		_ = x.SetSpec(want{Down: true})
		pass(time.Second)
		a := x.Snapshot().Action
		if a.ActionName != "stop" || !a.InProgress || a.Succeeded || a.ErrorMessage != "" || a.Retries != 0 || !a.FinishedAt.IsZero() {
			t.Errorf("status of stop %+v has something of start", a)
		}
	})
}

func TestPermanentIsTriedOnce(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: failing(-1, supervisor.ErrNonRetriable)}
		p.next = func(state string, n snapshot) *decision {
			if state != "trying_to_start" || n.Shutdown {
				return nil
			}
			return &decision{Action: &deed{p: p, name: "start", f: p.start}} // it insists
		}
		x := h.add(p, supervisor.Options{})
		pass(100 * time.Second)
		if n := p.began("start"); n != 1 {
			t.Errorf("a permanent error was tried %d times in 100 s", n)
		}
		_ = x.SetSpec(want{Rev: 1})
		pass(100 * time.Second)
		if n := p.began("start"); n != 2 {
			t.Errorf("after a new desired state start began %d times in all, want 2", n)
		}
	})
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]int{0: 4, 1: 1, 3: 3, -1: 16} {
		t.Run(fmt.Sprint(attempts), func(t *testing.T) {
			bubble(t, supervisor.Config{}, func(h *hall) {
				p := &plant{id: "web", start: failing(-1, errTest), limits: supervisor.ActionLimits{Attempts: attempts}}
				h.add(p, supervisor.Options{})
				pass(10*time.Minute + 10*time.Second)
				if n := p.began("start"); n != want {
					t.Errorf("%d attempts, want %d", n, want)
				}
				if st, _ := h.s.Status("web"); st.Action.Retries != want-1 {
					t.Errorf("status says %d retries, want %d", st.Action.Retries, want-1)
				}
			})
		})
	}
	_, err := supervisor.New(supervisor.Config{Defaults: supervisor.Options{Action: supervisor.ActionLimits{Attempts: -2}}})
	if !errors.Is(err, supervisor.ErrInvalid) || !strings.Contains(err.Error(), "Attempts -2") {
		t.Errorf("error %v, want one that names Attempts", err)
	}
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	var b supervisor.Backoff
	for failure, want := range map[int]time.Duration{0: 1, 1: 1, 2: 2, 3: 4, 7: 60, 40: 60, 1 << 40: 60} {
		want *= time.Second
		if most, least := b.Delay(failure, 0), b.Delay(failure, 0.999999999); most != want || least < want/2 || least > want/2+time.Second {
			t.Errorf("failure %d: %s to %s, want %s to %s", failure, least, most, want/2, want)
		}
	}
	if d := (supervisor.Backoff{Exact: true}).Delay(3, 0.9); d != 4*time.Second {
		t.Errorf("exact: %s, want 4 s", d)
	}
}

func TestRetryAfter(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: failing(1, supervisor.RetryAfter(errTest, 42*time.Second))}
		x := h.add(p, supervisor.Options{})
		pass(41 * time.Second)
		if a := x.Snapshot().Action; p.began("start") != 1 || a.ErrorMessage != "it failed" {
			t.Errorf("%d starts after 41 s: %+v", p.began("start"), a)
		}
		pass(2 * time.Second)
		h.in("web", lifecycle.ServiceRunning)
	})
}

func TestRetryIsANewDecision(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		var revs []int
		p := &plant{id: "web"}
		p.next = func(state string, n snapshot) *decision {
			if state != "trying_to_start" || n.Shutdown || n.Observed.Up {
				return nil
			}
			return &decision{Action: &deed{p: p, name: "start", up: true, f: func(context.Context, *plant) error {
				if revs = append(revs, n.Desired.Rev); n.Desired.Rev == 0 {
					return errTest
				}
				return nil
			}}}
		}
		x := h.add(p, supervisor.Options{})
		pass(1500 * time.Millisecond) // two have failed, and the next is in 2 s
		_ = x.SetSpec(want{Rev: 1})
		synctest.Wait()
		if !slices.Equal(revs, []int{0, 0, 1}) { // and the backoff was that of the old intent
			t.Errorf("attempts with revisions %v", revs)
		}
	})
}

func TestTimesOfAnAttempt(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", start: func(ctx context.Context, p *plant) error {
			time.Sleep(3 * time.Second)
			return failing(-1, errTest)(ctx, p)
		}}
		h.add(p, supervisor.Options{})
		pass(time.Minute)
		st, _ := h.s.Status("web")
		started, finished := st.Action.StartedAt.Sub(h.began), st.Action.FinishedAt.Sub(h.began)
		if started != 16*time.Second || finished != 19*time.Second { // 3 + 1 + 3 + 2 + 3 + 4
			t.Errorf("the last attempt was from %s to %s, want 16s to 19s", started, finished)
		}
	})
}

func TestKindsByType(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"missing file":      &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist},
		"permission denied": fmt.Errorf("chmod: %w", fs.ErrPermission),
		"malformed":         json.Unmarshal([]byte("{"), new(int)),
		"wrong shape":       json.Unmarshal([]byte(`"x"`), new(int)),
		"said so":           fmt.Errorf("%w: invalid path", supervisor.ErrNonRetriable),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, supervisor.Config{}, func(h *hall) {
				p := &plant{id: "web", start: failing(-1, err)}
				h.add(p, supervisor.Options{})
				pass(time.Minute)
				if st, _ := h.s.Status("web"); st.Action.Kind != supervisor.KindPermanent || p.began("start") != 1 {
					t.Errorf("%d attempts, status %+v", p.began("start"), st.Action)
				}
			})
		})
	}
}
