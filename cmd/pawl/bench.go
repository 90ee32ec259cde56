package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/bench"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/postgres"
	"github.com/pawl-dev/pawl/store/sqlite"
)

const benchLong = `Measures this machine: no-op jobs end to end, chains of 3 and of 10 steps, and
the time from a submission to its start, on SQLite at synchronous=full and
=normal, and on PostgreSQL where one is named. The audit trail is on, as always.

Files go to --dir and are removed. On PostgreSQL a schema of its own is made and
dropped. A job's cost is in commits (shared by many jobs), inserted and updated
records, and audit rows; a no-op job may cost 3 commits of its own, 2 inserts,
4 updates and 8 audit rows.`

// A benchCommand is the flags of pawl bench.
type benchCommand struct {
	*app
	config   bench.Config
	dir      string
	postgres string
	format   string
}

func newBench(a *app) *cobra.Command {
	b := &benchCommand{app: a}
	c := &cobra.Command{
		Use:     "bench",
		Short:   "Measure the speed of this machine",
		Long:    benchLong,
		Example: "  pawl bench\n  pawl bench --jobs 50000 -o json\n  pawl bench --postgres postgres://localhost/test",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return b.run(c.Context()) },
	}
	f := c.Flags()
	f.IntVar(&b.config.Jobs, "jobs", 20_000, "no-op jobs")
	f.IntVar(&b.config.Chains, "chains", 500, "chains at once")
	f.IntVar(&b.config.Samples, "samples", 200, "samples of each latency")
	f.StringVar(&b.dir, "dir", "", "folder of the SQLite files (default: one in the folder for temporary files)")
	f.StringVar(&b.postgres, "postgres", "", "URL of a PostgreSQL database to measure (env PAWL_TEST_POSTGRES)")
	f.StringVarP(&b.format, "output", "o", "text", "text or json")
	return c
}

func (b *benchCommand) run(ctx context.Context) error {
	if b.format != "text" && b.format != "json" {
		return usage("", "--output %q: want text or json", b.format)
	}
	for flag, n := range map[string]int{"--jobs": b.config.Jobs, "--chains": b.config.Chains, "--samples": b.config.Samples} {
		if n < 1 || n > 10_000_000 {
			return usage("", "%s %d: want 1 to 10000000", flag, n)
		}
	}
	if b.postgres == "" {
		b.postgres = b.getenv("PAWL_TEST_POSTGRES")
	}
	results, err := b.measure(ctx)
	if err != nil {
		return err
	}
	if b.format == "json" {
		return writeJSON(b.stdout, results)
	}
	return writeTable(b.stdout, benchTable(results))
}

func (b *benchCommand) measure(ctx context.Context) ([]bench.Result, error) {
	dir, err := os.MkdirTemp(b.dir, "pawl-bench-")
	if err != nil {
		return nil, usage("name a folder that can be written with --dir", "cannot make a folder for the SQLite files: %v", err)
	}
	defer os.RemoveAll(dir)
	var all []bench.Result
	for _, mode := range []string{sqlite.Full, sqlite.Normal} {
		s, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, mode+".db"), Synchronous: mode, Log: b.log})
		if err != nil {
			return nil, err
		}
		results, err := b.one(ctx, "sqlite "+mode, s, 1)
		s.Close()
		if err != nil {
			return nil, err
		}
		all = append(all, results...)
	}
	if b.postgres == "" {
		fmt.Fprintln(b.stderr, "PostgreSQL is not measured: name one with --postgres")
		return all, nil
	}
	results, err := b.onPostgres(ctx)
	return append(all, results...), err
}

func (b *benchCommand) one(ctx context.Context, name string, s store.Store, lanes int) ([]bench.Result, error) {
	c := b.config
	c.Name, c.Store, c.Lanes, c.Workers = name, s, lanes, lanes
	c.Progress = func(what string) { fmt.Fprintf(b.stderr, "%s: %s\n", name, what) }
	return bench.Run(ctx, c)
}

// onPostgres measures in a schema of its own.
func (b *benchCommand) onPostgres(ctx context.Context) ([]bench.Result, error) {
	conn, err := pgx.Connect(ctx, b.postgres)
	if err != nil {
		return nil, usage("is the server running, and may you connect?", "--postgres: %v", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	schema := fmt.Sprintf("pawl_bench_%d", time.Now().UnixNano())
	if _, err := conn.Exec(ctx, "create schema "+schema); err != nil {
		return nil, fmt.Errorf("make a schema to measure in: %w", err)
	}
	defer conn.Exec(context.WithoutCancel(ctx), "drop schema "+schema+" cascade")
	u, err := url.Parse(b.postgres)
	if err != nil {
		return nil, usage("", "--postgres: want a URL")
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	s, err := postgres.Open(ctx, postgres.Config{URL: u.String(), Log: b.log})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return b.one(ctx, "postgres", s, 2)
}

func benchTable(results []bench.Result) [][]string {
	rows := [][]string{{"STORE", "WORKLOAD", "JOBS/S", "STEPS/S", "P50 MS", "P99 MS", "COMMITS/JOB", "INSERTS", "UPDATES", "AUDIT"}}
	figure := func(format string, v float64) string {
		if v == 0 {
			return "-"
		}
		return fmt.Sprintf(format, v)
	}
	for _, r := range results {
		rows = append(rows, []string{r.Store, r.Workload, figure("%.0f", r.JobRate), figure("%.0f", r.StepRate),
			figure("%.2f", float64(r.P50)), figure("%.2f", float64(r.P99)), fmt.Sprintf("%.3f", r.PerJob.Commits),
			fmt.Sprintf("%.1f", r.PerJob.Inserts), fmt.Sprintf("%.1f", r.PerJob.Updates), fmt.Sprintf("%.1f", r.PerJob.Audit)})
	}
	budget := bench.Budget
	return append(rows, []string{"budget", "a no-op job", "", "", "", "", fmt.Sprintf("%.0f, not shared", budget.Commits),
		fmt.Sprintf("%.1f", budget.Inserts), fmt.Sprintf("%.1f", budget.Updates), fmt.Sprintf("%.1f", budget.Audit)})
}
