package crew

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/process"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Begin makes the worktree of an assignment, prepares it as the target's configuration says, and makes
// the member work. If it cannot be prepared, the member has failed. Repeated after a crash, it goes on with
// the worktree that is there.
func (c *Crew) Begin(ctx context.Context, id string, by Caller) (*Member, error) {
	m, err := c.Settle(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := by.allow(m); err != nil {
		return nil, err
	}
	by.Epoch = m.Epoch
	start := func() (*Member, error) {
		return c.act(ctx, id, by, func(*Member) (*Move, error) {
			move := by.move(nil)
			move.Event = lifecycle.MemberStart
			return move, nil
		})
	}
	if m.State != lifecycle.MemberAssigned {
		return start() // which refuses it
	}
	a, err := c.Assignment(m)
	if err != nil {
		return nil, err
	}
	if err := c.ready(ctx, m, a); err != nil {
		return nil, err
	}
	if err := c.Repo.AddWorktree(ctx, a.Worktree, a.Branch, a.Base); err != nil {
		return nil, err
	}
	var failed *commandError
	switch err := c.setup(ctx, m, a); {
	case errors.As(err, &failed) && !failed.broken:
		return c.setupFailed(ctx, m, failed, by)
	case pawl.KindOf(err) == pawl.Invalid: // the configuration
		return nil, err
	case err != nil:
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "the worktree of member " + id + " could not be prepared", Err: err}
	}
	return start()
}

// The files of a setup, in the folder of its assignment.
const (
	setupLock = "setup.lock"
	setupLog  = "setup.log"
	setupFile = "setup.json" // it was done
)

// setup prepares a worktree by the command of the target's configuration, once.
func (c *Crew) setup(ctx context.Context, m *Member, a *Assignment) error {
	_, config, err := c.Repo.target(ctx, a.Target)
	if err != nil || config.Setup == nil {
		return err
	}
	dir := c.runDir(m.ID, m.Epoch)
	lock, err := durable.Acquire(ctx, filepath.Join(dir, setupLock))
	if err != nil {
		return err
	}
	defer lock.Release()
	if _, err := os.Lstat(filepath.Join(dir, setupFile)); err == nil {
		return nil
	}
	mark := c.mark("PAWL_SETUP", m)
	if _, err := process.Sweep(ctx, mark); err != nil { // what is left of one whose process was killed
		return err
	}
	if err := c.command(ctx, *config.Setup, a.Worktree, filepath.Join(dir, setupLog), c.environment(m, a), mark); err != nil {
		return err
	}
	return c.Disk.Publish(filepath.Join(dir, setupFile), []byte("{}\n"))
}

// setupFailed records that a worktree cannot be prepared: another attempt would not help.
func (c *Crew) setupFailed(ctx context.Context, m *Member, failed *commandError, by Caller) (*Member, error) {
	return c.act(ctx, m.ID, by, func(*Member) (*Move, error) {
		move := by.move(func(m *Member) { m.LastError = text("setup: " + failed.Error()) })
		move.Event, move.Reason = lifecycle.MemberSetupFailed, "setup: "+failed.Error()
		return move, nil
	})
}
