// Package measure implements the measurements of "pawl bench": on which databases, and which
// of three questions. Package bench has the workloads and the databases, package contest
// compares several of them.
//
// [Plan.Run] creates the databases, measures, removes the databases, and returns a [Report],
// which marshals to JSON and writes itself as tables. With a Fill the question is whether a
// full database is slower than an empty one; with Workers, how fast a backlog shrinks with
// their number; without either, how fast this machine is.
package measure

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/store/postgres"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
)

// Postgres is the name of PostgreSQL among the stores.
const Postgres = "postgres"

// Stores are the names of all stores: SQLite at both settings, and PostgreSQL.
var Stores = []string{sqlite.Full, sqlite.Normal, Postgres}

// A Plan says what is measured.
type Plan struct {
	Only      []string // workloads with one of these words in their name; none: all
	Sizes     bench.Sizes
	Stores    []string // none: all
	URL       string   // of PostgreSQL; empty: there is none
	Dir       string   // of the SQLite files
	Fill      bench.Fill
	Workers   []int // of each crew
	Processes bool  // each worker of a crew is a separate process
	Rounds    int   // of a comparison
	Log       *slog.Logger
	Progress  func(target, what string)
}

// A Report is what was measured.
type Report interface {
	WriteTable(w io.Writer) error
}

// A ConnectError is returned when PostgreSQL cannot be reached.
type ConnectError struct{ error }

// Unwrap returns the error of the connection.
func (e ConnectError) Unwrap() error { return e.error }

// Run measures.
func (p *Plan) Run(ctx context.Context) (Report, error) {
	switch {
	case p.Fill != (bench.Fill{}):
		return p.filled(ctx)
	case len(p.Workers) > 0:
		return p.crews(ctx)
	}
	return p.speed(ctx)
}

// targets creates a database of that name in each requested store. done drops those that are
// not in the folder.
func (p *Plan) targets(ctx context.Context, name string) (list []bench.Target, done func(), err error) {
	for _, mode := range []string{sqlite.Full, sqlite.Normal} {
		if p.wants(mode) {
			list = append(list, bench.SQLite{Path: filepath.Join(p.Dir, name+"-"+mode+".db"), Synchronous: mode, Log: p.Log})
		}
	}
	if !p.wants(Postgres) {
		return list, func() {}, nil
	}
	db, err := bench.NewPostgres(ctx, postgres.Config{URL: p.URL, Log: p.Log})
	if err != nil {
		return nil, nil, ConnectError{err}
	}
	return append(list, db), func() { db.Close(ctx) }, nil
}

func (p *Plan) wants(store string) bool {
	return len(p.Stores) == 0 && (store != Postgres || p.URL != "") || slices.Contains(p.Stores, store)
}

// A speedReport has the results of the workloads, one after the other.
type speedReport struct{ *bench.Report }

func (p *Plan) speed(ctx context.Context) (Report, error) {
	targets, done, err := p.targets(ctx, "empty")
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := bench.Run(ctx, bench.Config{Targets: targets, Workloads: bench.Select(p.Only...), Sizes: p.Sizes, Progress: p.Progress, CPU: used})
	return speedReport{r}, err
}

func used(t bench.Target) (client, server time.Duration) {
	cpu := contest.CPUOf(t)()
	return time.Duration(cpu.Client * float64(time.Second)), time.Duration(cpu.Server * float64(time.Second))
}

// WriteTable writes the results, and then the transitions.
func (r speedReport) WriteTable(w io.Writer) error {
	if err := console.Table(w, bench.ResultRows(r.Results)); err != nil || len(r.Transitions) == 0 {
		return err
	}
	fmt.Fprintln(w)
	return console.Table(w, bench.TransitionRows(r.Transitions))
}

// A crewsReport has an outcome for each store.
type crewsReport []*contest.CrewsOutcome

// crews makes crews of all sizes run the same backlog, on each store.
func (p *Plan) crews(ctx context.Context) (Report, error) {
	targets, done, err := p.targets(ctx, "crews")
	if err != nil {
		return nil, err
	}
	defer done()
	c := contest.Crews{Workers: p.Workers, Sizes: p.Sizes, Rounds: p.Rounds, Progress: p.Progress}
	if p.Processes {
		if c.Program, err = os.Executable(); err != nil {
			return nil, fmt.Errorf("find the program of the workers: %w", err)
		}
	}
	var outcomes crewsReport
	for _, c.Target = range targets {
		o, err := c.Run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Target.Name(), err)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// WriteTable writes a table for each store.
func (r crewsReport) WriteTable(w io.Writer) error {
	for i, o := range r {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := o.WriteTable(w); err != nil {
			return err
		}
	}
	return nil
}

// A filledReport has an outcome for each store.
type filledReport []*contest.FilledOutcome

// filled compares filled databases with empty ones.
func (p *Plan) filled(ctx context.Context) (Report, error) {
	full, done, err := p.targets(ctx, "filled")
	if err != nil {
		return nil, err
	}
	defer done()
	empty, done, err := p.targets(ctx, "empty")
	if err != nil {
		return nil, err
	}
	defer done()
	only := p.Only
	if len(only) == 0 {
		only = contest.FilledWorkloads
	}
	var outcomes filledReport
	for i := range full {
		o, err := contest.Filled{Full: full[i], Empty: empty[i], Fill: p.Fill, Workloads: bench.Select(only...),
			Sizes: p.Sizes, Rounds: p.Rounds, Progress: p.Progress}.Run(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", full[i].Name(), err)
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// WriteTable writes a table for each store.
func (r filledReport) WriteTable(w io.Writer) error {
	for i, o := range r {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s, filled with %d finished and %d waiting jobs against empty, medians of %d rounds\n", o.Store, o.Finished, o.Waiting, o.Rounds)
		if err := o.WriteTable(w, contest.FullDatabase); err != nil {
			return err
		}
	}
	return nil
}
