package supervise

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/files"
	"github.com/pawl-dev/pawl/internal/metrics"
	proc "github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/programs"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/supervisor"
)

// A Supervision keeps the programs of a file running, reads the file again when it changes,
// and reports what happens: it is a programs.Manager that reports what it does.
type Supervision struct {
	*programs.Manager
	Path    string
	Name    string // its name; "": the name in the file
	State   string // the folder of logs and history
	Metrics *metrics.Metrics
	Log     *slog.Logger

	// Where and how it reports.
	Out     *console.LogWriter
	Screen  console.Screen
	Colours bool
	Zone    *time.Location
	Verbose bool // show the output of the programs, and no table

	mu      sync.Mutex // guards the fields below
	read    digest     // of the last read of the file
	refused bool       // the last read was refused
	lost    error      // the folder of logs and history is gone
}

// OpenJournal makes a folder, and opens the history in it. The caller closes it.
func OpenJournal(folder string) (*supervisor.FileJournal, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "the folder of logs and history cannot be created", Err: err}
	}
	j, err := supervisor.OpenFileJournal(filepath.Join(folder, "journal.jsonl"))
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "the history cannot be opened", Err: err}
	}
	return j, nil
}

// Unready names the wanted programs that do not run or are not ready, and says why; and the folder of logs and
// history if that is gone.
func (s *Supervision) Unready(context.Context) []string {
	var reasons []string
	s.mu.Lock()
	if s.lost != nil {
		reasons = append(reasons, s.lost.Error())
	}
	s.mu.Unlock()
	for _, v := range s.Services() {
		if len(v.Why) > 0 && v.Wanted == "running" && v.State != control.Completed {
			reasons = append(reasons, v.ID+" is "+v.State+": "+v.Why[0])
		}
	}
	return reasons
}

// Config returns the configuration of the manager, whose state is kept in a folder.
func (s *Supervision) Config(state string, journal supervisor.Journal) programs.Config {
	c := programs.Config{Name: s.Name, State: state, Journal: journal, Log: s.Log, Load: s.Load}
	c.Hooks = s.Metrics.Hooks()
	if s.Screen.Terminal && !s.Verbose {
		return c
	}
	counted := c.Hooks.Transition
	c.Hooks.Transition = func(id supervisor.Identity, t supervisor.Transition) {
		counted(id, t)
		fmt.Fprintln(s.Out, console.StateLine(console.In(t.At, s.Zone), id.ID, t.To, s.moveText(id.ID, &t)))
	}
	if s.Verbose {
		c.Printed = func(id, _ string, line []byte) { fmt.Fprintf(s.Out, "%s | %s\n", id, s.shown(string(line))) }
	}
	return c
}

// shown returns what the screen shows of a line that a program prints.
func (s *Supervision) shown(line string) string {
	if s.Screen.Terminal {
		return console.Sanitize(line, s.Colours)
	}
	return line
}

// moveText describes a change of state.
func (s *Supervision) moveText(id string, t *supervisor.Transition) string {
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

// Keep keeps the programs of a file until ctx ends, and returns what it leaves behind. When
// hurried ends, it kills the rest. Meanwhile it serves the listener. It goes on if the folder of logs and history
// is gone: the programs need it less than their users need them.
func (s *Supervision) Keep(ctx, hurried context.Context, f *spec.File, l *control.Listener, c pawl.Change, watch bool) (supervisor.Report, error) {
	reaped, err := proc.BecomeSubreaper()
	if err != nil {
		return supervisor.Report{}, err
	}
	defer reaped()
	state, err := durable.Seen(s.State)
	if err != nil {
		return supervisor.Report{}, err
	}
	defer state.Close()
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
		if err := l.Serve(asked, s, s.Log); err != nil {
			s.Log.Error("the socket is not served any more", "error", err)
		}
	})
	if watch {
		beside.Go(func() { s.watch(kept) })
	}
	go state.Watch(kept, s.lose) // not waited for: its file system may hang
	defer s.draw()()
	defer s.hurrying(ctx, hurried, stop)()
	report, err := s.Run(kept)
	if err == nil {
		s.killOrphans()
		s.reportLeft(report)
	}
	return report, err
}

// lose notes that the folder of logs and history is gone, or, for nil, that it is back.
func (s *Supervision) lose(err error) {
	s.mu.Lock()
	s.lost = err
	s.mu.Unlock()
	if err == nil {
		s.Log.Warn("the folder of logs and history is back")
		return
	}
	s.Log.Error("logs and history are lost; the programs go on, and the next supervisor keeps a new history", "error", err)
}

