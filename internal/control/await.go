package control

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/internal/sleep"
)

// An Errand is an order that a host has accepted.
type Errand struct {
	*Found          // as it was before the order
	Last    Service // as it was seen last
	shown   string  // the state that was reported last
	Err     error   // why it cannot be seen any more
	Failure string  // why it does not become what was ordered
}

// lookAgain is the pause between two looks at a service.
const lookAgain = 100 * time.Millisecond

// Await waits until each errand is done, and returns those that are not when ctx ends. It
// calls progress for each state on the way, and done for each errand that has ended: well
// if it has neither Err nor Failure.
func Await(ctx context.Context, verb Verb, errands []*Errand, progress, done func(*Errand)) (left []*Errand) {
	for {
		left = nil
		for _, e := range errands {
			if !e.look(ctx, verb, progress) || e.Err != nil && ctx.Err() != nil {
				left = append(left, e)
				continue
			}
			done(e)
		}
		if errands = left; len(left) == 0 || !sleep.For(ctx, lookAgain) {
			return left
		}
	}
}

// look reports whether there is nothing more to wait for.
func (e *Errand) look(ctx context.Context, verb Verb, progress func(*Errand)) (done bool) {
	now, err := e.Client.Service(ctx, e.ID)
	if e.Err = err; err != nil {
		return true
	}
	e.Last = now
	done, e.Failure = Judge(verb, &e.Service, &now)
	if !done && now.State != e.shown && (!now.Since.Equal(e.Since) || OnTheWay(&now)) {
		e.shown = now.State
		progress(e)
	}
	return done
}
