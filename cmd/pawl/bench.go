package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

const benchLong = `Measures this machine: no-op jobs inserted, drained, and end to end; diamonds of
4 steps and chains of 3 and 10, many at once; chains one at a time; a fan-out to
1000 steps; the time from a submission to its start; and a sustained load. On
SQLite at synchronous=full and =normal, and on PostgreSQL where one is named. The
audit trail is on, as always.

Files go to --dir and are removed. On PostgreSQL a schema of its own is made and
dropped. A job's cost is in commits (shared by many jobs), inserted and updated
records, and audit rows; a no-op job may cost 3 commits of its own, 2 inserts,
4 updates and 8 audit rows. docs/bench.md says what each column is.

--finished and --waiting ask another question: does a full database slow the work?
On each store one database is filled with so many jobs that ended days ago, and
that wait for a worker that nobody runs, and does the workloads in turns with an
empty one: both figures, their ratio, and the CPU time of each. Neither may take
more than 1.1 times as long. Unless --only says otherwise it is done with no-op
jobs, drained and end to end, and chains of 10, one at a time.

--workers asks how crews of several sizes work off the same backlog of --jobs: the
rate of each and its ratio to the first one's, CPU time per job, and the longest
time in which no job ended. They do it in turns, on one database of each store. The
workers are in this process and their steps call a function; with --processes each
is a "pawl worker" with the settings it has by default, and a step starts a program.`

// A benchCommand is the flags of pawl bench.
type benchCommand struct {
	*app
	sizes    bench.Sizes
	only     []string
	stores   []string
	dir      string
	postgres string
	format   string
	fill     bench.Fill
	rounds   int
	crews    crews
}

// The stores of pawl bench.
const (
	benchFull     = "full"
	benchNormal   = "normal"
	benchPostgres = "postgres"
)

func newBench(a *app) *cobra.Command {
	b := &benchCommand{app: a}
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure the speed of this machine",
		Long:  benchLong,
		Example: "  pawl bench\n  pawl bench --jobs 50000 -o json\n  pawl bench --stores full --only chain,start\n" +
			"  pawl bench --only sustained --rate 2000\n  pawl bench --postgres postgres://localhost/test\n" +
			"  pawl bench --finished 1000000 --waiting 10000 --stores full\n" +
			"  pawl bench --only drain --workers 1,2,4 --processes --postgres postgres://localhost/test",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if b.fill == (bench.Fill{}) && len(b.crews.workers) == 0 && c.Flags().Changed("rounds") {
				return usage("", "--rounds %d: only with --finished, --waiting or --workers", b.rounds)
			}
			return b.run(c.Context())
		},
	}
	f := c.Flags()
	f.IntVar(&b.sizes.Jobs, "jobs", 20_000, "no-op jobs")
	f.IntVar(&b.sizes.Graphs, "chains", 500, "chains, and diamonds, at once")
	f.IntVar(&b.sizes.Samples, "samples", 200, "samples of each latency")
	f.Float64Var(&b.sizes.Rate, "rate", 1000, "jobs per second that the sustained load offers, for ten seconds")
	f.IntVar(&b.fill.Finished, "finished", 0, "jobs that have finished before, in a database that is held against an empty one")
	f.IntVar(&b.fill.Waiting, "waiting", 0, "jobs that wait in it, on a route that no worker serves")
	f.IntVar(&b.rounds, "rounds", 5, "how often all that are held against each other do each workload, in turns")
	f.IntSliceVar(&b.crews.workers, "workers", nil, "with --only drain: how many workers work off the backlog, for each crew, 1 to 100")
	f.BoolVar(&b.crews.processes, "processes", false, "with --workers: each worker in a process of its own")
	f.StringSliceVar(&b.only, "only", nil, "workloads with one of these words in their name (default: all)")
	f.StringSliceVar(&b.stores, "stores", nil, "full, normal (of SQLite), postgres (default: all there are)")
	f.StringVar(&b.dir, "dir", "", "folder of the SQLite files (default: one in the folder for temporary files)")
	f.StringVar(&b.postgres, "postgres", "", "URL of a PostgreSQL database to measure (env PAWL_TEST_POSTGRES)")
	f.StringVarP(&b.format, "output", "o", "text", "text or json")
	return c
}

