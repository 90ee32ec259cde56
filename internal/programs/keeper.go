// Package programs keeps the programs of a file running, on package supervisor: what
// state each is in, when it is started, stopped and started again.
//
// Each program is a service. What happens to it (it ends, a probe answers
// otherwise, it sends a message) is noted in memory and wakes the service at once;
// what follows is decided by a pure function from that and from what is wanted.
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
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/supervisor"
)

// Config is what a Keeper is made of.
type Config struct {
	Name    string             // of the host, in control.Service
	State   string             // the folder of logs, sockets and marks; it is the keeper's alone
	Journal supervisor.Journal // with Trail; nil: no history is kept over restarts
	Environ func() []string    // nil: os.Environ
	Log     *slog.Logger       // nil: slog.Default()

	// Load reads the file anew, for Reload. nil: Reload is refused.
	Load func() (*spec.File, error)

	// Hooks are told what happens; Changed is called when a Service may look different.
	// It must not wait.
	Hooks   supervisor.Hooks
	Changed func(id string)

	// Printed is called with each whole line that a program prints; nil: nobody wants it.
	Printed func(id, stream string, line []byte)
}

// Limits of a stop.
const (
	sweepTimeout = 30 * time.Second // for what a killed keeper has left to be gone
	killTimeout  = 5 * time.Second  // for what Force kills
)

// A Keeper keeps the programs of a file running. It is a control.Host.
type Keeper struct {
	config Config
	sup    *supervisor.Supervisor
	owing  *owing

	cgroup *process.Cgroup // of the programs; nil: there is none, or Run has not begun
	launch func(process.Spec) (launched, error)
	random func() float64

	killed  context.Context // done when everything is to be killed at once
	kill    context.CancelFunc
	running sync.WaitGroup // who watches a program
	ending  atomic.Bool    // nothing is taken on any more

	changing sync.Mutex // one Apply at a time

	mu    sync.RWMutex
	wards map[string]*ward
}

var _ control.Host = (*Keeper)(nil)

// New answers a keeper without programs. It makes the folder State.
func New(c Config) (*Keeper, error) {
	if c.State == "" {
		return nil, pawl.Errorf(pawl.Invalid, "state: want the folder of the keeper")
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
		c.Journal = &ring{}
	}
	k := &Keeper{config: c, wards: map[string]*ward{}, launch: startProcess, random: rand.Float64}
	k.killed, k.kill = context.WithCancel(context.Background())
	k.owing = &owing{Journal: c.Journal, log: c.Log}
	k.sup, err = supervisor.New(supervisor.Config{Journal: k.owing, Hooks: k.hooks(), Log: slog.New(hush{c.Log.Handler(), k}), Actor: "pawl supervise", Random: func() float64 { return k.random() }})
	if err != nil {
		return nil, err
	}
	return k, nil
}

