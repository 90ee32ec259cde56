package crew

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Status is all that the files say about a member. What there is none of is nil.
type Status struct {
	ID         string      `json:"worker_id"`
	Member     *Member     `json:"member"` // nil if Problem says why it cannot be read
	Assignment *Assignment `json:"assignment"`
	Beat       *Beat       `json:"heartbeat"`
	Run        *RunStatus  `json:"run"`
	Review     *Review     `json:"review"`
	Queued     *Entry      `json:"queued"`
	Problem    string      `json:"problem,omitempty"`
}

// A RunStatus is a Run that was launched.
type RunStatus struct {
	Launched bool  `json:"-"`
	Version  int64 `json:"version"` // of the member, when it was launched
	Alive    bool  `json:"alive"`
	Tree     bool  `json:"tree_alive"`
	Exit     *Exit `json:"exit"`
}

// Status returns what the files say about a member. It takes no lock, so that it may be one change
// behind.
func (c *Crew) Status(id string) (*Status, error) {
	m, err := c.Load(id)
	if err != nil {
		return nil, err
	}
	s := &Status{ID: id, Member: m}
	if s.Beat, err = c.LastBeat(id); err != nil || m.Task == "" {
		return s, err
	}
	if s.Assignment, err = c.Assignment(m); err != nil {
		return nil, err
	}
	run, err := c.RunOf(id, m.Epoch)
	if err != nil {
		return nil, err
	}
	if run.Launched {
		shown := RunStatus(run)
		s.Run = &shown
	}
	if s.Review, err = c.Review(m); err != nil {
		return nil, err
	}
	s.Queued, err = c.queued(m, s.Assignment.Target)
	return s, err
}

// queued returns the entry of a member's work, or nil if it does not wait to land.
func (c *Crew) queued(m *Member, target string) (*Entry, error) {
	list, err := c.Queue(target)
	if i := slices.IndexFunc(list, func(e Entry) bool { return e.Member == m.ID && e.Epoch == m.Epoch }); i >= 0 {
		return &list[i], nil
	}
	return nil, err
}

// Board returns the status of all members. One that cannot be read hides no other.
func (c *Crew) Board() ([]Status, error) {
	ids, err := c.Members()
	if err != nil {
		return nil, err
	}
	list := []Status{}
	for _, id := range ids {
		s, err := c.Status(id)
		if err != nil {
			s = &Status{ID: id, Problem: err.Error()}
		}
		list = append(list, *s)
	}
	return list, nil
}

// History calls each with the rows of a member's history, the oldest first, until it returns an
// error.
func (c *Crew) History(id string, each func(*audit.Entry) error) error {
	if _, err := c.Load(id); err != nil {
		return err
	}
	var failed error
	_, err := scan(c.history(id), 0, func(at int64, line []byte) bool {
		row, _, err := parseRow(id, line)
		if err != nil {
			failed = &TamperedError{id, fmt.Sprintf("the row at byte %d of its history is damaged: %v", at, err)}
		} else {
			failed = each(row)
		}
		return failed == nil
	})
	if failed != nil {
		return failed
	}
	return err
}

// Leave makes a member idle by an event: MemberReset or MemberRecycle.
func (c *Crew) Leave(ctx context.Context, id string, event machine.Event, by Caller) (*Member, error) {
	m, err := c.Settle(ctx, id)
	if err != nil {
		return nil, err
	}
	if _, err := lifecycle.Member.Next(m.State, event); err != nil {
		return nil, &pawl.Error{Kind: pawl.Conflict, Message: "member " + id, Err: err}
	}
	if by.Version == 0 {
		by.Version = m.Version // Rest chooses the event by the state
	}
	return c.Rest(ctx, id, by)
}

// DiscardFailed is Discard for a member that a caller may reset.
func (c *Crew) DiscardFailed(ctx context.Context, id string, by Caller) (kept []string, err error) {
	m, err := c.Settle(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := by.allow(m); err != nil {
		return nil, err
	}
	if _, err := lifecycle.Member.Next(m.State, lifecycle.MemberReset); err != nil {
		return nil, &pawl.Error{Kind: pawl.Conflict, Message: "member " + id, Err: err}
	}
	return c.Discard(ctx, id)
}

// ActorOf returns the actor that a member is.
func ActorOf(id string) string { return memberActor + id }

// AssignmentOf returns the last assignment that a member has had of a request, with its epoch, or nil.
func (c *Crew) AssignmentOf(m *Member, request string) (last *Assignment, epoch int64, err error) {
	err = c.assignments(m.ID, func(a *Assignment, n int64) {
		if a.Request == request && n > epoch && n <= m.Epoch { // a later one was planned, and not made
			last, epoch = a, n
		}
	})
	return last, epoch, err
}

// assignments calls each for the assignments of a member, in no order.
func (c *Crew) assignments(id string, each func(a *Assignment, epoch int64)) error {
	dir := filepath.Join(c.Dir, runsDir, id)
	epochs, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range epochs {
		n, err := strconv.ParseInt(e.Name(), 10, 64)
		if err != nil {
			continue // it is none
		}
		a, err := readAssignment(filepath.Join(dir, e.Name(), assignmentFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		each(a, n)
	}
	return nil
}
