package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// The states of a review, in the file of a member.
const (
	reviewPending  = "pending"
	reviewApproved = "approved"
	reviewChanges  = "changes_requested"
)

// maxRounds is how many rounds a review has (C12): the work is submitted so often at most.
const maxRounds = 3

// A Review is what is reviewed, and what became of it. It is of one assignment.
type Review struct {
	Epoch int64  `json:"epoch"`
	Round int    `json:"round"` // 1 for the first submission
	Head  string `json:"head"`  // the commit that was submitted
	Base  string `json:"base"`
	State string `json:"state,omitempty"` // what was decided: approved or changes_requested; rebase: sent back since it was behind
	By    string `json:"by,omitempty"`    // who has decided
	Text  string `json:"text,omitempty"`  // what they have said
	Patch string `json:"patch,omitempty"` // checksum of what was approved, from the target
}

func (c *Crew) review(id string) string { return filepath.Join(c.Dir, reviewsDir, id+".json") }

// Review returns the review of a member's assignment, or nil if nothing was submitted.
func (c *Crew) Review(m *Member) (*Review, error) {
	text, err := readFile(c.review(m.ID), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(Review)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, &pawl.Error{Kind: pawl.Internal, Message: "the review of member " + m.ID + " is not JSON", Err: err}
	}
	if r.Epoch != m.Epoch {
		return nil, nil
	}
	return r, nil
}

func missingReview(m *Member) error {
	return pawl.Errorf(pawl.Internal, "member %s is %s, and its review is missing", m.ID, m.State)
}

// writeReview writes the review of a submission, before the member is in review.
func (c *Crew) writeReview(m *Member, r *Review) error {
	before, err := c.Review(m)
	if err != nil {
		return err
	}
	if r.Epoch, r.Round = m.Epoch, 1; before != nil {
		r.Round = before.Round
		if before.State == reviewChanges {
			r.Round++
		}
	}
	return c.publishReview(m.ID, r)
}

func (c *Crew) publishReview(id string, r *Review) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return c.Disk.Publish(c.review(id), append(text, '\n'))
}

// keep keeps a commit of an assignment under a ref of Pawl.
func (r *Repo) keep(ctx context.Context, a *Assignment, commit string) error {
	_, err := r.git(ctx, "update-ref", "-m", "pawl: submitted", refs+"submitted/"+a.Branch, commit)
	return err
}

// decided returns a review that is to be decided, with its assignment. Nobody reviews their own work
// (C12).
func (c *Crew) decided(ctx context.Context, m *Member, head string, by Caller) (*Review, *Assignment, error) {
	if strings.HasPrefix(by.Actor, memberActor) && by.Actor == memberActor+m.ID {
		return nil, nil, pawl.Errorf(pawl.Refused, "member %s may not review its own work", m.ID)
	}
	r, err := c.Review(m)
	if err != nil {
		return nil, nil, err
	}
	a, err := c.Assignment(m)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case r == nil:
		return nil, nil, missingReview(m)
	case head != "" && !strings.HasPrefix(r.Head, head):
		return nil, nil, pawl.Errorf(pawl.Conflict, "head is %q, and %s was submitted", head, short(r.Head))
	}
	return r, a, nil
}

// errHeadMoved is wrapped by the error of Approve for a branch that has moved since it was submitted.
var errHeadMoved = errors.New("it has moved")

// ErrBehind is wrapped by the error of Approve for a branch that is behind its target.
var ErrBehind = errors.New("it is behind its target")

// Approve approves the head that was submitted; head, if not empty, must be its beginning. A branch
// that is behind its target has to be rebased first (C7).
func (c *Crew) Approve(ctx context.Context, id, head string, by Caller) (*Member, error) {
	by, err := c.resume(ctx, id, by)
	if err != nil {
		return nil, err
	}
	return c.act(ctx, id, by, func(m *Member) (*Move, error) {
		move := by.move(func(m *Member) { m.Review, m.Attention = reviewApproved, "" })
		move.Event = lifecycle.MemberApprove
		if m.State != lifecycle.MemberInReview {
			return move, nil // which refuses it
		}
		r, a, err := c.decided(ctx, m, head, by)
		if err != nil {
			return nil, err
		}
		_, now, err := c.Repo.branch(ctx, a.Branch)
		if err != nil {
			return nil, err
		}
		if now != r.Head {
			return nil, &pawl.Error{Kind: pawl.Conflict, Hint: "request changes, so that it can be submitted again", Err: errHeadMoved,
				Message: fmt.Sprintf("the branch %s is at %s, and %s was submitted", a.Branch, short(now), short(r.Head))}
		}
		target, config, err := c.Repo.target(ctx, a.Target)
		if err != nil {
			return nil, err
		}
		switch in, err := c.Repo.contains(ctx, r.Head, target); {
		case err != nil:
			return nil, err
		case !in:
			return nil, &pawl.Error{Kind: pawl.Conflict, Err: ErrBehind, Message: fmt.Sprintf("the branch %s has to be rebased on %s (%s) and submitted again", a.Branch, a.Target, short(target))}
		}
		if err := c.gated(ctx, &trial{m, a, r.Head, target, config.Gates}); err != nil {
			return nil, err
		}
		if r.Patch, err = c.Repo.patchID(ctx, target, r.Head); err != nil {
			return nil, err
		}
		r.State, r.By, r.Text = reviewApproved, by.Actor, by.Reason
		return move, c.publishReview(m.ID, r)
	})
}

// resume brings a member back to review that has become stale there, so that somebody can decide (C1). It
// returns the caller of the decision.
func (c *Crew) resume(ctx context.Context, id string, by Caller) (Caller, error) {
	m, err := c.Settle(ctx, id)
	if err != nil || m.State != lifecycle.MemberStale || m.Review != reviewPending || by.Actor == memberActor+id {
		return by, err
	}
	m, err = c.act(ctx, id, by, func(*Member) (*Move, error) {
		return &Move{Event: lifecycle.MemberResolved, Actor: by.Actor, Reason: "it is reviewed", Request: by.Request}, nil
	})
	if err == nil && by.Version != 0 {
		by.Version = m.Version
	}
	return by, err
}

// RequestChanges sends a member back to work, also if its branch has moved since it was submitted. In
// the last round it is refused.
func (c *Crew) RequestChanges(ctx context.Context, id, head string, by Caller) (*Member, error) {
	return c.sendBack(ctx, id, head, reviewChanges, by)
}

// reviewBehind is the state of a review whose work was sent back since it was behind its target: that is no
// round.
const reviewBehind = "rebase"

func (c *Crew) sendBack(ctx context.Context, id, head, why string, by Caller) (*Member, error) {
	by, err := c.resume(ctx, id, by)
	if err != nil {
		return nil, err
	}
	return c.act(ctx, id, by, func(m *Member) (*Move, error) {
		move := by.move(func(m *Member) { m.Review, m.Attention = reviewChanges, "" })
		move.Event = lifecycle.MemberRequestChanges
		if m.State != lifecycle.MemberInReview {
			return move, nil // which refuses it
		}
		r, _, err := c.decided(ctx, m, head, by)
		if err != nil {
			return nil, err
		}
		if why == reviewChanges && r.Round >= maxRounds {
			return nil, &pawl.Error{Kind: pawl.Conflict, Message: "changes were requested in this review as often as they can be", Hint: "approve it, or cancel it"}
		}
		r.State, r.By, r.Text = why, by.Actor, by.Reason
		return move, c.publishReview(m.ID, r)
	})
}
