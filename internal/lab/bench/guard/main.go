// Command guard compares the speed of the working tree with that of a commit, and says which
// workloads of pawl bench became slower by more than their noise. Its exit code is 1 if one did,
// and 2 if it could not find out. make and go run have one code for all failures: build it to see
// the difference.
//
//	go build -o bin/guard ./internal/lab/bench/guard
//	PAWL_TEST_POSTGRES=postgres://localhost/test bin/guard -base main
//
// It builds both (build.go), runs them in turns, base, head, head, base and the reverse
// (turns.go), and judges the time and the CPU time of a job (verdict.go). docs/bench.md says how.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/signals"
)

// The exit codes.
const (
	exitSlower = 1
	exitFailed = 2
)

func main() { os.Exit(guard()) }

func guard() int {
	ctx, stop := signals.New(func() {}).First(context.Background()) // no signal ends it before it has cleaned up
	defer stop()
	code, err := run(ctx, os.Args[1:])
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		return exitFailed
	}
	return code
}

// options are the flags.
type options struct {
	base       string
	quick      bool
	only       string
	rounds     int
	limit      time.Duration
	json       string
	postgres   string
	seed       uint64
	baseBinary string
	headBinary string
}

func parse(args []string) (o options, err error) {
	f := flag.NewFlagSet("guard", flag.ContinueOnError)
	f.StringVar(&o.base, "base", "", "revision to compare with (default: where this branch left main, the last tag, or HEAD)")
	f.BoolVar(&o.quick, "quick", false, "fewer workloads and rounds, in 4 minutes")
	f.StringVar(&o.only, "only", "", "workloads with one of these words, separated by semicolons, in their name")
	f.IntVar(&o.rounds, "rounds", 12, "how many rounds there are at most")
	f.DurationVar(&o.limit, "limit", 0, "how long all of it may take (default 10m; 4m with -quick)")
	f.StringVar(&o.json, "json", "", "file to write the report to as JSON as well; - for standard output, without the table")
	f.StringVar(&o.postgres, "postgres", os.Getenv("PAWL_TEST_POSTGRES"), "URL of a PostgreSQL database; empty: only SQLite is measured")
	f.Uint64Var(&o.seed, "seed", 1, "of the random numbers of the test")
	f.StringVar(&o.baseBinary, "base-binary", "", "program to compare, in place of building -base: it prints what pawl bench -o json does")
	f.StringVar(&o.headBinary, "head-binary", "", "program to compare with -base-binary, in place of building the working tree")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if o.limit == 0 {
		o.limit = 10 * time.Minute
		if o.quick {
			o.limit = 4 * time.Minute
		}
	}
	switch {
	case f.NArg() > 0:
		err = fmt.Errorf("%s: want no argument", f.Arg(0))
	case o.rounds < 1:
		err = fmt.Errorf("-rounds %d: want at least 1", o.rounds)
	case o.limit < 0:
		err = fmt.Errorf("-limit %v: want more than 0", o.limit)
	case (o.baseBinary == "") != (o.headBinary == ""):
		err = errors.New("-base-binary and -head-binary: want both or none")
	case o.baseBinary != "" && o.base != "":
		err = errors.New("-base: not with -base-binary")
	case len(selected(o.quick, o.words())) == 0:
		err = fmt.Errorf("-only %s: no workload has this in its name", o.only)
	}
	return o, err
}

func (o options) words() []string {
	if o.only == "" {
		return nil
	}
	return strings.Split(o.only, ";")
}

func run(ctx context.Context, args []string) (code int, err error) {
	begun := time.Now()
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	dir, remove, err := folder(ctx)
	if err != nil {
		return 0, err
	}
	defer remove()
	p := &plan{rounds: o.rounds, until: begun.Add(o.limit), dir: dir, progress: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "%4.0fs %s\n", time.Since(begun).Seconds(), fmt.Sprintf(format, args...))
	}}
	report, err := p.prepare(ctx, o)
	if err == nil {
		err = p.run(ctx)
	}
	if err != nil {
		return 0, err
	}
	report.fill(p, rand.New(rand.NewPCG(o.seed, 0)))
	if err := report.write(o.json); err != nil {
		return 0, err
	}
	return report.code()
}

