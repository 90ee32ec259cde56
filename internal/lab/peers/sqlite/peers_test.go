package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
)

// TestRiverDoesEachWorkload runs each workload small: River does every step of
// every job once.
func TestRiverDoesEachWorkload(t *testing.T) {
	set := riverSetting{path: filepath.Join(t.TempDir(), "river.db"), synchronous: "full", workers: 1000, cooldown: 2 * time.Millisecond, poll: 2 * time.Millisecond}
	sizes := bench.Sizes{Jobs: 20, Graphs: 5, Samples: 2}
	jobs := map[string]int{bench.EndToEnd: 21, bench.Diamonds: 6 * 4, bench.Chains: 6 * 10, bench.OneChain: 3 * 10, bench.Starts: 3} // one to warm up
	for _, name := range workloads {
		var done int
		count := func(ctx context.Context) (bench.System, error) {
			r, err := openRiver(ctx, set)
			if err == nil {
				err = r.db.QueryRowContext(ctx, "select count(*) from river_job where state = 'completed'").Scan(&done)
			}
			return r, err
		}
		c := contest.Contest{
			Entrants: []contest.Entrant{{Name: tunedRiver, Sizes: sizes, Open: count}}, Workloads: bench.Select(name), Rounds: 1,
			CPU:      func() contest.CPU { return contest.Used(0) },
			Bare:     func(context.Context, int) (float64, error) { return 1, nil },
			Progress: func(string, int, string, string) {},
		}
		if _, err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := done
		r, err := count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if done-before != jobs[name] {
			t.Errorf("%s: River did %d jobs; want %d", name, done-before, jobs[name])
		}
	}
}
