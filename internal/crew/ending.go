package crew

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/lifecycle"
)

// end ends what the program of an assignment has left running, after its runner is gone.
func (c *Crew) end(ctx context.Context, m *Member) error {
	if _, err := process.Sweep(ctx, c.mark(runMark, m)); err != nil {
		return err
	}
	run, err := c.RunOf(m.ID, m.Epoch)
	if err == nil && (run.Alive || run.Tree) {
		err = pawl.Errorf(pawl.Unavailable, "what the program of member %s has started still runs", m.ID)
	}
	return err
}

// endTime is how long a runner may take to see that an assignment is over, and to end its program and what that
// has started. The engine waits no longer than decide.CancelGrace for a canceled step.
const endTime = lookEvery + stopGrace + 2*time.Second

// Ended waits until nothing of the program of an assignment that is over runs any more. What its runner has not
// ended in time, or has left because it was killed, is killed.
func (c *Crew) Ended(ctx context.Context, m *Member) error {
	for until := time.Now().Add(endTime); time.Now().Before(until); {
		switch run, err := c.RunOf(m.ID, m.Epoch); {
		case err != nil:
			return err
		case !run.Alive && run.Tree: // nobody else ends it
			return c.end(ctx, m)
		case !run.Alive:
			return nil
		}
		if !sleep.For(ctx, endedEvery) {
			return ctx.Err()
		}
	}
	return c.end(ctx, m)
}

const endedEvery = 20 * time.Millisecond

// Discard removes the worktrees and branches of the assignments of a member that are over, the last one
// included if it has failed. All that they have is kept under refs, which it returns.
func (c *Crew) Discard(ctx context.Context, id string) (kept []string, err error) {
	m, err := c.Settle(ctx, id)
	if err != nil {
		return nil, err
	}
	if m.Task != "" && resting(m) {
		if err := c.end(ctx, m); err != nil {
			return nil, err
		}
	}
	left, err := c.leftovers(ctx)
	if err != nil {
		return nil, err
	}
	if m.State == lifecycle.MemberFailed {
		a, err := c.Assignment(m)
		if err != nil {
			return nil, err
		}
		left = append(left, leftover{member: id, a: a})
	}
	for _, l := range left {
		if l.member != id || l.a == nil {
			continue
		}
		refs, err := c.Repo.throwAway(ctx, l.a.Worktree, l.a.Branch)
		if kept = append(kept, refs...); err != nil {
			return kept, err
		}
	}
	return kept, nil
}
