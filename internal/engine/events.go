package engine

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/feed"
)

// Feed returns the hub of the events of the database. It ends with the engine.
func (e *Engine) Feed() *feed.Hub { return e.feed }

// Events calls f with the events that the filter selects, those of tokens and webhooks among them
// unless its user may not see them, and with each notice, until ctx ends
// or f fails, and returns that error.
func (e *Engine) Events(ctx context.Context, q pawl.EventFilter, f func(*pawl.Event) error) error {
	if err := q.Check(); err != nil {
		return err
	}
	if q.Job != "" { // it has to exist
		id, err := pawl.ParseID(pawl.JobPrefix, q.Job)
		if err == nil {
			_, err = e.JobVersion(ctx, id)
		}
		if err != nil {
			return err
		}
		q.Job = id.Public(pawl.JobPrefix)
	}
	if !q.Bounded() {
		q = q.Seeing(pawl.AuditMachines)
	}
	s, err := e.feed.Open(ctx, q.After)
	if err != nil {
		return err
	}
	defer s.Close()
	for {
		b, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if b.Notice != "" {
			if err := f(&pawl.Event{Type: b.Notice, Gap: b.Gap, Token: b.Token}); err != nil {
				return err
			}
		}
		list := b.Select(&q)
		for i := range list {
			event := list[i].Event
			if i == len(list)-1 {
				event.Token = b.Token
			}
			if err := f(&event); err != nil {
				return err
			}
		}
	}
}
