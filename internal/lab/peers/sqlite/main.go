// Command sqlite compares Pawl with River, each on an SQLite file of its own, in the same run,
// in turns. It is a separate module beside the one for PostgreSQL: the newest release of
// River's driver for SQLite needs an older River. docs/bench.md says what is measured, and
// what is not fair.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/internal/heap"
	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

func main() {
	heap.Govern() // for all entrants, as in pawl itself
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var p contest.Program
	p.Flags(flag.CommandLine)
	mode := flag.String("synchronous", sqlite.Full, "full or normal, of both")
	flag.Parse()
	if *mode != sqlite.Full && *mode != sqlite.Normal {
		return fmt.Errorf("-synchronous %q: want full or normal", *mode)
	}
	dir, err := os.MkdirTemp("", "pawl-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	target := bench.SQLite{Path: filepath.Join(dir, "pawl.db"), Synchronous: *mode}
	c := contest.Contest{
		Entrants: entrants(&p, target, dir), Aims: aims, Bare: target.Bare,
		CPU: func() contest.CPU { return contest.Used(0) },
	}
	return p.Run(ctx, c, workloads)
}

// The entrants, each with a file of its own.
const (
	pawl         = "pawl"
	tunedRiver   = "river tuned"
	defaultRiver = "river default"
)

// workloads are those that both systems can run.
var workloads = []string{bench.EndToEnd, bench.Diamonds, bench.Chains, bench.OneChain, bench.Starts}

// aims are the design goals of Pawl.
var aims = []contest.Aim{
	{Workload: bench.EndToEnd, Measure: contest.Transitions, Against: contest.Bare, AtLeast: 0.35},
	{Workload: bench.Diamonds, Measure: contest.StepRate, Against: tunedRiver, AtLeast: 5},
	{Workload: bench.Chains, Measure: contest.StepRate, Against: tunedRiver, AtLeast: 5},
	{Workload: bench.OneChain, Measure: contest.P50, Against: tunedRiver, AtMost: 0.2},
	{Workload: bench.Starts, Measure: contest.P50, Against: tunedRiver, AtMost: 1},
	{Workload: bench.Starts, Measure: contest.P99, Against: tunedRiver, AtMost: 1},
}

// entrants returns the entrants. River at its defaults runs a part of the load: it waits most
// of the time.
func entrants(p *contest.Program, target bench.SQLite, dir string) []contest.Entrant {
	sizes := p.Scaled(bench.Sizes{Jobs: 10_000, Graphs: 200, Samples: 100, Idle: 20 * time.Millisecond})
	fewer := p.Scaled(bench.Sizes{Jobs: 2000, Graphs: 20, Samples: 5, Idle: 150 * time.Millisecond})
	tuned := riverSetting{path: filepath.Join(dir, "tuned.db"), synchronous: target.Synchronous, workers: 1000, cooldown: 2 * time.Millisecond, poll: 2 * time.Millisecond}
	left := riverSetting{path: filepath.Join(dir, "default.db"), synchronous: target.Synchronous, workers: 100} // as in River's examples
	return []contest.Entrant{
		{Name: pawl, Sizes: sizes, Open: func(ctx context.Context) (bench.System, error) { return target.Open(ctx, bench.Crew{}) }},
		{Name: tunedRiver, Sizes: sizes, Open: func(ctx context.Context) (bench.System, error) { return openRiver(ctx, tuned) }},
		{Name: defaultRiver, Sizes: fewer, Open: func(ctx context.Context) (bench.System, error) { return openRiver(ctx, left) }},
	}
}