func (b *benchCommand) run(ctx context.Context) error {
	if b.postgres == "" {
		b.postgres = b.getenv("PAWL_TEST_POSTGRES")
	}
	if err := b.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.dir, "pawl-bench-")
	if err != nil {
		return usage("name a folder that can be written with --dir", "cannot make a folder for the SQLite files: %v", err)
	}
	defer os.RemoveAll(dir)
	if b.fill != (bench.Fill{}) {
		return b.runFilled(ctx, dir)
	}
	if len(b.crews.workers) > 0 {
		return b.runCrews(ctx, dir)
	}
	report, err := b.measure(ctx, dir)
	if err != nil {
		return err
	}
	if b.format == "json" {
		return console.JSON(b.stdout, report)
	}
	if err := console.Table(b.stdout, bench.ResultRows(report.Results)); err != nil || len(report.Transitions) == 0 {
		return err
	}
	fmt.Fprintln(b.stdout)
	return console.Table(b.stdout, bench.TransitionRows(report.Transitions))
}

func (b *benchCommand) check() error {
	if b.format != "text" && b.format != "json" {
		return usage("", "--output %q: want text or json", b.format)
	}
	for flag, n := range map[string]int{"--jobs": b.sizes.Jobs, "--chains": b.sizes.Graphs, "--samples": b.sizes.Samples} {
		if n < 1 || n > 10_000_000 {
			return usage("", "%s %d: want 1 to 10000000", flag, n)
		}
	}
	for flag, n := range map[string]int{"--finished": b.fill.Finished, "--waiting": b.fill.Waiting} {
		if n < 0 || n > 10_000_000 {
			return usage("", "%s %d: want 0 to 10000000", flag, n)
		}
	}
	if b.rounds < 1 || b.rounds > 1000 {
		return usage("", "--rounds %d: want 1 to 1000", b.rounds)
	}
	if !(b.sizes.Rate >= 1 && b.sizes.Rate <= 100_000) {
		return usage("", "--rate %v: want 1 to 100000", b.sizes.Rate)
	}
	if len(bench.Select(b.only...)) == 0 {
		return usage("pawl bench --help says what is measured", "--only %s: no workload has this in its name", strings.Join(b.only, ","))
	}
	if err := b.checkCrews(); err != nil {
		return err
	}
	all := []string{benchFull, benchNormal, benchPostgres}
	for _, s := range b.stores {
		if !slices.Contains(all, s) {
			return usage("", "--stores %q: want %s", s, strings.Join(all, ", "))
		}
	}
	if b.postgres != "" {
		return nil
	}
	if slices.Contains(b.stores, benchPostgres) {
		return usage("name one with --postgres", "--stores postgres: there is no PostgreSQL to measure")
	}
	if len(b.stores) == 0 {
		fmt.Fprintln(b.stderr, "PostgreSQL is not measured: name one with --postgres")
	}
	return nil
}

// wanted reports whether a store is to be measured.
func (b *benchCommand) wanted(store string) bool {
	return len(b.stores) == 0 && (store != benchPostgres || b.postgres != "") || slices.Contains(b.stores, store)
}

func (b *benchCommand) measure(ctx context.Context, dir string) (*bench.Report, error) {
	targets, done, err := b.targets(ctx, dir, "empty")
	if err != nil {
		return nil, err
	}
	defer done()
	return bench.Run(ctx, bench.Config{Targets: targets, Workloads: bench.Select(b.only...), Sizes: b.sizes, Progress: b.progress})
}

func (b *benchCommand) progress(target, what string) {
	fmt.Fprintf(b.stderr, "%s: %s\n", target, what)
}