// prepare builds the programs, and lists what is to be measured.
func (p *plan) prepare(ctx context.Context, o options) (r *Report, err error) {
	r = &Report{Base: o.baseBinary, Head: o.headBinary}
	p.base, p.head = program{"base", o.baseBinary, true}, program{"head", o.headBinary, true}
	if o.baseBinary == "" {
		commit, name, err := revision(ctx, o.base)
		if err != nil {
			return nil, err
		}
		if p.base, p.head, err = build(ctx, commit, p.dir, p.progress); err != nil {
			return nil, err
		}
		if r.Base, err = p.base.version(); err == nil {
			r.Head, err = p.head.version()
		}
		if err != nil {
			return nil, err
		}
		r.Base, r.Head = fmt.Sprintf("%.12s (%s, %s)", commit, name, r.Base), fmt.Sprintf("working tree (%s)", r.Head)
	}
	stores := []string{"full"}
	if o.postgres != "" {
		stores = append(stores, "postgres")
		if p.postmaster, err = postmaster(ctx, o.postgres); err != nil {
			return nil, err
		}
		if err := os.Setenv("PAWL_TEST_POSTGRES", o.postgres); err != nil {
			return nil, err
		}
	} else {
		p.progress("PostgreSQL is not measured: name a database with -postgres")
	}
	for _, w := range selected(o.quick, o.words()) {
		for _, s := range stores {
			p.cells = append(p.cells, &cell{workload: w, store: s})
		}
	}
	return r, nil
}

// postmaster returns the parent of the processes of PostgreSQL, if they are on this machine.
func postmaster(ctx context.Context, url string) (int, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("-postgres: %w", err)
	}
	defer conn.Close(ctx)
	return contest.Postmaster(int(conn.PgConn().PID())), nil
}

// A Report is the result.
type Report struct {
	Base        string        `json:"base"`
	Head        string        `json:"head"`
	Comparisons []*Comparison `json:"comparisons"`
	Shown       []*Comparison `json:"shown"`                  // without a verdict: the parts of a CPU time
	Refused     []string      `json:"not_measured,omitempty"` // workloads that a program does not know
}

func (r *Report) fill(p *plan, random *rand.Rand) {
	for _, c := range p.cells {
		judged, shown := c.comparisons()
		r.Comparisons, r.Shown = append(r.Comparisons, judged...), append(r.Shown, shown...)
	}
	judge(r.Comparisons, random)
	for _, c := range r.Shown {
		c.measure(random)
	}
	r.Refused = p.refused
}

// code returns the exit code of a verdict.
func (r *Report) code() (int, error) {
	has := func(v string) bool {
		return slices.ContainsFunc(r.Comparisons, func(c *Comparison) bool { return c.Verdict == v })
	}
	switch {
	case has(Slower):
		return exitSlower, nil
	case len(r.Comparisons) == 0:
		return 0, errors.New("nothing was measured: a program does not know these workloads; choose others with -only")
	case has(TooFew):
		return 0, errors.New("too few rounds for a verdict: give more time with -limit, or fewer workloads with -only")
	}
	return 0, nil
}

func (r *Report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	switch text = append(text, '\n'); file {
	case "-":
		_, err = os.Stdout.Write(text)
		return err
	case "":
	default:
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return fmt.Errorf("-json: %w", err)
		}
	}
	return r.table(os.Stdout)
}

func (r *Report) table(w io.Writer) error {
	fmt.Fprintf(w, "head: %s, base: %s\n\n", r.Head, r.Base)
	rows := [][]string{{"STORE", "WORKLOAD", "MEASURE", "ROUNDS", "BASE", "HEAD", "RATIO", "NOISE", "P", "VERDICT"}}
	for _, c := range append(slices.Clone(r.Comparisons), r.Shown...) {
		row := []string{c.Store, c.Workload, c.Measure, fmt.Sprint(c.Rounds), fmt.Sprintf("%.4g", c.Base), fmt.Sprintf("%.4g", c.Head),
			fmt.Sprintf("%.3f", c.Ratio), fmt.Sprintf("±%.1f%%", 100*(c.Noise-1)), "", ""}
		if row[9] = c.Verdict; c.Chance > 0 {
			row[8] = fmt.Sprintf("%.1g", c.Chance)
		}
		rows = append(rows, row)
	}
	if err := console.Table(w, rows); err != nil {
		return err
	}
	for _, line := range r.Refused {
		fmt.Fprintln(w, "not measured:", line)
	}
	return nil
}
