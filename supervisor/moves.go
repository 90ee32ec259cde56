package supervisor

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// way returns the event of the table that leads from one state of it to another.
func way(from, to machine.State) (machine.Event, bool) {
	if from == to {
		return lifecycle.ServiceShift, true
	}
	for event, phase := range lifecycle.Service.Table[from] {
		if phase == to {
			return event, true
		}
	}
	return "", false
}

// ways returns the states of the table that a service may go to from one of them.
func ways(from machine.State) string {
	var to []string
	for _, phase := range lifecycle.Service.States {
		if _, ok := way(from, phase); ok && phase != from && !lifecycle.Service.Ended(phase) {
			to = append(to, string(phase))
		}
	}
	return strings.Join(to, ", ")
}

// checkMoves asks each state of a new service what it decides at a shutdown, before
// anything was observed and after nothing was found, and returns what is wrong with where
// it goes. Such a move would be refused when the service is to stop, which is late. A state
// that panics is let be: it may count on what it observes. One that ends its goroutine, as
// testing.T.Fatal does, ends the check and not the caller of Add.
func (t typed[S, O, D]) checkMoves(id Identity, names map[string]bool, desired any) (err error) {
	checked := make(chan struct{})
	go func() {
		defer close(checked)
		if p := guard(func() { err = t.wrongMove(id, names, desired) }); p != nil {
			err = p
		}
	}()
	<-checked
	return err
}

func (t typed[S, O, D]) wrongMove(id Identity, names map[string]bool, desired any) error {
	now := time.Now()
	for _, s := range t.worker.States() {
		from := erase(s)
		for _, seen := range []Observation{{}, {Sequence: 1, Started: now, Ended: now, Fresh: true}} {
			f := Facts{Identity: id, Now: now, State: from.name, Phase: from.phase, Since: now, Generation: 1, Seen: seen, Shutdown: true}
			to := from
			if guard(func() {
				if d := s.Next(t.snapshot(f, nil, desired)); d.State != nil {
					to = erase(d.State)
				}
			}) != nil {
				continue
			}
			if !names[to.name] {
				return fmt.Errorf("%w: state %s goes to %s at a shutdown: want one of States", ErrInvalid, from.name, to.name)
			}
			if _, ok := way(from.phase, to.phase); !ok {
				return fmt.Errorf("%w: state %s goes to %s at a shutdown, and the table has no way from %s to %s: want a state that stands for one of %s",
					ErrInvalid, from.name, to.name, from.phase, to.phase, ways(from.phase))
			}
		}
	}
	return nil
}
