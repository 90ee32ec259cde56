package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
)

// A program is one of the two that are compared.
type program struct {
	name  string // base or head
	path  string
	older bool // it may not know all workloads and flags
}

// A turn is one run of a program.
type turn struct {
	result bench.Result
	client float64 // CPU in µs of the process
	server float64 // CPU in µs of PostgreSQL meanwhile
}

// An unsupported error is returned when an older program does not know a workload or a flag.
type unsupported struct{ error }

// unknown is what such a program says. Its exit code alone does not tell: it is that of a panic
// and of a refused connection, too.
var unknown = regexp.MustCompile(`^error: .*(no workload has this in its name|unknown flag)`)

// A plan runs both programs in turns.
type plan struct {
	base, head program
	cells      []*cell
	rounds     int       // at most
	until      time.Time // no block begins that would probably end later
	dir        string    // for SQLite files
	postmaster int       // 0: the CPU time of the server is not visible
	progress   func(format string, args ...any)
	refused    []string // workloads that a program does not know, with what it says
}

// run measures round by round, all cells in each, so that a disturbance of a minute costs each
// of them a round and none of them all.
func (p *plan) run(ctx context.Context) error {
	if err := p.warm(ctx); err != nil {
		return err
	}
	var longest time.Duration
	for round := 1; round <= p.rounds; round++ {
		for _, c := range p.cells {
			begun := time.Now()
			if begun.Add(longest).After(p.until) {
				p.progress("the time is over in round %d", round)
				return nil
			}
			if err := p.block(ctx, c, round); err != nil {
				return err
			}
			longest = max(longest, time.Since(begun))
		}
	}
	return nil
}

// warm runs each cell once with each program, and removes those that an older one does not know.
func (p *plan) warm(ctx context.Context) (err error) {
	p.cells = slices.DeleteFunc(p.cells, func(c *cell) bool {
		for _, who := range []program{p.base, p.head} {
			if err != nil {
				return false
			}
			p.progress("warm up: %s, %s: %s", c.store, c.name, who.name)
			_, e := p.turn(ctx, c, who)
			if u := (unsupported{}); errors.As(e, &u) {
				p.refused = append(p.refused, fmt.Sprintf("%s, %s: %v", c.store, c.name, e))
				return true
			}
			err = e
		}
		return false
	})
	return err
}

func (p *plan) block(ctx context.Context, c *cell, round int) error {
	var b [4]turn
	for _, i := range order(round) {
		who := p.base
		if i >= 2 {
			who = p.head
		}
		t, err := p.turn(ctx, c, who)
		if err != nil {
			return err
		}
		p.progress("round %d: %s, %s: %s: %s", round, c.store, c.name, who.name, t)
		b[i] = t
	}
	c.blocks = append(c.blocks, b)
	return nil
}

// order returns the order of the runs of a block, of which 0 and 1 are of the base: ABBA or BAAB.
func order(round int) []int {
	if round%2 == 0 {
		return []int{2, 0, 1, 3}
	}
	return []int{0, 2, 3, 1}
}

func (t turn) String() string {
	speed := fmt.Sprintf("%.3g ms a job", 1000*t.result.Seconds/float64(t.result.Jobs))
	if t.result.P50 > 0 {
		speed = fmt.Sprintf("p50 %.2f ms", t.result.P50)
	}
	return fmt.Sprintf("%s, CPU %.0f µs a job", speed, t.of(CPU, t.result.PerJob.ClientCPU > 0))
}

// grace is how long a program may take to end after an interruption.
const grace = 10 * time.Second

func (p *plan) turn(ctx context.Context, c *cell, who program) (t turn, err error) {
	args := append([]string{"bench", "--only", c.only, "--stores", c.store, "--dir", p.dir, "-o", "json"}, c.args...)
	cmd := exec.CommandContext(ctx, who.path, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	before := contest.Used(p.postmaster).Server
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return t, context.Cause(ctx)
		}
		line := errorLine(said.String())
		err = fmt.Errorf("%s: %v: %w: %s", who.name, args, err, line)
		if who.older && unknown.MatchString(line) {
			return t, unsupported{err}
		}
		return t, err
	}
	t.server = 1e6 * (contest.Used(p.postmaster).Server - before)
	t.client = float64((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Microseconds())
	var report bench.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return t, fmt.Errorf("%s: %v: %w", who.name, args, err)
	}
	if len(report.Results) != 1 || report.Results[0].Jobs == 0 {
		return t, fmt.Errorf("%s: %v: want one result, have %d", who.name, args, len(report.Results))
	}
	t.result = report.Results[0]
	return t, nil
}

// errorLine returns the line in which a program says what is wrong: progress comes before it, and
// a hint may follow. Of a crash it is the first line: stacks follow.
func errorLine(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	for _, l := range lines {
		if strings.HasPrefix(l, "error: ") || strings.HasPrefix(l, "panic: ") || strings.HasPrefix(l, "fatal error: ") {
			return l
		}
	}
	return lines[len(lines)-1]
}
