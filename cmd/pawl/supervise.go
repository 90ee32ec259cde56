package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/metrics"
	proc "github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/programs"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/supervisor"
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

// roleSupervisor is what this kind of host calls itself.
const roleSupervisor = "supervisor"

// A superviseFlags is what the command line says of a supervisor.
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

// A supervision keeps the programs of a file running, reads the file again when it has
// changed, and says what happens: it is a programs.Manager that reports what it does.
type supervision struct {
	*programs.Manager
	path    string
	name    string                                               // what it is called; "": what the file says
	source  func(path string) ([]byte, error)                    // reads the file
	parse   func(path string, source []byte) (*spec.File, error) // what it says
	metrics *metrics.Metrics
	log     *slog.Logger

	// Where and how it says what happens.
	talk     *console.LogWriter
	complain func(error)
	screen   console.Screen
	colours  bool
	zone     *time.Location
	verbose  bool // what the programs print is shown, and no table

	mu      sync.Mutex // guards what follows
	read    digest     // of the file as it was read last
	refused bool       // it was
}

func (a *app) supervise(ctx context.Context, path string, o superviseFlags) (err error) {
	s := &supervision{path: path, name: o.name, parse: parsePrograms, metrics: metrics.New(version()), log: a.log,
		source: func(path string) ([]byte, error) { return readFile(path, spec.MaxSource) },
		talk:   a.logs, complain: func(err error) { complain(a.logs, err) },
		screen: a.screen, colours: a.colours(), zone: a.talkZone(), verbose: o.verbose}
	f, err := s.load()
	if err != nil {
		return err
	}
	s.name = f.Name
	state, err := a.superviseState(o.state, s.name)
	if err != nil {
		return err
	}
	l, err := control.Listen(control.Dir(a.getenv), control.About{Name: s.name, Role: roleSupervisor, File: f.Path, State: state})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	journal, err := openJournal(state)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	defer outliveReaders()()
	defer outliveLimit()()
	defer a.buffered()()
	if s.Manager, err = programs.New(s.config(state, journal)); err != nil {
		return err
	}
	s.metrics.Watch(s.Stats, nil)
	if o.listen != "" {
		p, err := a.openPort(o.listen, a.logs)
		if err != nil {
			return err
		}
		p.Answer(s.metrics, s.unready)
		end, err := p.Served(ctx)
		if err != nil {
			return err
		}
		defer end()
	}
	fmt.Fprintf(a.logs, "supervisor %s keeps %s of %s; stop with Ctrl-C\n", s.name, console.Plural(int64(len(f.Programs)), "service"), path)
	fmt.Fprintf(a.logs, "logs and history in %s, socket %s; ask with: pawl service list\n", state, l.Path())
	reaped, err := proc.BecomeSubreaper()
	if err != nil {
		return err
	}
	defer reaped()
	hurried, done := a.hurried()
	defer done()
	report, err := s.run(ctx, hurried, f, l, a.change(""), o.watch)
	if err != nil {
		return err
	}
	if len(report.Left) > 0 {
		return exit{codeFailed}
	}
	return nil
}

// unready says which programs that are wanted do not run, or are not ready, and why.
func (s *supervision) unready(context.Context) []string {
	var reasons []string
	for _, v := range s.Services() {
		if len(v.Why) > 0 && v.Wanted == "running" && v.State != control.Completed {
			reasons = append(reasons, v.ID+" is "+v.State+": "+v.Why[0])
		}
	}
	return reasons
}

func (s *supervision) config(state string, journal supervisor.Journal) programs.Config {
	c := programs.Config{Name: s.name, State: state, Journal: journal, Log: s.log, Load: s.load}
	c.Hooks = s.metrics.Hooks()
	if s.screen.Terminal && !s.verbose {
		return c
	}
	counted := c.Hooks.Transition
	c.Hooks.Transition = func(id supervisor.Identity, t supervisor.Transition) {
		counted(id, t)
		fmt.Fprintln(s.talk, console.StateLine(console.In(t.At, s.zone), id.ID, t.To, s.moveText(id.ID, &t)))
	}
	if s.verbose {
		c.Printed = func(id, _ string, line []byte) { fmt.Fprintf(s.talk, "%s | %s\n", id, s.shown(string(line))) }
	}
	return c
}

