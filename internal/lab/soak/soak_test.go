package main

import (
	"os"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// TestSoak: under a fixed load, beside a transaction that stays open and one that
// comes and goes, nothing is lost, and when they are gone a vacuum takes all that
// was left. It judges counts alone; the times are for people.
func TestSoak(t *testing.T) {
	t.Parallel()
	r, err := soak(t.Context(), config{url: pgtest.Server(t), length: 40 * time.Second, rate: 50, report: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if want := 40*50 + 40*50/windows; r.ended != want {
		t.Errorf("%d jobs have ended, want %d", r.ended, want)
	}
	for _, f := range r.faults() {
		t.Error("not flat:", f)
	}
}

// TestFaults: what grows is told.
func TestFaults(t *testing.T) {
	t.Parallel()
	flat := window{entries: 20, blocks: 15, p99: 30 * time.Millisecond}
	r := &result{after: flat}
	for range windows {
		r.windows = append(r.windows, flat)
	}
	if got := r.faults(); len(got) > 0 {
		t.Errorf("flat: %v", got)
	}
	r.windows[windows-1].entries, r.windows[windows-2].blocks, r.after.entries, r.left = 90, 90, 50, 1000
	if got := r.faults(); len(got) != 4 {
		t.Errorf("faults %q, want 4", got)
	}
	if got := r.slower(); got != nil {
		t.Errorf("as fast as before: %q", got)
	}
	r.windows[windows-1].p99, r.windows[windows-2].p99 = 120*time.Millisecond, 90*time.Millisecond
	r.windows[2].p99, r.windows[3].p99 = 50*time.Millisecond, 35*time.Millisecond
	if got := r.slower(); len(got) != 1 {
		t.Errorf("p99 of 90 ms after 35 ms: %q, want one line", got)
	}
}