// reportLeft reports what a stop has left behind.
func (s *Supervision) reportLeft(r supervisor.Report) {
	for _, l := range r.Left {
		console.Say(s.Out, "error", fmt.Sprintf("service %s is left %s: %s", l.ID, l.State, l.Why))
	}
	if len(r.Left) == 0 {
		fmt.Fprintf(s.Out, "supervisor %s has stopped\n", s.Name)
	}
}

// orphansTimeout is how long killOrphans waits for the processes it kills.
const orphansTimeout = 5 * time.Second

// killOrphans kills the processes that have left their services.
func (s *Supervision) killOrphans() {
	ctx, cancel := context.WithTimeout(context.Background(), orphansTimeout)
	defer cancel()
	n, err := proc.KillOrphans(ctx)
	if err != nil {
		s.Log.Error("processes that had left their services still run", "error", err)
	}
	if n > 0 {
		s.Log.Warn("processes that had left their services were killed", "processes", n)
	}
}

// hurrying calls end when ctx ends, and kills the rest when hurried ends. It reports both.
func (s *Supervision) hurrying(ctx, hurried context.Context, end func()) (stop func()) {
	first := context.AfterFunc(ctx, func() {
		fmt.Fprintln(s.Out, "stopping all services in order; Ctrl-C again kills what is left at once")
		end()
	})
	second := context.AfterFunc(hurried, func() {
		fmt.Fprintln(s.Out, "killing what is left")
		s.Force()
	})
	return func() {
		first()
		second()
	}
}

// draw shows the services as a table until stop is called, on a terminal.
func (s *Supervision) draw() (stop func()) {
	if !s.Screen.Terminal || s.Verbose {
		return func() {}
	}
	b := &console.ServiceTable{Name: s.Name, Services: s.Services}
	if r, ok := s.Out.W.(*console.AsyncWriter); ok {
		b.Busy = r.Behind
	}
	d := console.NewDrawing(console.StartLive(s.Out.W, s.Screen, console.Frame{Paint: s.Colours}, 200*time.Millisecond), s.Out)
	d.Paint(b.Draw)
	return d.Close
}

// A digest is the hash of the contents of a file, or of the error from reading it.
type digest = [sha256.Size]byte

// look reads the file.
func (s *Supervision) look() ([]byte, digest, error) {
	src, err := files.ReadPrograms(s.Path)
	if err != nil {
		return nil, sha256.Sum256([]byte("error: " + err.Error())), err
	}
	return src, sha256.Sum256(src), nil
}

// Load reads the file again.
func (s *Supervision) Load() (*spec.File, error) {
	src, sum, err := s.look()
	s.mu.Lock()
	s.read = sum
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f, err := files.ParsePrograms(s.Path, src)
	if err == nil {
		f.Name = cmp.Or(s.Name, f.Name) // once set, other programs know the supervisor by this name
	}
	return f, err
}

// Reload reloads the programs, and reports what has changed.
func (s *Supervision) Reload(ctx context.Context, c pawl.Change) ([]control.Difference, error) {
	differences, err := s.Manager.Reload(ctx, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.Out
	switch {
	case err != nil && ctx.Err() != nil: // everything stops
	case err != nil:
		console.Complain(out, err)
		fmt.Fprintf(out, "%s was not applied; everything stays as it is\n", s.Path)
	case len(differences) == 0 && s.refused:
		fmt.Fprintf(out, "%s is as it was before\n", s.Path)
	}
	s.refused = err != nil
	for _, d := range differences {
		fmt.Fprintln(out, d)
	}
	return differences, err
}

// lookAtFile is the time between two reads of the file.
const lookAtFile = time.Second

// watch reloads the file when it has changed. Two reads have to be equal: an editor may not
// have written all of it the first time.
func (s *Supervision) watch(ctx context.Context) {
	last := s.known()
	for sleep.For(ctx, lookAtFile) {
		_, now, _ := s.look()
		if now == last && now != s.known() {
			_, _ = s.Reload(ctx, pawl.Change{Actor: "watch", Reason: filepath.Base(s.Path) + " has changed"}) // Reload has reported its error
		}
		last = now
	}
}

// known returns the digest of the last read.
func (s *Supervision) known() digest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}