// shown returns what the screen is shown of a line that a program prints.
func (s *supervision) shown(line string) string {
	if s.screen.Terminal {
		return console.Sanitize(line, s.colours)
	}
	return line
}

// moveText says what there is to say of a change of state.
func (s *supervision) moveText(id string, t *supervisor.Transition) string {
	if t.From != control.Starting || t.To != control.Running {
		return t.Reason
	}
	v, err := s.Service(id)
	if err != nil || v.PID == 0 {
		return t.Reason
	}
	for i := range v.Probes {
		if v.Probes[i].Kind == "ready" && t.At.After(v.StartedAt) {
			return fmt.Sprintf("ready after %s, pid %d", console.Duration(t.At.Sub(v.StartedAt)), v.PID)
		}
	}
	return fmt.Sprintf("pid %d", v.PID)
}

// run keeps the programs of a file until ctx ends, and returns what it leaves behind. When
// hurried ends what is left is killed. Whoever asks at the listener is answered.
func (s *supervision) run(ctx, hurried context.Context, f *spec.File, l *control.Listener, c pawl.Change, watch bool) (supervisor.Report, error) {
	if _, err := s.Apply(ctx, f, c); err != nil {
		return supervisor.Report{}, err
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	asked, end := context.WithCancel(context.Background())
	defer end()
	kept, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	beside.Go(func() {
		if err := l.Serve(asked, s, s.log); err != nil {
			s.log.Error("nobody can ask for services any more", "error", err)
		}
	})
	if watch {
		beside.Go(func() { s.watch(kept) })
	}
	defer s.drawn()()
	defer s.hurrying(ctx, hurried, stop)()
	report, err := s.Run(kept)
	if err == nil {
		s.orphans()
		s.left(report)
	}
	return report, err
}

// left says what a stop has left behind.
func (s *supervision) left(r supervisor.Report) {
	for _, l := range r.Left {
		console.Say(s.talk, "error", fmt.Sprintf("service %s is left %s: %s", l.ID, l.State, l.Why))
	}
	if len(r.Left) == 0 {
		fmt.Fprintf(s.talk, "supervisor %s has stopped\n", s.name)
	}
}

// outliveLimit has a file that may not grow any more (ulimit -f) be an error, as a full
// disk is, and not the end of this process.
func outliveLimit() (stop func()) {
	c := make(chan os.Signal, 1) // nobody reads it
	signal.Notify(c, syscall.SIGXFSZ)
	return func() { signal.Stop(c) }
}

// orphansTimeout is how long those are waited for that are killed at the end.
const orphansTimeout = 5 * time.Second

// orphans kills what programs have left that nobody could tell was theirs.
func (s *supervision) orphans() {
	ctx, cancel := context.WithTimeout(context.Background(), orphansTimeout)
	defer cancel()
	n, err := proc.KillOrphans(ctx)
	if err != nil {
		s.log.Error("processes that had left their services still run", "error", err)
	}
	if n > 0 {
		s.log.Warn("processes that had left their services were killed", "processes", n)
	}
}

// hurrying says when everything ends, and kills what is left when hurried ends.
func (s *supervision) hurrying(ctx, hurried context.Context, end func()) (stop func()) {
	first := context.AfterFunc(ctx, func() {
		fmt.Fprintln(s.talk, "stopping everything in order; Ctrl-C again kills at once what is left")
		end()
	})
	second := context.AfterFunc(hurried, func() {
		fmt.Fprintln(s.talk, "what is left is killed")
		s.Force()
	})
	return func() {
		first()
		second()
	}
}

// drawn shows the services as a table until the end, on a terminal.
func (s *supervision) drawn() (stop func()) {
	if !s.screen.Terminal || s.verbose {
		return func() {}
	}
	b := &console.ServiceTable{Name: s.name, Services: s.Services}
	if r, ok := s.talk.W.(*console.AsyncWriter); ok {
		b.Busy = r.Behind
	}
	d := console.NewDrawing(console.StartLive(s.talk.W, s.screen, console.Frame{Paint: s.colours}, 200*time.Millisecond), s.talk)
	d.Paint(b.Draw)
	return d.Close
}

// buffered puts a buffer between what this process says and its reader, so that
// nothing here ever waits for a terminal.
func (a *app) buffered() (stop func()) {
	to := a.logs.W
	r := console.NewAsyncWriter(to)
	a.logs.W = r
	return func() {
		r.Close()
		a.logs.W = to
	}
}

// superviseState returns the folder of logs and history.
func (a *app) superviseState(dir, name string) (string, error) {
	if err := control.CheckName(name); err != nil {
		return "", err
	}
	if dir == "" {
		home := a.stateHome()
		if !filepath.IsAbs(home) {
			return "", usage("name a folder with --state", "neither XDG_STATE_HOME nor HOME says where logs and history are")
		}
		dir = filepath.Join(home, "pawl", "supervise", name)
	}
	return filepath.Abs(dir)
}

// openJournal makes the folder, and opens the history in it.
func openJournal(state string) (*supervisor.FileJournal, error) {
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "the folder of logs and history cannot be made", Hint: "name another with --state", Err: err}
	}
	j, err := supervisor.OpenFileJournal(filepath.Join(state, "journal.jsonl"))
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "the history cannot be opened", Err: err}
	}
	return j, nil
}

