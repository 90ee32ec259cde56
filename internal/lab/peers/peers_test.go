package main

import (
	"context"
	"os"
	"testing"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// TestRiverDoesEachWorkload runs each workload small: River does every step of
// every job once.
func TestRiverDoesEachWorkload(t *testing.T) {
	url := pgtest.URL(t)
	sizes := bench.Sizes{Jobs: 20, Graphs: 5, FanOuts: 1, Samples: 2}
	jobs := map[string]int{bench.EndToEnd: 21, bench.Diamonds: 6 * 4, bench.Chains: 6 * 10, bench.OneChain: 3 * 10, bench.FanOuts: 2 * 1002, bench.Starts: 3} // one to warm up
	for name := range jobs {                                                                                                                                  // a wider fan-out is the same code
		var done int
		count := func(ctx context.Context) (bench.System, error) {
			r, err := openRiver(ctx, url, riverTuned)
			if err == nil {
				err = r.pool.QueryRow(ctx, "select count(*) from river_job where state = 'completed'").Scan(&done)
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
