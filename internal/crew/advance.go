package crew

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// An Advance does for a member what comes next and needs no person.
type Advance struct {
	*Crew
	Start func(ctx context.Context, id string) error // starts the program of a member; nil: nobody does
	Land  bool                                       // what is approved, also where a person has to approve
	By    Caller
}

// Member does the next step for a member, and reports whether there was one: its program is started if it
// waits for it; what it has submitted is tested, and approved or sent back if the target's configuration
// leaves that to the gates; what is approved lands.
func (v *Advance) Member(ctx context.Context, id string) (did bool, err error) {
	m, err := v.Settle(ctx, id)
	if err != nil {
		return false, err
	}
	switch m.State {
	case lifecycle.MemberStale:
		one, err := v.reassignIf(ctx, m, true)
		return one != nil && one.Done, err
	case lifecycle.MemberAssigned, lifecycle.MemberWorking:
		if one, err := v.judgeOne(ctx, m.ID); one != nil || err != nil {
			return one != nil && one.Done, err
		}
		why, err := v.waits(m)
		if err != nil || why == "" || v.Start == nil {
			return false, err
		}
		return true, v.Start(ctx, id)
	case lifecycle.MemberInReview:
		return v.review(ctx, m)
	case lifecycle.MemberApproved:
		land, err := v.lands(ctx, m)
		if err != nil || !land {
			return false, err
		}
		return true, v.land(ctx, m)
	}
	return false, nil
}

// lands reports whether approved work lands without anybody.
func (v *Advance) lands(ctx context.Context, m *Member) (bool, error) {
	if v.Land {
		return true, nil
	}
	a, err := v.Assignment(m)
	if err != nil {
		return false, err
	}
	_, config, err := v.Repo.target(ctx, a.Target)
	return err == nil && config.Approval == ByGates, err
}

// review tests what a member has submitted, and decides about it where that is left to the gates.
func (v *Advance) review(ctx context.Context, m *Member) (did bool, err error) {
	t, err := v.trialOf(ctx, m)
	if err != nil {
		return false, err
	}
	_, config, err := v.Repo.target(ctx, t.a.Target)
	if err != nil {
		return false, err
	}
	checks, did, err := v.tried(ctx, t)
	if err != nil {
		return false, err
	}
	if config.Approval != ByGates {
		return did, nil
	}
	by := v.By
	by.Version, by.Reason = m.Version, "the gates have passed"
	refused := checks.Refusal().err()
	if refused == nil {
		_, refused = v.Approve(ctx, m.ID, t.commit, by)
	}
	var gate *GateError
	switch {
	case refused == nil:
		return true, nil
	case errors.As(refused, &gate):
		by.Reason = refused.Error()
		return true, v.refuse(ctx, m, by)
	case errors.Is(refused, ErrBehind), errors.Is(refused, errHeadMoved):
		by.Reason = refused.Error()
		_, err := v.sendBack(ctx, m.ID, "", reviewBehind, by)
		return true, err
	}
	return did, refused
}

// brokenPause is how long after a gate could not be run it is tried again.
const brokenPause = time.Minute

// tried returns the results of the gates, and whether they have run for it: those that have refused the same
// tree count, too, and so do, for a while, those that could not be run.
func (c *Crew) tried(ctx context.Context, t *trial) (checks *Checks, ran bool, err error) {
	before, err := c.Checked(t.member)
	if err != nil {
		return nil, false, err
	}
	tree, err := c.Repo.tree(ctx, t.commit)
	if err != nil {
		return nil, false, err
	}
	if before != nil && before.Tree == tree && before.Config == digest(t.gates) {
		broken := slices.ContainsFunc(before.List, func(one Check) bool { return one.State == CheckError })
		if info, err := os.Stat(c.checksFile(t.member)); !broken || err == nil && time.Since(info.ModTime()) < brokenPause {
			return before, false, nil
		}
	}
	checks, err = c.try(ctx, t)
	return checks, len(t.gates) > 0, err
}

// refuse requests changes, or gives the task up in the last round.
func (v *Advance) refuse(ctx context.Context, m *Member, by Caller) error {
	r, err := v.Review(m)
	if err != nil {
		return err
	}
	if r.Round < maxRounds {
		_, err = v.RequestChanges(ctx, m.ID, "", by)
		return err
	}
	by.Reason = "the last round of its review: " + by.Reason
	_, err = v.Cancel(ctx, m.ID, by)
	return err
}

// land lands the work of a member, and what waits before it.
func (v *Advance) land(ctx context.Context, m *Member) error {
	e, err := v.Enqueue(ctx, m.ID, 0, v.By)
	if err != nil {
		return err
	}
	_, err = NewMerger(v.Crew, v.By).Next(ctx, e.Target)
	return errorOf(err, m.ID)
}

// errorOf returns the error of a member's entry, or nil: those of others are theirs.
func errorOf(err error, id string) error {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return err
	}
	for _, one := range many.Unwrap() {
		var of *EntryError
		if errors.As(one, &of) && of.Member == id {
			return of.Err
		}
	}
	return nil
}

// Everyone does the next step for every member. What fails for one is returned, and hinders no other.
func (v *Advance) Everyone(ctx context.Context) (failed map[string]error, err error) {
	ids, err := v.Members()
	if err != nil {
		return nil, err
	}
	failed = map[string]error{}
	for _, id := range ids {
		if _, err := v.Member(ctx, id); ctx.Err() != nil {
			return failed, ctx.Err()
		} else if err != nil {
			failed[id] = err
		}
	}
	return failed, nil
}

// Ended reports whether a member's work on an assignment is over, and returns an error that says why it has
// not landed.
func (m *Member) Ended(epoch int64) (bool, error) {
	switch {
	case m.State == lifecycle.MemberCompleted && m.Epoch >= epoch:
		return true, nil
	case m.State == lifecycle.MemberFailed:
		return true, pawl.Errorf(pawl.Conflict, "the work of member %s has failed: %s", m.ID, m.LastError)
	case m.State == lifecycle.MemberIdle:
		return true, pawl.Errorf(pawl.Conflict, "member %s was reset", m.ID)
	}
	return false, nil
}
