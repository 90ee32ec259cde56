package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"runtime/debug"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/signals"
)

// A process is the environment of the program.
type process struct {
	args    []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	getenv  func(string) string
	exit    func(code int)
	screen  console.Screen
	columns func() int     // width of the terminal that is stdout, or 0; nil: stdout is not a terminal
	local   *time.Location // the time zone of the terminal; nil: UTC
	signals *signals.Handler
}

func processOf(args []string) *process {
	screen := console.ScreenOf(os.Stderr)
	screen.Terminal = screen.Terminal && os.Getenv("TERM") != "dumb"
	return &process{
		columns: func() int { return console.Columns(os.Stdout) }, local: time.Local,
		args: args, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv, exit: os.Exit,
		screen: screen, signals: signals.New(func() { os.Exit(codeInterrupted) }),
	}
}

// width returns the width of the terminal that output goes to, or 0 if there is none.
func (p *process) width() int {
	if p.columns == nil {
		return 0
	}
	return p.columns()
}

// main runs the command line and returns the exit code.
func (p *process) main() int {
	ctx, stop := p.signals.First(context.Background())
	defer stop()
	err := p.execute(ctx)
	if ctx.Err() != nil && err != nil && !isExit(err) {
		err = exit{codeInterrupted}
	}
	return complain(p.stderr, err)
}

// execute runs the command. A panic becomes an error; its stack is logged at level debug.
func (p *process) execute(ctx context.Context) (err error) {
	a := &app{process: p, logs: &console.LogWriter{W: p.stderr}, log: slog.New(slog.DiscardHandler)}
	defer func() {
		if fault := recover(); fault != nil {
			a.log.Debug("the program has a fault", "panic", fault, "stack", string(debug.Stack()))
			err = &pawl.Error{Kind: pawl.Internal, Message: fmt.Sprintf("pawl has a bug: %v", fault), Hint: "--log-level debug shows where"}
		}
	}()
	root := newRoot(a)
	addCompletion(root)
	root.SetArgs(p.args)
	err = root.ExecuteContext(ctx)
	if gone := (*durable.GoneError)(nil); errors.As(err, &gone) && gone.Ending != nil && !isExit(gone.Ending) {
		a.log.Warn("stopping failed after files were gone", "error", gone.Ending)
	}
	return err
}

// colours reports whether talk may be coloured.
func (p *process) colours() bool { return p.screen.Terminal && p.getenv("NO_COLOR") == "" }

// sanitize returns what the screen shows of a line that a step or a program printed.
func (p *process) sanitize(line string) string { return console.Sanitize(line, p.colours()) }

// actor returns the user of this process, for the audit trail.
func (p *process) actor() string {
	name := p.getenv("USER")
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if name == "" {
		name = "unknown"
	}
	return "cli:" + name
}

// outZone returns the zone of the times that people see on stdout.
func (a *app) outZone() *time.Location { return a.zone(a.width() > 0) }

// talkZone returns the zone of the times that people see on stderr.
func (a *app) talkZone() *time.Location { return a.zone(a.screen.Terminal) }

// zone returns the local zone for a terminal, unless the user wants UTC, and UTC for anything
// else.
func (a *app) zone(terminal bool) *time.Location {
	if !terminal || a.utc {
		return nil
	}
	return a.local
}
