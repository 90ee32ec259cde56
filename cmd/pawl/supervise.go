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
their needs, watch them, start again what ends, and at the end stop all in order.
docs/supervise.md says what the FILE says; "pawl validate FILE" checks it, and
"pawl service" asks and gives orders from elsewhere.

Logs and history lie in --state, by default $XDG_STATE_HOME/pawl/supervise/NAME or
~/.local/state/pawl/supervise/NAME. The NAME is the file's unless --name says another;
one supervisor has it at a time.

On a terminal a table changes in place; else, and with --verbose, each change of state
is a line. A FILE that has changed is read again when it has been the same for a
second; one that is invalid changes nothing. --watch=false leaves that to
"pawl service reload".

The first Ctrl-C, SIGTERM or SIGHUP (of a terminal that is closed) stops everything in
order, each program with its own grace; the second kills at once what is left; a third
leaves. Of a supervisor that was killed itself the next one of that NAME ends what is
left before it starts anything, and goes on with its history.

Exit codes: 0 all has ended, 1 something was left behind, 2 the FILE is invalid, 3 it is
not there, 5 one of that NAME runs already, 6 a folder, a socket or a disk fails.`

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
			if err := checkListen(o.listen); err != nil {
				return err
			}
			return a.supervise(c.Context(), args[0], o)
		},
	}
	c.Flags().StringVar(&o.name, "name", "", "what it is called; default the name in the file, or that of the file")
	c.Flags().StringVar(&o.state, "state", "", "the folder of logs and history")
	bindListen(c, &o.listen)
	c.Flags().BoolVar(&o.watch, "watch", true, "read the file again when it has changed")
	c.Flags().BoolVar(&o.verbose, "verbose", false, "show what the programs print, as they print it")
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
	state, err := a.superviseState(o.state, s.Name)
	if err != nil {
		return err
	}
	l, err := control.Listen(control.Dir(a.getenv), control.About{Name: s.Name, Role: roleSupervisor, File: f.Path, State: state})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	journal, err := supervise.OpenJournal(state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	defer signals.IgnoreClosedPipes()()
	defer signals.IgnoreFileLimit()()
	defer a.logs.Buffer()()
	if s.Manager, err = programs.New(s.Config(state, journal)); err != nil {
		return err
	}
	s.Metrics.Watch(s.Stats, nil)
	if o.listen != "" {
		p, err := a.openPort(o.listen, a.logs)
		if err != nil {
			return err
		}
		p.Answer(s.Metrics, s.Unready)
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
