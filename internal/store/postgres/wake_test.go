package postgres

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl/internal/store"
)

// TestStepsAreNumbered: the hints of a process number the steps that it announces without a
// gap, however many commits share a hint, and hints without a number are for everybody (T3).
func TestStepsAreNumbered(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	other := open(t, db.cfg.URL)
	heard := make(chan store.Hint)
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- db.Listen(ctx, func(h store.Hint) {
			select {
			case heard <- h:
			case <-ctx.Done():
			}
		})
	}()
	eventually(t, "the handle hears hints", db.Hears)
	const steps = 60
	for i := 0; i < steps; i += 3 {
		other.Announce(1)
		other.Announce(2)
	}
	next, sum := uint32(0), 0
	for sum < steps {
		h := <-heard
		if h.Topic != store.TopicWork || h.Steps < 1 || sum > 0 && h.First != next {
			t.Fatalf("%+v after %d steps, want the numbers from %d on", h, sum, next)
		}
		next, sum = h.First+uint32(h.Steps), sum+h.Steps
	}
	other.Wake(store.TopicWork)
	if h := <-heard; h != (store.Hint{Topic: store.TopicWork}) || sum != steps {
		t.Errorf("%+v after %d steps, want a hint for everybody", h, sum)
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}

// TestHintsOfOtherVersions: what a program of another version sends is for everybody.
func TestHintsOfOtherVersions(t *testing.T) {
	t.Parallel()
	for payload, want := range map[string]struct {
		from string
		hint store.Hint
		ok   bool
	}{
		"1a2b work":       {"1a2b", store.Hint{Topic: store.TopicWork}, true},
		"1a2b/7/3 work":   {"1a2b", store.Hint{Topic: store.TopicWork, First: 7, Steps: 3}, true},
		"1a2b/7/3/9 work": {"1a2b", store.Hint{Topic: store.TopicWork, First: 7, Steps: 3}, true},
		"1a2b/x/3 work":   {"1a2b", store.Hint{Topic: store.TopicWork}, true},
		"1a2b/7 work":     {"1a2b", store.Hint{Topic: store.TopicWork}, true},
		"1a2b":            {"1a2b", store.Hint{}, false},
	} {
		from, hint, ok := parseHint(payload)
		if from != want.from || hint != want.hint || ok != want.ok {
			t.Errorf("%q: %q, %+v, %t; want %q, %+v, %t", payload, from, hint, ok, want.from, want.hint, want.ok)
		}
	}
}