func startProcess(s process.Spec) (launched, error) {
	p, err := process.Start(s)
	if errors.Is(err, syscall.ENODEV) && s.Cgroup != nil { // somebody has removed it
		s.Cgroup = nil
		p, err = process.Start(s)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// hooks are those of the configuration, and Changed.
func (k *Keeper) hooks() supervisor.Hooks {
	h, given := k.config.Hooks, k.config.Hooks
	h.Transition = func(id supervisor.Identity, t supervisor.Transition) {
		if given.Transition != nil {
			given.Transition(id, t)
		}
		k.tell(id.ID)
	}
	h.Settled = func(id supervisor.Identity, a supervisor.ActionStatus) {
		if given.Settled != nil {
			given.Settled(id, a)
		}
		k.tell(id.ID)
	}
	h.Escalated = func(id supervisor.Identity, reason string) {
		if given.Escalated != nil {
			given.Escalated(id, reason)
		}
		k.tell(id.ID)
	}
	return h
}

// tell tells that a service may look different.
func (k *Keeper) tell(id string) {
	if k.config.Changed != nil {
		k.config.Changed(id)
	}
}

// wake has a service look at its program at once.
func (k *Keeper) wake(id string) {
	_ = k.sup.Wake(id) // it may have left
	k.tell(id)
}

func (k *Keeper) killing() bool { return k.killed.Err() != nil }

// Run kills what an earlier keeper of this state folder has left running, keeps the
// programs until ctx ends, and then stops them in order, dependants first. It
// answers what it could not stop. Apply may be called before, and nothing is started
// then until Run is.
func (k *Keeper) Run(ctx context.Context) (supervisor.Report, error) {
	lock, err := k.lock()
	if err != nil {
		return supervisor.Report{}, err
	}
	defer lock.Close()
	if err := k.sweep(); err != nil {
		return supervisor.Report{}, err
	}
	k.confine()
	defer k.release()
	defer context.AfterFunc(ctx, func() { k.ending.Store(true) })()
	settled := k.paying(ctx)
	r, err := k.sup.Run(ctx)
	k.ending.Store(true)
	settled()
	if err != nil {
		return r, err
	}
	r = k.left(r)
	k.close(r)
	return r, nil
}

// paying has the journal paid what it is owed, until settled is called, which does it for
// the last time.
func (k *Keeper) paying(ctx context.Context) (settled func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	over := make(chan struct{})
	go func() {
		defer close(over)
		k.owing.run(ctx)
	}()
	return func() {
		stop()
		lost, err := k.owing.settle(context.WithoutCancel(ctx), over)
		if lost > 0 {
			k.config.Log.Error("the history lacks the end of this life", "entries", lost, "error", err)
		}
	}
}

// left keeps of a report what still has a process: a forced stop does not wait until
// the supervisor has seen that the others have ended.
func (k *Keeper) left(r supervisor.Report) supervisor.Report {
	var still []supervisor.Left
	for _, l := range r.Left {
		w := k.ward(l.ID)
		if w == nil {
			still = append(still, l)
			continue
		}
		if o := w.look(); o.Up {
			l.Why = fmt.Sprintf("pid %d has not ended", o.PID)
		} else if !o.Begun {
			continue
		}
		still = append(still, l)
	}
	return supervisor.Report{Left: still}
}

// lock takes the folder, whose processes are about to be killed.
func (k *Keeper) lock() (*flock.Flock, error) {
	lock := flock.New(filepath.Join(k.config.State, "lock"), flock.SetPermissions(0o600))
	ok, err := lock.TryLock()
	if err == nil && ok {
		return lock, nil
	}
	_ = lock.Close()
	return nil, &pawl.Error{Kind: pawl.Conflict, Message: "another supervisor has the folder " + k.config.State, Hint: "stop it, or choose another folder", Err: err}
}

// sweep kills what has the marks of this keeper.
func (k *Keeper) sweep() error {
	ctx, cancel := context.WithTimeout(k.killed, sweepTimeout)
	defer cancel()
	n, err := process.Sweep(ctx, k.mark(""))
	more, e := k.sweepCgroups(ctx)
	n, err = n+more, errors.Join(err, e)
	if n > 0 {
		k.config.Log.Warn("processes of an earlier supervisor were killed", "processes", n)
	}
	if err != nil {
		return &pawl.Error{Kind: pawl.Conflict, Message: "processes of an earlier supervisor still run", Hint: "end them, then start again", Err: err}
	}
	return nil
}

// close waits for what still watches programs that have ended, and closes the logs.
func (k *Keeper) close(r supervisor.Report) {
	if len(r.Left) == 0 {
		ended := make(chan struct{})
		go func() {
			k.running.Wait()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(killTimeout): // a probe hangs where it is started, on a disk that does
		}
	}
	for _, w := range k.all() {
		w.mu.Lock()
		w.closeLog()
		w.mu.Unlock()
	}
}

// Force ends the patience of a stop, under way or to come: what still runs is
// killed, and Run returns though something does not end. Calling it twice is fine.
func (k *Keeper) Force() {
	if k.killing() {
		return
	}
	k.kill()
	time.AfterFunc(killTimeout, k.sup.Force)
}

// failure says in Pawl's terms why the supervisor refuses.
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
