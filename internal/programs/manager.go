package programs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/programs/journal"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/supervisor"
)

// Config configures a Manager.
type Config struct {
	Name    string             // the Host that each control.Service shows
	State   string             // the folder of logs and sockets; one Manager at a time uses it
	Journal supervisor.Journal // should be a supervisor.Trailer too, for History; nil: the last 200 entries of each service, in memory
	Environ func() []string    // nil: os.Environ
	Log     *slog.Logger       // nil: slog.Default()

	// Load reads the file again, for Reload. nil: Reload is refused.
	Load func() (*spec.File, error)

	// Hooks are called as package supervisor calls them. Changed is called when the view
	// of a service may have changed; it must not block.
	Hooks   supervisor.Hooks
	Changed func(id string)

	// Printed is called with each whole line that a program prints. nil: not called.
	Printed func(id, stream string, line []byte)
}

// Limits of killing processes.
const (
	sweepTimeout = 30 * time.Second // for the processes that a killed manager left
	killTimeout  = 5 * time.Second  // for the processes that Force kills
)

// A Manager runs the programs of a file. It is a control.Host. Its methods may be called
// from any goroutine.
type Manager struct {
	config   Config
	sup      *supervisor.Supervisor
	deferred *journal.Deferred

	cgroup *process.Cgroup // of the programs; nil before Run, and where the system allows none
	launch func(process.Spec) (childProcess, error)
	random func() float64

	killed  context.Context // done once Force was called
	kill    context.CancelFunc
	running sync.WaitGroup // the goroutines that watch a program
	closing atomic.Bool    // orders and changes are refused from now on

	changing sync.Mutex // one Apply at a time

	mu       sync.RWMutex
	programs map[string]*program
}

var _ control.Host = (*Manager)(nil)

