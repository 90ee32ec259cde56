package postgres

import (
	"context"
	"strings"
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
		"1a2b work":                              {"1a2b", store.Hint{Topic: store.TopicWork}, true},
		"1a2b/7/3 work":                          {"1a2b", store.Hint{Topic: store.TopicWork, First: 7, Steps: 3}, true},
		"1a2b/7/3/9 work":                        {"1a2b", store.Hint{Topic: store.TopicWork, First: 7, Steps: 3}, true},
		"1a2b/7/3/m2 work":                       {"1a2b", store.Hint{Topic: store.TopicWork, First: 7, Steps: 3, From: "1a2b", Asks: 2}, true},
		"1a2b/7/3/m work":                        {"1a2b", store.Hint{Topic: store.TopicWork, First: 7, Steps: 3}, true},
		"1a2b/7/3/m-2 work":                      {"1a2b", store.Hint{Topic: store.TopicWork, First: 7, Steps: 3}, true},
		"1a2b/x/3 work":                          {"1a2b", store.Hint{Topic: store.TopicWork}, true},
		"1a2b/7 work":                            {"1a2b", store.Hint{Topic: store.TopicWork}, true},
		"1a2b":                                   {"", store.Hint{}, false},
		"tx work":                                {"tx", store.Hint{Topic: store.TopicWork}, true},
		"1a2b messages":                          {"", store.Hint{}, false},
		"1A2B/7/3/m2 work":                       {"", store.Hint{}, false},
		"\xff/7/3/m2 work":                       {"", store.Hint{}, false},
		"a\x00/7/3/m work":                       {"", store.Hint{}, false},
		" work":                                  {"", store.Hint{}, false},
		strings.Repeat("a", 14) + "/7/3/m2 work": {"", store.Hint{}, false},
	} {
		from, hint, ok := parseHint(payload)
		if from != want.from || hint != want.hint || ok != want.ok {
			t.Errorf("%q: %q, %+v, %t; want %q, %+v, %t", payload, from, hint, ok, want.from, want.hint, want.ok)
		}
	}
}

// TestPauseAfterAHint: hints that take long, one after the other, are sent for half of the time. One
// that took long alone does not hold up the next, and between those that are fast is a millisecond.
func TestPauseAfterAHint(t *testing.T) {
	t.Parallel()
	const us, ms = time.Microsecond, time.Millisecond
	for _, c := range []struct {
		name               string
		took, before, want time.Duration
	}{
		{"fast", 200 * us, 200 * us, 800 * us},
		{"the first, on a new connection", 5 * ms, 0, 0},
		{"one that stalled", 20 * ms, 200 * us, 200 * us},
		{"one after that", 200 * us, 20 * ms, 800 * us},
		{"a busy server", 4 * ms, 3 * ms, 3 * ms},
		{"a very busy server", 40 * ms, 30 * ms, mostGap},
	} {
		if got := pauseAfter(c.took, c.before); got != c.want {
			t.Errorf("%s: %v after one of %v and one of %v, want %v", c.name, got, c.before, c.took, c.want)
		}
	}
}

// TestPreparedToSend: without topics a handle connects, and sends nothing.
func TestPreparedToSend(t *testing.T) {
	t.Parallel()
	db := fresh(t)
	other := open(t, db.cfg.URL)
	heard := make(chan store.Hint, 10)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	over := make(chan error, 1)
	go func() { over <- db.Listen(ctx, func(h store.Hint) { heard <- h }) }()
	eventually(t, "the handle hears hints", db.Hears)
	count := func(where string, args ...any) (n int) {
		if err := db.pool.QueryRow(ctx, "select count(*) from pg_stat_activity where application_name = $1"+where, append([]any{other.application()}, args...)...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := count("")
	other.Wake(0)
	eventually(t, "a connection more", func() bool { return count("") > before })
	var connected time.Time
	if err := db.pool.QueryRow(ctx, "select clock_timestamp()").Scan(&connected); err != nil {
		t.Fatal(err)
	}
	other.Wake(0)
	other.Wake(0, store.TopicMarks)
	select {
	case h := <-heard:
		if h.Topic != store.TopicMarks {
			t.Errorf("%+v was heard, want only %s", h, store.TopicMarks)
		}
	case <-ctx.Done():
		t.Error("nothing was heard")
	}
	if n := count(" and query like '%pg_notify%' and backend_start < $2", connected); n != 1 {
		t.Errorf("%d connections from before the hint have sent it, want 1", n)
	}
	stop()
	if err := <-over; err != nil {
		t.Error(err)
	}
}
