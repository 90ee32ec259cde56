package supervisor_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/supervisor"
)

// S7: what has failed for good is not started again until state or desired state
// changes, whatever else was done meanwhile; nor does an intent lose its count of
// attempts to another one.
func TestFailuresAreRememberedByIntent(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web", up: true}
		turn := 0
		p.next = func(state string, n snapshot) *decision {
			if state != "running" || n.Shutdown || n.Action.InProgress {
				return nil
			}
			turn++
			names := []string{"tune", "sweep", "flaky"}
			name := names[turn%len(names)]
			f := map[string]func(context.Context, *plant) error{
				"tune":  failing(-1, fmt.Errorf("no such knob: %w", supervisor.ErrNonRetriable)),
				"flaky": failing(-1, errTest),
				"sweep": takes(time.Second),
			}[name]
			return &decision{Action: &deed{p: p, name: name, f: f, up: true}}
		}
		x := h.add(p, supervisor.Options{Action: supervisor.ActionLimits{Attempts: 3}})
		pass(2 * time.Minute)
		if tunes, flakies, sweeps := p.began("tune"), p.began("flaky"), p.began("sweep"); tunes != 1 || flakies != 3 || sweeps < 30 {
			t.Errorf("%d, %d and %d attempts: want 1 of what fails for good, 3 of what fails, and all of the rest", tunes, flakies, sweeps)
		}
		_ = x.SetSpec(want{Rev: 1})
		pass(2 * time.Minute)
		if tunes, flakies := p.began("tune"), p.began("flaky"); tunes != 2 || flakies != 6 {
			t.Errorf("%d and %d attempts after another desired state", tunes, flakies)
		}
	})
}

// What is remembered is bounded: of many intents that fail, the oldest is forgotten.
func TestRememberedIntentsAreBounded(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p, turn := &plant{id: "web", up: true}, 0
		doomed := func(context.Context, *plant) error {
			time.Sleep(time.Second)
			return supervisor.ErrNonRetriable
		}
		p.next = func(state string, n snapshot) *decision {
			if state != "running" || n.Shutdown || n.Action.InProgress {
				return nil
			}
			turn++
			return &decision{Action: &deed{p: p, name: fmt.Sprint("job ", turn%20), f: doomed, up: true}}
		}
		h.add(p, supervisor.Options{})
		pass(time.Minute)
		if n := p.began("job 1"); n < 2 {
			t.Errorf("job 1 began %d times", n)
		}
		if slices.ContainsFunc(p.runs[:9], func(name string) bool { return name == p.runs[9] }) {
			t.Errorf("runs %v", p.runs[:10])
		}
	})
}

// S6: an action may refuse an overlap that is the default.
func TestNeverOverlap(t *testing.T) {
	t.Parallel()
	for never, starts := range map[bool]int{false: 2, true: 1} {
		t.Run(fmt.Sprint(never), func(t *testing.T) {
			d := supervisor.Options{Action: supervisor.ActionLimits{AllowOverlap: true}}
			bubble(t, supervisor.Config{Defaults: d}, func(h *hall) {
				p := &plant{id: "web", start: deaf(time.Hour), limits: supervisor.ActionLimits{Timeout: time.Second, NeverOverlap: never, Attempts: 2}}
				h.add(p, supervisor.Options{})
				pass(time.Minute)
				if p.began("start") != starts {
					t.Errorf("%d starts, want %d", p.began("start"), starts)
				}
			})
		})
	}
}

// Limits of an action that are below zero are refused, and said to be.
func TestLimitsOfActionsAreChecked(t *testing.T) {
	t.Parallel()
	for want, limits := range map[string]supervisor.ActionLimits{
		"service web: limits of action start: invalid: Timeout -1s: want more than 0":      {Timeout: -time.Second},
		"service web: limits of action start: invalid: Grace -1ns: want more than 0":       {Grace: -1},
		"service web: limits of action start: invalid: Backoff.Max -1ns: want more than 0": {Backoff: supervisor.Backoff{Max: -1}},
		"service web: limits of action start: invalid: Attempts -2: want -1 or more":       {Attempts: -2},
	} {
		t.Run(strings.Fields(want)[6], func(t *testing.T) {
			bubble(t, supervisor.Config{}, func(h *hall) {
				p := &plant{id: "web", limits: limits}
				h.add(p, supervisor.Options{})
				pass(10 * time.Second)
				h.in("web", lifecycle.ServiceTryingToStart)
				if st, _ := h.s.Status("web"); st.Refused != want || p.began("start") != 0 {
					t.Errorf("refused %q, want %q; %d starts", st.Refused, want, p.began("start"))
				}
			})
		})
	}
}
