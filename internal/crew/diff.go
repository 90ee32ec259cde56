package crew

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Diff is what the work of a member changes, compared with where it left its target.
type Diff struct {
	ID     string   `json:"worker_id"`
	Branch string   `json:"branch"`
	Target string   `json:"target"`
	Base   string   `json:"base"`
	Head   string   `json:"head"`
	Behind bool     `json:"behind"` // the target has commits that the branch does not have
	Dirty  []string `json:"dirty"`  // what is not committed, and not in the patch
	Stat   string   `json:"stat"`
	Patch  string   `json:"patch,omitempty"`
}

// Diff returns what the work of a member changes. Once its branch is gone, it is what was submitted.
func (c *Crew) Diff(ctx context.Context, id string) (*Diff, error) {
	s, err := c.Status(id)
	if err != nil {
		return nil, err
	}
	a := s.Assignment
	if a == nil {
		return nil, pawl.Errorf(pawl.Conflict, "member %s has no task: it is %s", id, s.Member.State)
	}
	d := &Diff{ID: id, Branch: a.Branch, Target: a.Target, Dirty: []string{}}
	if d.Head, err = c.headOf(ctx, a, s.Review); err != nil {
		return nil, err
	}
	if d.Base, err = c.Repo.git(ctx, "merge-base", "refs/heads/"+a.Target, d.Head); err != nil {
		return nil, err
	}
	if d.Base == d.Head { // the target has it
		d.Base = a.Base
	}
	in, err := c.Repo.contains(ctx, d.Head, "refs/heads/"+a.Target)
	if err != nil {
		return nil, err
	}
	d.Behind = !in
	if tree, err := c.Repo.Inspect(ctx, a.Worktree, a.Base); err == nil && len(tree.Dirty) > 0 {
		d.Dirty = tree.Dirty
	}
	if d.Stat, err = c.Repo.git(ctx, "diff", "--no-color", "--no-ext-diff", "--stat", d.Base, d.Head); err != nil {
		return nil, err
	}
	d.Patch, err = c.Repo.git(ctx, "diff", "--no-color", "--no-ext-diff", d.Base, d.Head)
	d.Stat = strings.TrimSuffix(d.Stat, "\n")
	return d, err
}

// headOf returns the newest commit of an assignment that is known.
func (c *Crew) headOf(ctx context.Context, a *Assignment, r *Review) (string, error) {
	there, head, err := c.Repo.branch(ctx, a.Branch)
	switch {
	case err != nil || there:
		return head, err
	case r != nil:
		return r.Head, nil
	}
	return a.Base, nil
}

// A Reviewed is a review with what it is about.
type Reviewed struct {
	ID        string        `json:"worker_id"`
	State     machine.State `json:"state"`
	Decision  string        `json:"review_state"` // pending, approved or changes_requested
	Review    *Review       `json:"review"`
	MaxRounds int           `json:"max_rounds"`
	Checks    *Checks       `json:"gates"` // their last results; nil if they have not run
	Diff      *Diff         `json:"diff"`  // without its patch
}

// Pending reports whether somebody has to decide.
func (r *Reviewed) Pending() bool {
	return r.State == lifecycle.MemberInReview || r.State == lifecycle.MemberStale && r.Decision == reviewPending
}

// Reviewed returns the review of a member's work.
func (c *Crew) Reviewed(ctx context.Context, id string) (*Reviewed, error) {
	s, err := c.Status(id)
	if err != nil {
		return nil, err
	}
	if s.Review == nil {
		return nil, pawl.Errorf(pawl.Conflict, "member %s has submitted nothing: it is %s", id, s.Member.State)
	}
	d, err := c.Diff(ctx, id)
	if err != nil {
		return nil, err
	}
	d.Patch = ""
	checks, err := c.Checked(s.Member)
	if err != nil {
		return nil, err
	}
	return &Reviewed{Checks: checks, ID: id, State: s.Member.State, Decision: string(s.Member.Review), Review: s.Review, MaxRounds: maxRounds, Diff: d}, nil
}

// Err returns a *GateError if a gate refuses the tree, and an error of kind Unavailable if one could not
// be run.
func (c *Checks) Err() error {
	if c == nil {
		return nil
	}
	return c.Refusal().err()
}
