package access

import (
	"context"

	"github.com/pawl-dev/pawl"
)

// Visible returns the filter of events, restricted to what the principal sees.
func (e *Engine) Visible(ctx context.Context, q pawl.EventFilter) (pawl.EventFilter, error) {
	for _, job := range q.Jobs() {
		id, err := pawl.ParseID(pawl.JobPrefix, job)
		if err == nil {
			err = e.job(ctx, id)
		}
		if err != nil {
			return q, err
		}
	}
	if _, err := within(ctx, q.Workspace); err != nil {
		return q, err
	}
	if _, hidden := visible(ctx, q.Machines); len(hidden) > 0 {
		return q, ofAdmins(hidden[0])
	}
	seen, _ := visible(ctx, nil)
	return q.Within(Of(ctx).Workspaces).Seeing(seen), nil
}

func (e *Engine) Events(ctx context.Context, q pawl.EventFilter, f func(*pawl.Event) error) error {
	q, err := e.Visible(ctx, q)
	if err != nil {
		return err
	}
	return e.of.Events(ctx, q, f)
}
