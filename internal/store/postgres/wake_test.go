package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/store"
)

// TestHintsHaveTheStepsOfAllCommits: a hint has the sum of the steps of the commits that share it,
// and a number of its own, which says who looks first (T3).
func TestHintsHaveTheStepsOfAllCommits(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	other := open(t, db.cfg.URL)
	heard := make(chan store.Hint)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
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
	firsts := map[uint32]bool{}
	for range 3 {
		for sum := range 3 {
			other.Wake(sum, store.TopicWork) // 1 + 2
		}
		for sum := 0; sum < 3; {
			select {
			case h := <-heard:
				if h.Topic != store.TopicWork {
					t.Fatalf("%+v, want one of %s", h, store.TopicWork)
				}
				sum, firsts[h.First] = sum+h.Steps, true
			case <-ctx.Done():
				t.Fatalf("%d of 3 steps were heard", sum)
			}
		}
	}
	if len(firsts) < 2 {
		t.Errorf("all hints begin with the same worker: %v", firsts)
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
