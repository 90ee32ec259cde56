// Command drainprofile says where the processor's time goes while a backlog is drained: that of
// the client by package, from its CPU profile, and that of PostgreSQL by statement, from the
// statistics that the server logs for each.
//
//	go run ./internal/lab/bench/drainprofile
//
// It starts a PostgreSQL of its own. The drain of which the server logs statistics is another one
// than that of which the client is profiled, since the logging costs, too.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/heap"
	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/signals"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

func main() {
	heap.Govern()                                                   // as in pawl itself
	ctx, stop := signals.New(func() {}).First(context.Background()) // no signal ends it before it has cleaned up
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	jobs := flag.Int("jobs", 50_000, "how many jobs are drained, at least 100")
	store := flag.String("store", "both", "postgres, sqlite or both")
	flag.Parse()
	if *jobs < 100 {
		return fmt.Errorf("-jobs %d: want at least 100", *jobs)
	}
	dir, err := os.MkdirTemp("", "pawl-drain-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p := &profiler{dir: dir, jobs: *jobs}
	switch *store {
	case "postgres":
		err = p.postgres(ctx)
	case "sqlite":
		err = p.sqlite(ctx)
	case "both":
		if err = p.postgres(ctx); err == nil {
			fmt.Println()
			err = p.sqlite(ctx)
		}
	default:
		err = fmt.Errorf("-store %q: want postgres, sqlite or both", *store)
	}
	return err
}

// A profiler drains backlogs.
type profiler struct {
	dir  string
	jobs int
}

// sqlite profiles the client, which is all there is.
func (p *profiler) sqlite(ctx context.Context) error {
	parts, _, err := p.client(ctx, bench.SQLite{Path: filepath.Join(p.dir, "drain.db"), Synchronous: sqlite.Full})
	if err != nil {
		return err
	}
	return p.print("SQLite, synchronous=full", limited(parts, shown))
}

func (p *profiler) postgres(ctx context.Context) error {
	if err := pgtest.Install(os.Stderr); err != nil {
		return err
	}
	cluster, err := pgtest.Start(ctx, true)
	if err != nil {
		return err
	}
	defer cluster.Stop()
	var server time.Duration
	var parts []part
	err = withSchema(ctx, cluster.URL, func(t *bench.Postgres) (err error) {
		parts, server, err = p.client(ctx, t)
		return err
	})
	if err != nil {
		return err
	}
	if err := p.print("PostgreSQL, client", limited(parts, shown)); err != nil {
		return err
	}
	fmt.Println()
	statements, err := p.statements(ctx, cluster.URL)
	if err != nil {
		return err
	}
	return p.print("PostgreSQL, server", withRest(limited(statements, shown), server))
}

func withSchema(ctx context.Context, url string, f func(*bench.Postgres) error) error {
	t, err := bench.NewPostgres(ctx, postgres.Config{URL: url})
	if err != nil {
		return err
	}
	defer t.Close(ctx)
	return f(t)
}

// drain submits a backlog, and has measure drain it.
func (p *profiler) drain(ctx context.Context, t bench.Target, measure func(drain func() error) error) (err error) {
	w := bench.Select(bench.Drained)[0]
	sizes := bench.Sizes{Jobs: p.jobs}
	s, err := t.Open(ctx, bench.Crew{})
	if err != nil {
		return err
	}
	defer func() {
		if e := s.Close(); err == nil {
			err = e
		}
	}()
	if err := w.Before(ctx, s, sizes); err != nil {
		return err
	}
	runtime.GC() // the garbage of the submission is not part of it
	return measure(func() error { _, err := w.Measure(ctx, s, sizes); return err })
}

// client profiles this process. server is the CPU time of the database meanwhile.
func (p *profiler) client(ctx context.Context, t bench.Target) (parts []part, server time.Duration, err error) {
	file := filepath.Join(p.dir, "cpu.pprof")
	used := contest.CPUOf(t)
	err = p.drain(ctx, t, func(drain func() error) error {
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		before := used().Server
		err = drain()
		server = time.Duration((used().Server - before) * float64(time.Second))
		pprof.StopCPUProfile()
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	top := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount=1000000", "-nodefraction=0", "-edgefraction=0", "-unit=us", file)
	var said bytes.Buffer
	top.Stderr = &said
	out, err := top.Output()
	if err != nil {
		return nil, 0, fmt.Errorf("go tool pprof: %w: %s", err, said.Bytes())
	}
	parts, err = packages(bytes.NewReader(out))
	return parts, server, err
}

// statements drains once more, and reads what the server logs meanwhile.
func (p *profiler) statements(ctx context.Context, url string) (parts []part, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	var data string
	if err := conn.QueryRow(ctx, "show data_directory").Scan(&data); err != nil {
		return nil, err
	}
	if _, err := conn.Exec(ctx, "alter database postgres set log_statement_stats = on"); err != nil {
		return nil, err
	}
	log, err := os.Open(filepath.Join(filepath.Dir(data), "log")) // see pgtest
	if err != nil {
		return nil, err
	}
	defer log.Close()
	err = withSchema(ctx, url, func(t *bench.Postgres) error {
		return p.drain(ctx, t, func(drain func() error) error {
			if _, err := log.Seek(0, 2); err != nil {
				return err
			}
			if err := drain(); err != nil {
				return err
			}
			parts, err = readStatements(log)
			return err
		})
	})
	return parts, err
}

// shown is how many parts a table has; the others are one line.
const shown = 24

// print writes a table.
func (p *profiler) print(title string, parts []part) error {
	var sum time.Duration
	for _, t := range parts {
		sum += t.cpu
	}
	per := func(d time.Duration) string {
		return fmt.Sprintf("%.2f", float64(d.Nanoseconds())/1000/float64(p.jobs))
	}
	rows := [][]string{{"PART", "CPU µs A JOB", "SHARE", "CALLS A JOB"}}
	for _, t := range parts {
		calls := ""
		if t.calls > 0 {
			calls = fmt.Sprintf("%.4f", float64(t.calls)/float64(p.jobs))
		}
		rows = append(rows, []string{t.name, per(t.cpu), fmt.Sprintf("%.1f%%", 100*t.cpu.Seconds()/sum.Seconds()), calls})
	}
	rows = append(rows, []string{"all", per(sum), "100%", ""})
	fmt.Printf("%s, %d jobs drained\n\n", title, p.jobs)
	var b strings.Builder
	if err := console.Table(&b, rows); err != nil {
		return err
	}
	fmt.Print(b.String())
	return nil
}
