package programs

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/supervisor"
)

// A program is the supervisor.Worker of one service: its desired state, and what is
// known of its process. Every event of the process is recorded here and wakes the
// service, so that an observation only reads memory.
type program struct {
	id      string
	manager *Manager
	handle  *supervisor.Handle[desired, observed, desired]

	changing sync.Mutex // serializes setDesired; locked before mu

	mu        sync.Mutex
	logFile   *process.LogFile
	logConfig process.LogConfig // of logFile
	desired   desired
	run       *run // the last attempt, or nil
	attempts  int
	starts    int         // attempts that started a process
	failures  int         // exits in a row without an order
	restarts  []time.Time // automatic restarts within the restart window
}

// CollectObservedState implements supervisor.Worker.
func (prog *program) CollectObservedState(context.Context, desired) (observed, error) {
	return prog.observe(), nil
}

// DeriveDesiredState implements supervisor.Worker.
func (prog *program) DeriveDesiredState(s desired) (desired, error) { return s, nil }

// GetInitialState implements supervisor.Worker.
func (prog *program) GetInitialState() supervisor.State[observed, desired] {
	return state{program: prog, name: stopped}
}

// States implements supervisor.Worker.
func (prog *program) States() []supervisor.State[observed, desired] {
	var all []supervisor.State[observed, desired]
	for name := range phases {
		all = append(all, state{program: prog, name: name})
	}
	return all
}

// observeLocked is observe for a caller that holds mu.
func (prog *program) observeLocked() observed {
	o := observed{Attempts: prog.attempts, Failures: prog.failures, Restarts: slices.Clone(prog.restarts)}
	if r := prog.run; r != nil {
		o.Up = r.proc != nil && !r.late && r.exit == nil
		o.Launching = r.exit == nil && !o.Up
		o.Generation, o.Started, o.Exit = r.generation, r.startedAt, r.exit
		if o.Up {
			o.PID = r.proc.PID()
		}
		o.Ready, o.WasReady, o.Unhealthy = r.isReady && o.Up, r.wasReady, r.unhealthy
		o.Unready = r.ready.problem()
	}
	return o
}

// observe returns what is known of the program now.
func (prog *program) observe() observed {
	prog.mu.Lock()
	defer prog.mu.Unlock()
	return prog.observeLocked()
}

func (prog *program) currentDesired() desired {
	prog.mu.Lock()
	defer prog.mu.Unlock()
	return prog.desired
}

// removing reports whether the program is being removed.
func (prog *program) removing() bool { return prog.currentDesired().Removing }

// setDesired applies change to the desired state, as a new generation. Calls are
// serialized. It fails once the supervisor has stopped.
func (prog *program) setDesired(change func(*desired)) error {
	prog.changing.Lock()
	defer prog.changing.Unlock()
	prog.mu.Lock()
	next := prog.desired
	next.Generation++
	change(&next)
	prog.desired = next
	prog.mu.Unlock()
	err := prog.handle.SetSpec(next)
	prog.manager.notifyChanged(prog.id)
	return failure(err)
}
