package programs

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/supervisor"
)

// A ward is a program in the keeper's care: the Worker of its service, and what is
// known of the program itself. What happens to the program is noted here and the
// service woken, so that the collection has only to read it.
type ward struct {
	id     string
	keeper *Keeper
	handle *supervisor.Handle[wish, sight, wish]

	wanting sync.Mutex // one change of the wish at a time; taken before mu

	mu       sync.Mutex
	file     *process.LogFile
	kept     process.LogConfig // of file
	wish     wish
	run      *run // the last attempt, or nil
	attempts int
	starts   int         // attempts that came to something
	failures int         // ends in a row that nobody ordered
	restarts []time.Time // attempts without an order, of the last window
}

// CollectObservedState implements supervisor.Worker.
func (w *ward) CollectObservedState(context.Context, wish) (sight, error) {
	return w.look(), nil
}

// DeriveDesiredState implements supervisor.Worker.
func (w *ward) DeriveDesiredState(s wish) (wish, error) { return s, nil }

// GetInitialState implements supervisor.Worker.
func (w *ward) GetInitialState() supervisor.State[sight, wish] { return state{ward: w, name: stopped} }

// States implements supervisor.Worker.
func (w *ward) States() []supervisor.State[sight, wish] {
	var all []supervisor.State[sight, wish]
	for name := range phases {
		all = append(all, state{ward: w, name: name})
	}
	return all
}

// sight is called with mu held.
func (w *ward) sight() sight {
	o := sight{Attempts: w.attempts, Failures: w.failures, Restarts: slices.Clone(w.restarts)}
	if r := w.run; r != nil {
		o.Up = r.proc != nil && !r.late && r.exit == nil
		o.Begun = r.exit == nil && !o.Up
		o.Order, o.Started, o.Exit = r.order, r.startedAt, r.exit
		if o.Up {
			o.PID = r.proc.PID()
		}
		o.Ready, o.WasReady, o.Sick = r.isReady && o.Up, r.wasReady, r.sick
		o.Unready = r.ready.trouble()
	}
	return o
}

func (w *ward) look() sight {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sight()
}

func (w *ward) wanted() wish {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wish
}

// leaves reports whether it is being removed.
func (w *ward) leaves() bool { return w.wanted().Retired }

// want changes what is wanted of the program, by another order. Two do not change it
// at once. It is refused when the supervisor has stopped.
func (w *ward) want(change func(*wish)) error {
	w.wanting.Lock()
	defer w.wanting.Unlock()
	w.mu.Lock()
	next := w.wish
	next.Order++
	change(&next)
	w.wish = next
	w.mu.Unlock()
	err := w.handle.SetSpec(next)
	w.keeper.tell(w.id)
	return failure(err)
}
