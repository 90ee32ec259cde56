package crew

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/lifecycle"
)

// A ReturnedError says that work has not landed, and why.
type ReturnedError struct{ Landing }

func (e *ReturnedError) Error() string {
	return fmt.Sprintf("the work of member %s has not landed on %s: %s", e.Member, e.Target, e.Reason)
}

// Until lands what waits on the target of an entry until that entry has landed or was returned, also
// if another process lands it. It calls each for every other entry that it lands or returns.
func (m *Merger) Until(ctx context.Context, e *Entry, each func(*Landing)) (*Landing, error) {
	for {
		list, err := m.Queue(e.Target)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(list, func(o Entry) bool { return o.Member == e.Member && o.Epoch == e.Epoch }) {
			return m.became(ctx, e)
		}
		l, err := m.Next(ctx, e.Target)
		switch {
		case err != nil:
			return nil, err
		case l != nil && l.Member == e.Member && l.Epoch == e.Epoch:
			return l, nil
		case l != nil:
			each(l)
		}
	}
}

// became returns what became of an entry that is no longer in the queue.
func (m *Merger) became(ctx context.Context, e *Entry) (*Landing, error) {
	member, err := m.Settle(ctx, e.Member)
	if err != nil {
		return nil, err
	}
	l := &Landing{Entry: *e, State: Gone, Reason: string(member.LastError)}
	switch {
	case member.Epoch != e.Epoch:
		l.Reason = "the member works on something else"
	case member.State == lifecycle.MemberCompleted:
		l.State = Landed
		if c, err := m.tested(member); err != nil {
			return nil, err
		} else if c != nil {
			l.Commit = c.Commit
		}
	case member.State == lifecycle.MemberInReview:
		l.State = HeadMoved
	case backEvents[string(member.Attention)].event == lifecycle.MemberMergeConflict:
		l.State = string(member.Attention)
	}
	return l, nil
}

// NewMerger returns a merger for whoever lands work.
func NewMerger(c *Crew, by Caller) *Merger {
	by.Reason, by.Epoch = "", 0 // each landing has its own
	return &Merger{Crew: c, By: by}
}

// LandedAs returns the commit as which the work of an assignment has landed on its target, or nothing.
func (c *Crew) LandedAs(ctx context.Context, m *Member) (string, error) {
	tested, err := NewMerger(c, Caller{}).tested(m)
	if err != nil || tested == nil {
		return "", err
	}
	landed, err := c.Repo.Landed(ctx, tested)
	if err != nil || !landed {
		return "", err
	}
	return tested.Commit, nil
}