// New returns a Manager without programs. It creates the folder State.
func New(c Config) (*Manager, error) {
	if c.State == "" {
		return nil, pawl.Errorf(pawl.Invalid, "state: want the folder of the manager")
	}
	state, err := filepath.Abs(c.State)
	if err == nil {
		err = os.MkdirAll(state, 0o700)
	}
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Invalid, Message: "state folder", Err: err}
	}
	c.State = state
	if c.Environ == nil {
		c.Environ = os.Environ
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Journal == nil {
		c.Journal = &journal.Ring{}
	}
	m := &Manager{config: c, programs: map[string]*program{}, launch: startProcess, random: rand.Float64}
	m.killed, m.kill = context.WithCancel(context.Background())
	m.deferred = &journal.Deferred{Journal: c.Journal, Log: c.Log}
	m.sup, err = supervisor.New(supervisor.Config{Journal: m.deferred, Hooks: m.hooks(), Log: slog.New(logFilter{c.Log.Handler(), m}), Actor: "pawl supervise", Random: func() float64 { return m.random() }})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func startProcess(s process.Spec) (childProcess, error) {
	p, err := process.Start(s)
	if errors.Is(err, syscall.ENODEV) && s.Cgroup != nil { // the control group was removed
		s.Cgroup = nil
		p, err = process.Start(s)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// hooks returns the hooks of the configuration, each followed by Changed where it matters.
func (m *Manager) hooks() supervisor.Hooks {
	h, given := m.config.Hooks, m.config.Hooks
	h.Transition = func(id supervisor.Identity, t supervisor.Transition) {
		if given.Transition != nil {
			given.Transition(id, t)
		}
		m.notifyChanged(id.ID)
	}
	h.Settled = func(id supervisor.Identity, a supervisor.ActionStatus) {
		if given.Settled != nil {
			given.Settled(id, a)
		}
		m.notifyChanged(id.ID)
	}
	h.Escalated = func(id supervisor.Identity, reason string) {
		if given.Escalated != nil {
			given.Escalated(id, reason)
		}
		m.notifyChanged(id.ID)
	}
	return h
}

// notifyChanged calls Config.Changed: the view of a service may have changed.
func (m *Manager) notifyChanged(id string) {
	if m.config.Changed != nil {
		m.config.Changed(id)
	}
}

// wake makes a service observe its program at once.
func (m *Manager) wake(id string) {
	_ = m.sup.Wake(id) // it may have been removed
	m.notifyChanged(id)
}

func (m *Manager) killing() bool { return m.killed.Err() != nil }

// Run kills what an earlier manager of this state folder left running, runs the programs
// until ctx ends, and then stops them in order, dependants first. The report names what
// could not be stopped. Apply may be called before Run; its programs start once Run is
// called.
func (m *Manager) Run(ctx context.Context) (supervisor.Report, error) {
	lock, err := m.lock()
	if err != nil {
		return supervisor.Report{}, err
	}
	defer lock.Close()
	if err := m.sweep(); err != nil {
		return supervisor.Report{}, err
	}
	m.openCgroup()
	defer m.closeCgroup()
	defer context.AfterFunc(ctx, func() { m.closing.Store(true) })()
	settled := m.flushDeferred(ctx)
	r, err := m.sup.Run(ctx)
	m.closing.Store(true)
	settled()
	if err != nil {
		return r, err
	}
	r = m.stillRunning(r)
	m.close(r)
	return r, nil
}

// flushDeferred writes the deferred journal entries in the background until settled is
// called, which writes them one last time and waits for that.
func (m *Manager) flushDeferred(ctx context.Context) (settled func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() {
		defer close(over)
		m.deferred.Run(ctx)
	}()
	return func() {
		stop()
		lost, err := m.deferred.Finish(context.WithoutCancel(ctx), over)
		if lost > 0 {
			m.config.Log.Error("the last entries of the history could not be written", "entries", lost, "error", err)
		}
	}
}

// stillRunning drops from a report the services whose process has ended: a forced stop
// does not wait until the supervisor has observed that.
func (m *Manager) stillRunning(r supervisor.Report) supervisor.Report {
	var still []supervisor.Left
	for _, l := range r.Left {
		prog := m.program(l.ID)
		if prog == nil {
			still = append(still, l)
			continue
		}
		if o := prog.observe(); o.Up {
			l.Why = fmt.Sprintf("pid %d has not ended", o.PID)
		} else if !o.Launching {
			continue
		}
		still = append(still, l)
	}
	return supervisor.Report{Left: still}
}

// lock locks the state folder: sweep kills the processes that belong to it. A folder that
// is locked already is a Conflict.
func (m *Manager) lock() (*flock.Flock, error) {
	lock := flock.New(filepath.Join(m.config.State, "lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err == nil && ok {
		return lock, nil
	}
	_ = lock.Close()
	return nil, &pawl.Error{Kind: pawl.Conflict, Message: "another supervisor uses the folder " + m.config.State, Hint: "stop it, or choose another folder", Err: err}
}

// sweep kills the processes that bear the mark of this state folder or are in its control
// group.
func (m *Manager) sweep() error {
	ctx, cancel := context.WithTimeout(m.killed, sweepTimeout)
	defer cancel()
	n, err := process.Sweep(ctx, m.mark(""))
	more, e := m.sweepCgroups(ctx)
	n, err = n+more, errors.Join(err, e)
	if n > 0 {
		m.config.Log.Warn("processes of an earlier supervisor were killed", "processes", n)
	}
	if err != nil {
		return &pawl.Error{Kind: pawl.Conflict, Message: "processes of an earlier supervisor still run", Hint: "end them, then start again", Err: err}
	}
	return nil
}

// close waits for the goroutines that watch programs, if all programs have ended, and
// closes the logs.
func (m *Manager) close(r supervisor.Report) {
	if len(r.Left) == 0 {
		ended := make(chan struct{})
		go func() {
			m.running.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(killTimeout): // a probe may hang in its execve, on a disk that hangs
		}
	}
	for _, prog := range m.all() {
		prog.mu.Lock()
		prog.closeLog()
		prog.mu.Unlock()
	}
}

// Force cuts short a stop, under way or to come: what still runs is killed at once, and
// Run returns even if a process does not end. It may be called more than once.
func (m *Manager) Force() {
	if m.killing() {
		return
	}
	m.kill()
	time.AfterFunc(killTimeout, m.sup.Force)
}

// failure converts an error of package supervisor to a pawl.Error.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, supervisor.ErrStopped):
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the supervisor is stopping"}
	case errors.Is(err, supervisor.ErrInvalid), errors.Is(err, supervisor.ErrCycle):
		return &pawl.Error{Kind: pawl.Invalid, Message: "service", Err: err}
	case errors.Is(err, supervisor.ErrExists):
		return &pawl.Error{Kind: pawl.Conflict, Message: "service", Err: err}
	case errors.Is(err, supervisor.ErrNotFound):
		return &pawl.Error{Kind: pawl.NotFound, Message: "service", Err: err}
	}
	return err
}
