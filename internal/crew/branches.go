package crew

import (
	"context"

	"github.com/pawl-dev/pawl"
)

// HasBranch reports whether a branch exists. The name is that of a branch, and no other one for its commit.
func (r *Repo) HasBranch(ctx context.Context, name string) (bool, error) {
	_, err := r.git(ctx, "show-ref", "--verify", "--quiet", "refs/heads/"+name)
	if exit(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// QueueOf returns what waits to land on a target, in order. Without a target it is the one of CurrentBranch.
// An error of kind NotFound says that there is neither the branch nor something that waits for it.
func (c *Crew) QueueOf(ctx context.Context, target string) (branch string, list []Entry, err error) {
	if target == "" {
		if branch, err = c.Repo.CurrentBranch(ctx); err != nil {
			return "", nil, err
		}
		list, err = c.Queue(branch)
		return branch, list, err
	}
	if list, err = c.Queue(target); err != nil || len(list) > 0 {
		return target, list, err
	}
	there, err := c.Repo.HasBranch(ctx, target)
	if err == nil && !there {
		err = pawl.Errorf(pawl.NotFound, "there is no branch %s in %s", target, c.Repo.Root)
	}
	return target, nil, err
}
