package bench

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

func TestLongestGap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ends []int64 // microseconds
		want time.Duration
	}{
		{nil, 0}, {[]int64{7}, 0}, {[]int64{5000, 1000, 2000}, 3 * time.Millisecond}, {[]int64{1, 1, 1}, 0},
	} {
		if got := longest(tt.ends); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.ends, got, tt.want)
		}
	}
}

// TestAWorkerThatEndsEarly: what works in a process of its own and ends is said, and not
// waited for.
func TestAWorkerThatEndsEarly(t *testing.T) {
	t.Parallel()
	target := SQLite{Path: filepath.Join(t.TempDir(), "pawl.db"), Synchronous: sqlite.Normal}
	c := Crew{Workers: 1, Program: "/bin/echo"} // says what it was told to do, and ends
	p, err := target.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := c.Backlog()
	if err := w.Before(ctx, p, Sizes{Jobs: 3}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Measure(ctx, p, Sizes{Jobs: 3}); err == nil || !strings.Contains(err.Error(), "ended by itself") || !strings.Contains(err.Error(), "pawl.db?synchronous=normal worker") {
		t.Errorf("%v, want what the worker's process said", err)
	}
	if err := p.Close(); err == nil {
		t.Error("closing says nothing of it")
	}
}
