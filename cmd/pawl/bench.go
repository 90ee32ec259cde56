package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/measure"
)

const benchLong = `Measure this machine: no-op jobs inserted, drained, and end to end; many diamonds of 4
steps and chains of 3 and 10 at once; chains one at a time; fan-outs to 1000 and 10,000
steps; the time from a submission to its start; and a sustained load. The stores are
SQLite at synchronous=full and =normal, and PostgreSQL if --postgres names a database.
The audit trail is on, as always.

Files are created in --dir and removed; on PostgreSQL a schema is created and dropped.
The cost of a job is given in commits (shared by many jobs), inserted and updated
records, and audit rows. A no-op job may cost 3 commits of its own, 2 inserts, 4 updates
and 8 audit rows. docs/bench.md explains each column.

--finished and --waiting measure whether a full database slows the work. On each store
one database is filled with that many jobs that ended days ago, and that many that wait
for a worker that does not exist. It runs the workloads in turns with an empty database:
the report has both figures, their ratio, and the CPU time of each. The full one may take
at most 1.1 times as long. By default the workloads are no-op jobs, drained and end to
end, and chains of 10, one at a time.

--workers compares crews of several sizes that drain the same backlog of --jobs: the rate
of each and its ratio to that of the first, the CPU time per job, and the longest time in
which no job ended. The crews take turns on one database of each store. The workers run
in this process, and their steps call a function; with --processes each is a "pawl
worker" with default settings, and a step starts a program.`

// A benchCommand holds the flags of pawl bench.
type benchCommand struct {
	*app
	measure.Plan
	dir    string // the parent of the folder of the SQLite files
	format string
}

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
			if b.Fill == (bench.Fill{}) && len(b.Workers) == 0 && c.Flags().Changed("rounds") {
				return usage("", "--rounds %d: only with --finished, --waiting or --workers", b.Rounds)
			}
			return b.run(c.Context())
		},
	}
	f := c.Flags()
	f.IntVar(&b.Sizes.Jobs, "jobs", 20_000, "number of no-op jobs")
	f.IntVar(&b.Sizes.Graphs, "chains", 500, "number of chains, and of diamonds, at once")
	f.IntVar(&b.Sizes.Samples, "samples", 200, "number of samples of each latency")
	f.Float64Var(&b.Sizes.Rate, "rate", 1000, "jobs per second of the sustained load")
	f.DurationVar(&b.Sizes.Sustain, "sustain", 10*time.Second, "duration of the sustained load, 100ms to 1h")
	f.IntVar(&b.Fill.Finished, "finished", 0, "number of ended jobs in a database that is compared with an empty one")
	f.IntVar(&b.Fill.Waiting, "waiting", 0, "number of jobs that wait in that database, on a route that no worker serves")
	f.IntVar(&b.Rounds, "rounds", 5, "how often each side of a comparison runs each workload, in turns")
	f.IntSliceVar(&b.Workers, "workers", nil, "with --only drain: the number of workers of each crew, 1 to 100")
	f.BoolVar(&b.Processes, "processes", false, "with --workers: run each worker in a separate process")
	f.StringSliceVar(&b.Only, "only", nil, "workloads with one of these words in their name (default: all)")
	f.StringSliceVar(&b.Stores, "stores", nil, "full, normal (both SQLite), postgres (default: all available)")
	f.StringVar(&b.dir, "dir", "", "folder for the SQLite files (default: the folder for temporary files)")
	f.StringVar(&b.URL, "postgres", "", "URL of a PostgreSQL database to measure (env PAWL_TEST_POSTGRES)")
	f.StringVarP(&b.format, "output", "o", formText, "text or json")
	return c
}

func (b *benchCommand) run(ctx context.Context) error {
	if b.URL == "" {
		b.URL = b.getenv("PAWL_TEST_POSTGRES")
	}
	if err := b.check(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(b.dir, "pawl-bench-")
	if err != nil {
		return usage("name a writable folder with --dir", "cannot create a folder for the SQLite files: %v", err)
	}
	defer os.RemoveAll(dir)
	b.Plan.Dir, b.Plan.Log, b.Progress = dir, b.log, func(target, what string) { fmt.Fprintf(b.stderr, "%s: %s\n", target, what) }
	report, err := b.Plan.Run(ctx)
	switch refused := (measure.ConnectError{}); {
	case errors.As(err, &refused):
		return usage("is the server running, and may you connect?", "--postgres: %v", refused)
	case err != nil:
		return err
	case b.format == formJSON:
		return console.JSON(b.stdout, report)
	}
	return report.WriteTable(b.stdout)
}

// maxBenchJobs bounds each number of jobs.
const maxBenchJobs = 10_000_000

func (b *benchCommand) check() error {
	err := cmp.Or(oneOf("output", b.format, formText, formJSON),
		inRange("--jobs", b.Sizes.Jobs, 1, maxBenchJobs),
		inRange("--chains", b.Sizes.Graphs, 1, maxBenchJobs),
		inRange("--samples", b.Sizes.Samples, 1, maxBenchJobs),
		inRange("--finished", b.Fill.Finished, 0, maxBenchJobs),
		inRange("--waiting", b.Fill.Waiting, 0, maxBenchJobs),
		inRange("--rounds", b.Rounds, 1, 1000),
		inRange("--rate", b.Sizes.Rate, 1, 100_000))
	if s := b.Sizes.Sustain; err == nil && (s < 100*time.Millisecond || s > time.Hour) {
		err = usage("", "--sustain %v: want 100ms to 1h", s)
	}
	if err == nil && len(bench.Select(b.Only...)) == 0 {
		err = usage("pawl bench --help says what is measured", "--only %s: no workload has this in its name", strings.Join(b.Only, ","))
	}
	if err = cmp.Or(err, b.checkCrews()); err != nil {
		return err
	}
	return b.checkStores()
}

func (b *benchCommand) checkStores() error {
	for _, s := range b.Stores {
		if !slices.Contains(measure.Stores, s) {
			return usage("", "--stores %q: want %s", s, strings.Join(measure.Stores, ", "))
		}
	}
	switch {
	case b.URL == "" && slices.Contains(b.Stores, measure.Postgres):
		return usage("name one with --postgres", "--stores postgres: no PostgreSQL database is named")
	case b.URL == "" && len(b.Stores) == 0:
		fmt.Fprintln(b.stderr, "PostgreSQL is not measured: name one with --postgres")
	}
	return nil
}

// maxCrew bounds a crew: each worker in a separate process has its own connections.
const maxCrew = 100

func (b *benchCommand) checkCrews() error {
	if len(b.Workers) == 0 {
		if b.Processes {
			return usage("", "--processes: only with --workers")
		}
		return nil
	}
	for _, n := range b.Workers {
		if err := inRange("--workers", n, 1, maxCrew); err != nil {
			return err
		}
	}
	if w := bench.Select(b.Only...); len(w) != 1 || w[0].Name != bench.Drained {
		return usage("add --only drain", "--workers: only with --only drain")
	}
	if b.Fill != (bench.Fill{}) {
		return usage("", "--workers: not with --finished or --waiting")
	}
	return nil
}
