package client

import (
	"context"
	"errors"
	"iter"

	"github.com/pawl-dev/pawl"
)

// An EventFilter selects events. An empty Workspace is the client's, unless AllWorkspaces is set.
type EventFilter = pawl.EventFilter

// Events returns the moves of jobs, steps, workers, schedules, pauses of queues and, for admins,
// webhooks and tokens that are committed from now on, or after the place of the filter, and notices between them: first an
// EventHello if it begins now, and an EventGap where events are missing. The loop runs until it
// breaks, or until ctx ends or the database fails, which is its last error.
//
//	for e, err := range c.Events(ctx, client.EventFilter{}) {
//		if err != nil {
//			return err
//		}
//		if e.Type == pawl.EventGap {
//			// Read again what matters.
//		}
//	}
//
// Over HTTP a cut connection is made again, and the events go on behind the last Token: some
// may arrive twice.
func (c *Client) Events(ctx context.Context, f EventFilter) iter.Seq2[pawl.Event, error] {
	return func(yield func(pawl.Event, error) bool) {
		if !f.AllWorkspaces {
			f.Workspace = c.Jobs.workspace(f.Workspace)
		}
		err := c.engine.Events(ctx, f, func(e *pawl.Event) error {
			if !yield(*e, nil) {
				return errBroken
			}
			return nil
		})
		if !errors.Is(err, errBroken) {
			yield(pawl.Event{}, err)
		}
	}
}

// errBroken ends the events of a loop that was broken off.
var errBroken = errors.New("the loop ends")