// targets makes a database of that name in each store that is wanted. done drops
// what is not in the folder.
func (b *benchCommand) targets(ctx context.Context, dir, name string) (list []bench.Target, done func(), err error) {
	for _, mode := range []string{sqlite.Full, sqlite.Normal} {
		if b.wanted(mode) {
			list = append(list, bench.SQLite{Path: filepath.Join(dir, name+"-"+mode+".db"), Synchronous: mode, Log: b.log})
		}
	}
	if !b.wanted(benchPostgres) {
		return list, func() {}, nil
	}
	p, err := bench.NewPostgres(ctx, postgres.Config{URL: b.postgres, Log: b.log})
	if err != nil {
		return nil, nil, usage("is the server running, and may you connect?", "--postgres: %v", err)
	}
	return append(list, p), func() { p.Close(ctx) }, nil
}

// crews are the flags that say who works off the backlog.
type crews struct {
	workers   []int // of each crew; none: no crews are measured
	processes bool
}

// maxCrew bounds a crew: each worker in a process of its own has connections of its own.
const maxCrew = 100

func (b *benchCommand) checkCrews() error {
	if len(b.crews.workers) == 0 {
		if b.crews.processes {
			return usage("", "--processes: only with --workers")
		}
		return nil
	}
	for _, n := range b.crews.workers {
		if n < 1 || n > maxCrew {
			return usage("", "--workers %d: want 1 to %d", n, maxCrew)
		}
	}
	if w := bench.Select(b.only...); len(w) != 1 || w[0].Name != bench.Drained {
		return usage("add --only drain", "--workers: only with --only drain")
	}
	if b.fill != (bench.Fill{}) {
		return usage("", "--workers: not with --finished or --waiting")
	}
	return nil
}

// runCrews has crews of all the sizes work off the same backlog, on each store.
func (b *benchCommand) runCrews(ctx context.Context, dir string) error {
	targets, done, err := b.targets(ctx, dir, "crews")
	if err != nil {
		return err
	}
	defer done()
	c := contest.Crews{Workers: b.crews.workers, Sizes: b.sizes, Rounds: b.rounds, Progress: b.progress}
	if b.crews.processes {
		if c.Program, err = os.Executable(); err != nil {
			return fmt.Errorf("find the program of the workers: %w", err)
		}
	}
	var outcomes []*contest.CrewsOutcome
	for _, c.Target = range targets {
		o, err := c.Run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", c.Target.Name(), err)
		}
		outcomes = append(outcomes, o)
	}
	if b.format == "json" {
		return console.JSON(b.stdout, outcomes)
	}
	for i, o := range outcomes {
		if i > 0 {
			fmt.Fprintln(b.stdout)
		}
		if err := o.WriteTable(b.stdout); err != nil {
			return err
		}
	}
	return nil
}

// runFilled holds filled databases against empty ones.
func (b *benchCommand) runFilled(ctx context.Context, dir string) error {
	full, done, err := b.targets(ctx, dir, "filled")
	if err != nil {
		return err
	}
	defer done()
	empty, done, err := b.targets(ctx, dir, "empty")
	if err != nil {
		return err
	}
	defer done()
	if len(b.only) == 0 {
		b.only = contest.FilledWorkloads
	}
	var outcomes []*contest.FilledOutcome
	for i := range full {
		o, err := contest.Filled{Full: full[i], Empty: empty[i], Fill: b.fill, Workloads: bench.Select(b.only...), Sizes: b.sizes, Rounds: b.rounds, Progress: b.progress}.Run(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", full[i].Name(), err)
		}
		outcomes = append(outcomes, o)
	}
	if b.format == "json" {
		return console.JSON(b.stdout, outcomes)
	}
	for i, o := range outcomes {
		if i > 0 {
			fmt.Fprintln(b.stdout)
		}
		fmt.Fprintf(b.stdout, "%s, filled with %d finished and %d waiting jobs against empty, medians of %d rounds\n", o.Store, o.Finished, o.Waiting, o.Rounds)
		if err := o.WriteTable(b.stdout, contest.FullDatabase); err != nil {
			return err
		}
	}
	return nil
}
