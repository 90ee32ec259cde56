package supervisor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/supervisor"
)

// S15: a move that a shutdown would ask for and the table does not have refuses the worker
// when it is added.
func TestMovesAreCheckedWhenTheWorkerIsAdded(t *testing.T) {
	t.Parallel()
	s, err := supervisor.New(supervisor.Config{Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		from machine.State
		when func(n snapshot) bool
		to   machine.State
		want string // empty: it is added
	}{
		{"degraded to stopped", lifecycle.ServiceDegraded, nil, lifecycle.ServiceStopped,
			"add service web: invalid: state degraded goes to stopped at a shutdown, and the table has no transition from degraded to stopped: " +
				"want a state that stands for one of trying_to_start, running, trying_to_stop, failed"},
		{"trying_to_start to stopped", lifecycle.ServiceTryingToStart, nil, lifecycle.ServiceStopped,
			"state trying_to_start goes to stopped at a shutdown, and the table has no transition from trying_to_start to stopped"},
		{"once nothing is there", lifecycle.ServiceDegraded, func(n snapshot) bool { return n.Seen.Fresh && !n.Observed.Up },
			lifecycle.ServiceStopped, "state degraded goes to stopped at a shutdown"},
		{"to nowhere", lifecycle.ServiceRunning, nil, "flying", "state running goes to flying at a shutdown: want one of States"},
		{"running to stopped", lifecycle.ServiceRunning, nil, lifecycle.ServiceStopped, ""},
		{"trying_to_start to failed", lifecycle.ServiceTryingToStart, nil, lifecycle.ServiceFailed, ""},
		{"a panic", lifecycle.ServiceRunning, func(n snapshot) bool { panic("boom") }, lifecycle.ServiceStopped, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &plant{id: "web"}
			p.next = func(state string, n snapshot) *decision {
				if state != string(tt.from) || !n.Shutdown || tt.when != nil && !tt.when(n) {
					return nil
				}
				return &decision{State: own{p: p, is: tt.to}}
			}
			_, err := supervisor.Add(t.Context(), s, supervisor.Identity{ID: "web"}, p, want{}, supervisor.Options{})
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				_, _ = s.Remove(t.Context(), "web")
				return
			}
			if !errors.Is(err, supervisor.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %s", err, tt.want)
			}
		})
	}
}

// S10, S15: a move that depends on what is observed is refused when it is decided on; what
// Run returns says so.
func TestRunReturnsTheRefusal(t *testing.T) {
	bubble(t, supervisor.Config{}, func(h *hall) {
		p := &plant{id: "web"}
		p.next = func(state string, n snapshot) *decision {
			if state == "degraded" && n.Shutdown && n.Observed.Up {
				return &decision{State: own{p: p, is: lifecycle.ServiceStopped}}
			}
			return nil
		}
		h.add(p, supervisor.Options{})
		pass(5 * time.Second)
		p.set(func() { p.sick = true })
		pass(5 * time.Second)
		h.in("web", lifecycle.ServiceDegraded)
		r := h.stop()
		why := "another decision than the last, which was refused: service web: state stopped stands for stopped, and the table has no transition to it from degraded (degraded)"
		if len(r.Left) != 1 || r.Left[0].Why != why {
			t.Errorf("left %+v, want web with %q", r.Left, why)
		}
	})
}
