package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/metrics"
	"github.com/pawl-dev/pawl/internal/programs"
	"github.com/pawl-dev/pawl/internal/signals"
	"github.com/pawl-dev/pawl/internal/supervise"
)

const superviseLong = `Keep the programs of a FILE running until Ctrl-C or SIGTERM: start them in the order of
their needs, watch them, start again those that end, and finally stop them all in order.
docs/supervise.md describes the FILE, "pawl validate FILE" checks it, and "pawl service"
shows the programs and gives them orders from another terminal.

Logs and history are in the folder --state, by default $XDG_STATE_HOME/pawl/supervise/NAME
or ~/.local/state/pawl/supervise/NAME. NAME is that of the file unless --name gives
another. Only one running supervisor can have a name.

On a terminal a table is updated in place. Elsewhere, and with --verbose, each change of
state is a line. A FILE that has changed is read again when it has stayed the same for a
second; an invalid one changes nothing. With --watch=false only "pawl service reload"
reads it again.

The first Ctrl-C, SIGTERM or SIGHUP (a closed terminal) stops all programs in order, each
with its own grace. The second kills at once what is left. The third exits. After a
supervisor was killed, the next one with that NAME ends what is left of its programs
before it starts any, and continues its history.

Exit codes: 0 all programs have ended, 1 something was left running, 2 the FILE is
invalid, 3 it does not exist, 5 a supervisor with that NAME is running, 6 a folder, a
socket or a disk fails.`

// roleSupervisor is the role of this kind of host.
const roleSupervisor = "supervisor"

// A superviseFlags holds the command line's settings of a supervisor.
type superviseFlags struct {
	name, state    string
	listen         string
	watch, verbose bool
}

func newSupervise(a *app) *cobra.Command {
	o := superviseFlags{}
	c := &cobra.Command{
		Use: "supervise FILE", Short: "Keep programs running until Ctrl-C", Long: superviseLong,
		Example: "  pawl supervise shop.yaml\n  pawl supervise shop.yaml --name shop2 --state /var/lib/shop2 --verbose",
		Args:    want(1, 1, "a FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkListen(o.listen, false, listenHint(c)); err != nil {
				return err
			}
			return a.supervise(c.Context(), args[0], o)
		},
	}
	c.Flags().StringVar(&o.name, "name", "", "its name; default the name given in the file, or that of the file")
	c.Flags().StringVar(&o.state, "state", "", "the folder for logs and history")
	bindListen(c, &o.listen, "this loopback address", "no port")
	c.Flags().BoolVar(&o.watch, "watch", true, "read the file again after a change")
	c.Flags().BoolVar(&o.verbose, "verbose", false, "show the output of the programs as they print it")
	return c
}

func (a *app) supervise(ctx context.Context, path string, o superviseFlags) (err error) {
	s := &supervise.Supervision{Path: path, Name: o.name, Metrics: metrics.New(version()), Log: a.log,
		Out: a.logs, Screen: a.screen, Colours: a.colours(), Zone: a.talkZone(), Verbose: o.verbose}
	f, err := s.Load()
	if err != nil {
		return err
	}
	s.Name = f.Name
	if s.State, err = a.superviseState(o.state, s.Name); err != nil {
		return err
	}
	state := s.State
	l, err := control.Listen(control.Dir(a.getenv), control.About{Name: s.Name, Role: roleSupervisor, File: f.Path, State: state})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	journal, err := supervise.OpenJournal(state)
	if err != nil {
		return hinted(err, "name another folder with --state")
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	defer signals.IgnoreClosedPipes()()
	defer signals.IgnoreFileLimit()()
	defer a.logs.Buffer()()
	if s.Manager, err = programs.New(s.Config(state, journal)); err != nil {
		return err
	}
	s.Metrics.Watch(s.Stats, nil)
	if o.listen != "" && o.listen != noPort {
		p, err := a.openPort(o.listen, nil, servesState, a.logs)
		if err != nil {
			return err
		}
		p.Answer(s.Metrics, s.Unready, nil)
		end, err := p.Served(ctx)
		if err != nil {
			return err
		}
		defer end()
	}
	fmt.Fprintf(a.logs, "supervisor %s keeps %s of %s; stop with Ctrl-C\n", s.Name, console.Plural(int64(len(f.Programs)), "service"), path)
	fmt.Fprintf(a.logs, "logs and history in %s, socket %s; ask with: pawl service list\n", state, l.Path())
	hurried, done := a.signals.Second()
	defer done()
	report, err := s.Keep(ctx, hurried, f, l, a.change(""), o.watch)
	if err != nil {
		return err
	}
	if len(report.Left) > 0 {
		return exit{codeFailed}
	}
	return nil
}

// superviseState returns the folder of logs and history.
func (a *app) superviseState(dir, name string) (string, error) {
	if err := control.CheckName(name); err != nil {
		return "", err
	}
	if dir == "" {
		home, err := a.stateHome("name a folder with --state", "logs and history are")
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, "pawl", "supervise", name)
	}
	return filepath.Abs(dir)
}
