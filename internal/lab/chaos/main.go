// Command chaos runs jobs on a database and many processes, and meanwhile kills, stops and
// cuts off processes and database. In the end nothing may be lost, duplicated or stuck (T5,
// T10, J7, J9, K5, K6, K8):
//
//	go run ./internal/lab/chaos -seed 1 -rounds 20 -database postgres
//
// docs/chaos.md describes it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

// fullRun is how many rounds a run has, each with a seed of its own.
const fullRun = 20

// A config says what is run, and how.
type config struct {
	binary   string // pawl
	dir      string // of all runs
	kind     string // postgres or sqlite
	roleMix  string // split, dev, or a list of kinds of workers over the servers
	outages  bool   // of the database alone, at the default timings, and nothing else
	silence  time.Duration
	patience time.Duration // after which anything counts as stuck
	jobs     int           // of a full run
	steps    bool          // clocks of processes may be stepped
	cluster  *pgtest.Cluster
	progress func(format string, args ...any)
}

func main() { os.Exit(program()) }

func program() int {
	c := &config{progress: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format, args...) }}
	seed := flag.Uint64("seed", uint64(time.Now().Unix()), "of the first run; those after it have the next ones")
	rounds := flag.Int("rounds", fullRun, "in all; a run has 20")
	outages := flag.Int("outages", 0, "instead of rounds of all faults: so many outages of PostgreSQL alone, of 5 to 15 s, at the default timings")
	flag.StringVar(&c.kind, "database", "postgres", "postgres or sqlite")
	flag.StringVar(&c.roleMix, "roles", "split", "split (servers, workers and at times a dev), dev, or which workers reach the database through the servers: far, python, node, or some of them with commas between; SQLite has no split")
	flag.StringVar(&c.binary, "binary", "", "the pawl to run; default: built anew")
	flag.DurationVar(&c.silence, "silence", 2*time.Second, "after which a worker is taken for dead")
	flag.DurationVar(&c.patience, "patience", 2*time.Minute, "how long anything may take until it is called stuck")
	flag.IntVar(&c.jobs, "jobs", 200, "of a run")
	form := flag.String("o", "text", "text or json")
	flag.Parse()
	if c.outages = *outages > 0; c.outages {
		*rounds = *outages
	}
	if flag.NArg() > 0 || *rounds < 1 || *outages < 0 || c.outages && c.kind != "postgres" || c.kind != "postgres" && c.kind != "sqlite" || c.roleMix != "split" && c.roleMix != "dev" && c.over() == nil || *form != "text" && *form != "json" {
		flag.Usage()
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	r, err := c.all(ctx, *seed, *rounds)
	if r != nil {
		_ = r.print(os.Stdout, *form == "json")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return 1
	}
	return 0
}

// all plays as many runs as the rounds need. It keeps the folders of failed runs.
func (c *config) all(ctx context.Context, seed uint64, rounds int) (_ *report, err error) {
	if c.dir, err = os.MkdirTemp("", "pawl-chaos-"); err != nil {
		return nil, err
	}
	if c.cluster == nil && c.kind == "postgres" {
		if err := pgtest.Install(os.Stderr); err != nil {
			return nil, err
		}
		if c.cluster, err = pgtest.Start(ctx, true); err != nil {
			return nil, err
		}
		defer c.cluster.Stop()
	}
	if err := c.build(); err != nil {
		return nil, err
	}
	if err := canStep(); err != nil {
		c.progress("no clock is stepped: %v\n", err)
	} else {
		c.steps = true
	}
	total := newReport()
	total.Database, total.Seed = c.kind, seed
	for s := seed; rounds > 0; s, rounds = s+1, rounds-fullRun {
		r, err := play(ctx, c, s, min(rounds, fullRun))
		if r != nil {
			total.add(r)
		}
		if err != nil {
			return total, fmt.Errorf("%w\nthe folder %s is kept; again with:\n  %s", err, c.dir, c.command(s, min(rounds, fullRun)))
		}
		if err := os.RemoveAll(filepath.Join(c.dir, fmt.Sprintf("seed-%d", s))); err != nil {
			return total, err
		}
	}
	return total, os.RemoveAll(c.dir)
}

// command returns the command that repeats a run.
func (c *config) command(seed uint64, rounds int) string {
	if c.outages {
		return fmt.Sprintf("go run ./internal/lab/chaos -seed %d -outages %d -roles %s -jobs %d", seed, rounds, c.roleMix, c.jobs)
	}
	return fmt.Sprintf("go run ./internal/lab/chaos -seed %d -rounds %d -database %s -roles %s -silence %s -jobs %d", seed, rounds, c.kind, c.roleMix, c.silence, c.jobs)
}

// build builds the binary under test, without the race detector: it has to be as fast as in
// production.
func (c *config) build() error {
	if c.binary != "" {
		return nil
	}
	c.binary = filepath.Join(c.dir, "pawl")
	cmd := exec.Command("go", "build", "-o", c.binary, "github.com/pawl-dev/pawl/cmd/pawl")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// newDatabase makes the empty database of a run.
func (c *config) newDatabase(ctx context.Context, dir string, seed uint64) (database, error) {
	if c.kind == "sqlite" {
		return newSQLite(c, dir)
	}
	return newPostgres(ctx, c, fmt.Sprintf("chaos_%d", seed))
}

// over returns the workers over the servers: two of a kind that is alone, otherwise one of each
// that is listed. nil: there are none, or the list is wrong.
func (c *config) over() []string {
	kinds := strings.Split(c.roleMix, ",")
	for i, k := range kinds {
		if k != far && languages[k] == nil || slices.Contains(kinds[:i], k) {
			return nil
		}
	}
	if len(kinds) == 1 {
		return []string{kinds[0], kinds[0]}
	}
	return kinds
}

// roles are the processes of a run.
func (c *config) roles(seed uint64) []string {
	switch over := c.over(); {
	case over != nil && c.kind == "sqlite":
		return append([]string{dev, dev}, over...)
	case over != nil:
		return append([]string{server, server, worker}, over...)
	case c.kind == "sqlite":
		return []string{dev, dev, dev}
	case c.roleMix == "dev":
		return []string{dev, dev, dev, dev}
	case seed%3 == 0:
		return []string{server, server, worker, worker, dev}
	}
	return []string{server, server, worker, worker, worker}
}

// draw draws the rounds of a run.
func (c *config) draw(seed uint64, rounds int, db database) []round {
	jobs := c.jobs * rounds / fullRun
	if c.outages {
		return drawOutages(seed, rounds, jobs)
	}
	return drawRounds(seed, rounds, jobs, c.silence, c.chances(db))
}

// chances are the possible faults of a run.
func (c *config) chances(db database) []chance {
	all, cannot := onPostgres, map[kind]bool{}
	if d, ok := db.(*sqliteDatabase); ok {
		all = onSQLite
		if !d.disk.mounted {
			c.progress("no disk is filled: this process may not mount one; root may, and so may: unshare -Urm go run ./internal/lab/chaos ...\n")
			cannot[fullFault] = true
		}
	}
	if c.over() != nil && c.kind == "sqlite" {
		all = slices.Concat(all, onFar)
	}
	if !c.steps {
		cannot[forwardFault], cannot[backFault], cannot[slipFault] = true, true, true
	}
	var rest []chance
	for _, c := range all {
		if !cannot[c.kind] {
			rest = append(rest, c)
		}
	}
	return rest
}
