package supervisor

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// eventFor returns the event of the table that leads from one state of it to another.
func eventFor(from, to machine.State) (machine.Event, bool) {
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

// reachable returns the states of the table that one transition leads to.
func reachable(from machine.State) string {
	var to []string
	for _, phase := range lifecycle.Service.States {
		if _, ok := eventFor(from, phase); ok && phase != from && !lifecycle.Service.Ended(phase) {
			to = append(to, string(phase))
		}
	}
	return strings.Join(to, ", ")
}

// checkMoves asks each state of a new worker what it decides at a shutdown, before an
// observation and after an empty one, and returns an error if that is not legal: it would
// be refused only when the service is stopped, which is too late. A state that panics is
// skipped, since it may rely on what it observes. One that calls runtime.Goexit, as
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
			if _, ok := eventFor(from.phase, to.phase); !ok {
				return fmt.Errorf("%w: state %s goes to %s at a shutdown, and the table has no transition from %s to %s: want a state that stands for one of %s",
					ErrInvalid, from.name, to.name, from.phase, to.phase, reachable(from.phase))
			}
		}
	}
	return nil
}
