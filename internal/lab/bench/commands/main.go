// Command commands compares "pawl run" with xargs -P and GNU make -j: how fast they start a
// program that does nothing, many times, as many at once. docs/bench.md says what is not fair.
//
//	go run ./internal/lab/bench/commands -pawl bin/pawl
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/bench"
	"github.com/pawl-dev/pawl/internal/lab/contest"
	"github.com/pawl-dev/pawl/internal/signals"
)

func main() {
	ctx, stop := signals.New(func() {}).First(context.Background()) // no signal ends it before it has cleaned up
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var p contest.Program
	p.Flags(flag.CommandLine)
	pawl := flag.String("pawl", "bin/pawl", "the program to measure")
	n := flag.Int("n", 1000, "how many programs each of them starts, 1 to 50000")
	parallel := flag.Int("parallel", 2, "how many of them run at once, 1 to 1000")
	flag.Parse()
	switch {
	case *n < 1 || *n > 50_000:
		return fmt.Errorf("-n %d: want 1 to 50000", *n)
	case *parallel < 1 || *parallel > 1000:
		return fmt.Errorf("-parallel %d: want 1 to 1000", *parallel)
	}
	dir, err := os.MkdirTemp("", "pawl-commands-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c, err := commands(dir, *pawl, trueProgram, p.Scaled(bench.Sizes{Jobs: *n}).Jobs, *parallel)
	if err != nil {
		return err
	}
	o, err := p.Measure(ctx, c)
	if err != nil {
		return err
	}
	return p.Write(o, "pawl")
}

// trueProgram does nothing.
const trueProgram = "/bin/true"

// commands returns the contest to start a program n times. Its files are in dir.
func commands(dir, pawl, program string, n, parallel int) (c contest.Contest, err error) {
	if pawl, err = exec.LookPath(pawl); err != nil {
		return c, fmt.Errorf("-pawl: %w", err)
	}
	for _, name := range []string{"xargs", "make"} {
		if _, err := exec.LookPath(name); err != nil {
			return c, fmt.Errorf("%w: apt-get install findutils make", err)
		}
	}
	if pawl, err = filepath.Abs(pawl); err == nil {
		err = write(dir, program, n)
	}
	if err != nil {
		return c, err
	}
	p := strconv.Itoa(parallel)
	times := &used{}
	entrant := func(name string, command func(round int) []string) contest.Entrant {
		round := 0
		return contest.Entrant{Name: name, Open: func(context.Context) (bench.System, error) {
			round++
			return &starter{dir: dir, n: n, args: command(round), used: times}, nil
		}}
	}
	return contest.Contest{
		Entrants: []contest.Entrant{
			entrant("pawl", func(round int) []string {
				return []string{pawl, "run", "commands.yaml", "--inputs", "@items.json", "--workers", p, "-o", "quiet", "--database", fmt.Sprintf("%d.db", round)}
			}),
			entrant("xargs", func(int) []string { return []string{"xargs", "-a", "items.txt", "-P", p, "-n", "1", program} }),
			entrant("make", func(int) []string { return []string{"make", "-s", "-j", p, "-f", "commands.mk"} }),
		},
		Workloads: []bench.Workload{{Name: fmt.Sprintf("%d x %s, %d at once", n, program, parallel),
			Before: func(context.Context, bench.System, bench.Sizes) error { return nil },
			Measure: func(ctx context.Context, s bench.System, _ bench.Sizes) (bench.Figures, error) {
				return s.(*starter).run(ctx)
			},
		}},
		CPU: func() contest.CPU { return contest.CPU{Client: times.cpu.Seconds()} },
	}, nil
}

// write writes the files by which each of them knows what to start.
func write(dir, program string, n int) error {
	var lines, targets, items strings.Builder
	for i := range n {
		fmt.Fprintln(&lines, i)
		fmt.Fprintf(&targets, " t%d", i)
		fmt.Fprintf(&items, ",%d", i)
	}
	for name, text := range map[string]string{
		"items.txt":     lines.String(),
		"commands.mk":   fmt.Sprintf("TARGETS =%s\n.PHONY: all $(TARGETS)\nall: $(TARGETS)\n$(TARGETS):\n\t%s $@\n", targets.String(), program),
		"items.json":    fmt.Sprintf(`{"items": [%s]}`, items.String()[1:]),
		"commands.yaml": fmt.Sprintf("name: commands\ninputs: {items: {type: array}}\nsteps:\n  - {id: each, foreach: \"${{ inputs.items }}\", command: [%s, \"${{ item }}\"]}\n", program),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// used is the CPU time of the processes that have ended, with that of their children.
type used struct{ cpu time.Duration }

// A starter is one run of a command that starts the programs.
type starter struct {
	bench.System // nothing else of it is called: it is nil
	dir          string
	n            int
	args         []string
	used         *used
}

func (s *starter) run(ctx context.Context) (bench.Figures, error) {
	cmd := exec.CommandContext(ctx, s.args[0], s.args[1:]...)
	cmd.Dir = s.dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // of a make above, and of a user of pawl
		return strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS") || strings.HasPrefix(v, "PAWL_")
	})
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	cmd.Stderr = &said
	begun := time.Now()
	if err := cmd.Run(); err != nil {
		return bench.Figures{}, errors.Join(context.Cause(ctx), fmt.Errorf("%s: %w: %s", s.args[0], err, bytes.TrimSpace(said.Bytes())))
	}
	d := time.Since(begun).Seconds()
	s.used.cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return bench.Figures{Jobs: s.n, Steps: s.n, Seconds: d, JobRate: float64(s.n) / d, StepRate: float64(s.n) / d}, nil
}

// Close implements bench.System: the process has ended.
func (s *starter) Close() error { return nil }
