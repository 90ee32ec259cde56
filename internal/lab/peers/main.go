// Command peers compares Pawl with River, on the same PostgreSQL, in the same run, in turns; and
// its HTTP API with Temporal's and River UI's.
// It is a separate module, so that Pawl does not depend on River. docs/bench.md says what is
// measured, and what is not fair.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/heap"
	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/store/postgres"
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
	url := flag.String("postgres", os.Getenv("PAWL_TEST_POSTGRES"), "URL of a PostgreSQL database that may be written to")
	deployed := flag.Bool("deployed", false, "measure systems whose servers, workers and submitters are processes of their own")
	large := flag.Bool("large", false, "with -deployed: also backlogs of 200,000 jobs")
	http := flag.Bool("http", false, "measure what serves the systems to programs: HTTP beside the engine, Temporal and River UI")
	bin := flag.String("bin", "bin", "with -http: the folder into which pawl and the programs of others are built")
	task := flag.String("task", "", "be one of these processes (for this program itself)")
	flag.Parse()
	if *task != "" {
		return playTask(ctx, *task)
	}
	if *url == "" {
		return fmt.Errorf("-postgres: want the URL of a database; make peers starts one")
	}
	postmaster, err := postmasterOf(ctx, *url)
	if err != nil {
		return err
	}
	schemas, done, err := newSchemas(ctx, *url)
	if err != nil {
		return err
	}
	defer done()
	if *http {
		return runFronts(ctx, &p, schemas, postmaster, *bin)
	}
	if *deployed {
		return runDeployed(ctx, &p, schemas, postmaster, *large)
	}
	c := contest.Contest{
		Entrants: entrants(&p, schemas), Aims: aims, Bare: schemas[0].Bare,
		CPU: func() contest.CPU { return contest.Used(postmaster) },
	}
	return p.Run(ctx, c, workloads)
}

// The entrants, each with a schema of its own.
const (
	pawl         = "pawl"
	tunedRiver   = "river tuned"
	defaultRiver = "river default"
)

// workloads are those that both systems can run.
var workloads = []string{bench.EndToEnd, bench.Diamonds, bench.Chains, bench.OneChain, bench.FanOuts, bench.WideFanOuts, bench.Starts}

// aims are the design goals of Pawl.
var aims = []contest.Aim{
	{Workload: bench.EndToEnd, Measure: contest.JobRate, Against: tunedRiver, AtLeast: 1},
	{Workload: bench.EndToEnd, Measure: contest.JobRate, Against: defaultRiver, AtLeast: 10},
	{Workload: bench.EndToEnd, Measure: contest.Transitions, Against: contest.Bare, AtLeast: 0.35},
	{Workload: bench.Diamonds, Measure: contest.StepRate, Against: tunedRiver, AtLeast: 5},
	{Workload: bench.Chains, Measure: contest.StepRate, Against: tunedRiver, AtLeast: 5},
	{Workload: bench.OneChain, Measure: contest.P50, Against: tunedRiver, AtMost: 0.2},
	{Workload: bench.Starts, Measure: contest.P50, Against: tunedRiver, AtMost: 1},
	{Workload: bench.Starts, Measure: contest.P99, Against: tunedRiver, AtMost: 1},
}

// entrants returns the entrants. River at its defaults runs a tenth of the load: it waits most
// of the time.
func entrants(p *contest.Program, schemas []*bench.Postgres) []contest.Entrant {
	sizes := p.Scaled(bench.Sizes{Jobs: 20_000, Graphs: 500, FanOuts: 2, Samples: 100, Idle: 20 * time.Millisecond})
	tenth := p.Scaled(bench.Sizes{Jobs: 2000, Graphs: 50, FanOuts: 1, Samples: 10, Idle: 150 * time.Millisecond})
	return []contest.Entrant{
		{Name: pawl, Sizes: sizes, Open: func(ctx context.Context) (bench.System, error) { return schemas[0].Open(ctx, bench.Crew{}) }},
		{Name: tunedRiver, Sizes: sizes, Open: func(ctx context.Context) (bench.System, error) { return openRiver(ctx, schemas[1].URL(), riverTuned) }},
		{Name: defaultRiver, Sizes: tenth, Open: func(ctx context.Context) (bench.System, error) {
			return openRiver(ctx, schemas[2].URL(), riverDefault)
		}},
	}
}

// newSchemas makes a schema for each entrant. done drops them.
func newSchemas(ctx context.Context, url string) (schemas []*bench.Postgres, done func(), err error) {
	done = func() {
		for _, s := range schemas {
			s.Close(ctx)
		}
	}
	for range 3 {
		s, err := bench.NewPostgres(ctx, postgres.Config{URL: url})
		if err != nil {
			done()
			return nil, nil, err
		}
		schemas = append(schemas, s)
	}
	return schemas, done, nil
}

// postmasterOf returns the parent of all the database's processes, if it is on this machine.
func postmasterOf(ctx context.Context, url string) (int, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	var backend int
	err = conn.QueryRow(ctx, "select pg_backend_pid()").Scan(&backend)
	return contest.Postmaster(backend), err
}