// parsePrograms checks what the file at path says, which means its own folder.
func parsePrograms(path string, src []byte) (*spec.File, error) {
	if len(src) > spec.MaxSource {
		return nil, pawl.Errorf(pawl.Invalid, "cannot read %s: it has more than %d bytes", path, spec.MaxSource)
	}
	if stepsKey.Match(src) && !servicesKey.Match(src) {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: path + " is a workflow, and no file of services", Hint: "run it with: pawl run " + console.Shell(path)}
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	f, err := spec.Parse(full, src)
	var problems document.Problems
	if errors.As(err, &problems) {
		for i := range problems {
			problems[i].File = path // as it was called
		}
	}
	return f, err
}

// servicesKey is in a file of services, and in no workflow.
var servicesKey = regexp.MustCompile(`(?m)^services[ \t]*:`)

// stepsKey is in a workflow, and in no file of services.
var stepsKey = regexp.MustCompile(`(?m)^steps[ \t]*:`)

// A digest is the hash of what a file holds, or of why it cannot be read.
type digest = [sha256.Size]byte

// look reads the file.
func (s *supervision) look() ([]byte, digest, error) {
	src, err := s.source(s.path)
	if err != nil {
		return nil, sha256.Sum256([]byte("error: " + err.Error())), err
	}
	return src, sha256.Sum256(src), nil
}

// load reads the file again.
func (s *supervision) load() (*spec.File, error) {
	src, sum, err := s.look()
	s.mu.Lock()
	s.read = sum
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f, err := s.parse(s.path, src)
	if err == nil {
		f.Name = cmp.Or(s.name, f.Name) // once it has one, others know it by that
	}
	return f, err
}

// Reload reloads the programs, and says what has changed.
func (s *supervision) Reload(ctx context.Context, c pawl.Change) ([]control.Difference, error) {
	differences, err := s.Manager.Reload(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.talk
	switch {
	case err != nil && ctx.Err() != nil: // everything stops
	case err != nil:
		s.complain(err)
		fmt.Fprintf(out, "%s was not applied; everything stays as it is\n", s.path)
	case len(differences) == 0 && s.refused:
		fmt.Fprintf(out, "%s is as it was before\n", s.path)
	}
	s.refused = err != nil
	for _, d := range differences {
		fmt.Fprintln(out, d)
	}
	return differences, err
}

// lookAtFile is how long the file is not looked at.
const lookAtFile = time.Second

// watch reloads the file when it has changed. It has to be the same twice: an editor
// may not have written all of it the first time.
func (s *supervision) watch(ctx context.Context) {
	last := s.known()
	for sleep.For(ctx, lookAtFile) {
		_, now, _ := s.look()
		if now == last && now != s.known() {
			_, _ = s.Reload(ctx, pawl.Change{Actor: "watch", Reason: filepath.Base(s.path) + " has changed"}) // it has told of its error
		}
		last = now
	}
}

// known is the file as it was read last.
func (s *supervision) known() digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}
