package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// An Entry is approved work that waits to land on its target.
type Entry struct {
	Member   string `json:"member"`
	Epoch    int64  `json:"epoch"`
	Target   string `json:"target"`
	Priority int    `json:"priority"`     // higher ones first
	Sequence int64  `json:"seq"`          // and of the same, who came first
	By       string `json:"by,omitempty"` // who has asked for it
	Reason   string `json:"reason,omitempty"`
	Request  string `json:"request,omitempty"`

	file string
}

const queueDir = "queue"

// queue returns the folder of a target's queue. A target may have slashes, which are no names of files; it is
// none of "." and "..", which are no branches.
func (c *Crew) queue(target string) string {
	return filepath.Join(c.Dir, queueDir, url.PathEscape(target))
}

// Queue returns what waits to land on a target, in the order in which it will.
func (c *Crew) Queue(target string) (list []Entry, err error) {
	if target == "." || target == ".." || target == "" {
		return nil, pawl.Errorf(pawl.Invalid, "the target is %q; allowed: the name of a branch", target)
	}
	files, err := os.ReadDir(c.queue(target))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") || strings.HasPrefix(f.Name(), ".") {
			continue
		}
		e := Entry{file: filepath.Join(c.queue(target), f.Name())}
		text, err := readFile(e.file, maxState)
		if errors.Is(err, fs.ErrNotExist) { // it has just landed
			continue
		}
		if err == nil {
			err = json.Unmarshal(text, &e)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", e.file, err)
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b Entry) int {
		if a.Priority != b.Priority {
			return b.Priority - a.Priority
		}
		return int(a.Sequence - b.Sequence)
	})
	return list, nil
}

// Enqueue makes the approved work of a member wait to land. What waits already keeps its place.
func (c *Crew) Enqueue(ctx context.Context, id string, priority int, by Caller) (*Entry, error) {
	m, err := c.Settle(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := by.allow(m); err != nil {
		return nil, err
	}
	if _, err := lifecycle.Member.Next(m.State, lifecycle.MemberMerge); err != nil {
		return nil, &pawl.Error{Kind: pawl.Conflict, Message: "member " + id, Err: err}
	}
	a, err := c.Assignment(m)
	if err != nil {
		return nil, err
	}
	dir := c.queue(a.Target)
	if err := c.Disk.MakeDir(dir); err != nil {
		return nil, err
	}
	lock, err := durable.Acquire(ctx, filepath.Join(dir, enqueueLock))
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	list, err := c.Queue(a.Target)
	if err != nil {
		return nil, err
	}
	e := &Entry{Member: id, Epoch: m.Epoch, Target: a.Target, Priority: priority, Sequence: 1, By: by.Actor, Reason: by.Reason, Request: by.Request, file: filepath.Join(dir, id+".json")}
	for _, other := range list {
		if other.Member == id && other.Epoch == m.Epoch {
			return &other, nil
		}
		e.Sequence = max(e.Sequence, other.Sequence+1)
	}
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	return e, c.Disk.Publish(e.file, append(text, '\n'))
}

// A Landing is what became of an entry of a queue.
type Landing struct {
	Entry
	State  string `json:"state"` // landed, conflict, gate_failed, head_moved, gone
	Commit string `json:"commit,omitempty"`
	Reason string `json:"reason,omitempty"` // why it has not landed
}

// The states of a Landing.
const (
	Queued     = "queued" // it waits
	Landed     = "landed"
	Conflict   = "conflict"    // with the target: back to work
	GateFailed = "gate_failed" // likewise
	HeadMoved  = "head_moved"  // it is not what was approved: back to review
	Gone       = "gone"        // the member no longer has the work, or it is not approved
)

// A Merger lands what waits, one at a time.
type Merger struct {
	*Crew
	By Caller
}

// maxMoves is how often a candidate is made anew since the target has moved.
const maxMoves = 10

// Next lands the first entry of a queue that can be, or returns it from the queue with the reason. One that
// cannot be tested now keeps its place. It returns nil if the queue is empty, and an error if no entry can be. Killed at any point, the work has landed or waits: the next call goes on.
func (m *Merger) Next(ctx context.Context, target string) (*Landing, error) {
	dir := m.queue(target)
	if err := m.Disk.MakeDir(dir); err != nil {
		return nil, err
	}
	lock, err := durable.Acquire(ctx, filepath.Join(dir, ".merge.lock"))
	if err != nil {
		return nil, err
	}
	defer lock.Release()
	list, err := m.Queue(target)
	if err != nil {
		return nil, err
	}
	var failed []error
	for _, e := range list {
		l, err := m.land(ctx, e)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil { // it keeps its place, and holds up nobody
			failed = append(failed, &EntryError{e.Member, err})
			continue
		}
		return l, m.dequeue(ctx, &e)
	}
	return nil, errors.Join(failed...)
}

// dequeue removes an entry, unless the member's next work has taken its place.
func (c *Crew) dequeue(ctx context.Context, e *Entry) error {
	lock, err := durable.Acquire(ctx, filepath.Join(c.queue(e.Target), enqueueLock))
	if err != nil {
		return err
	}
	defer lock.Release()
	list, err := c.Queue(e.Target)
	if err != nil || !slices.Contains(list, *e) {
		return err
	}
	return os.Remove(e.file)
}

const enqueueLock = ".enqueue.lock"

// An EntryError says why an entry of a queue could not land now. It keeps its place.
type EntryError struct {
	Member string
	Err    error
}

func (e *EntryError) Error() string { return "the work of member " + e.Member + ": " + e.Err.Error() }
func (e *EntryError) Unwrap() error { return e.Err }

// land lands an entry.
func (m *Merger) land(ctx context.Context, e Entry) (*Landing, error) {
	l := &Landing{Entry: e, State: Gone, Reason: "the member no longer has this work, or it is not approved"}
	member, err := m.Settle(ctx, e.Member)
	if err != nil {
		return nil, err
	}
	if member.Epoch != e.Epoch {
		return l, nil
	}
	a, err := m.Assignment(member)
	if err != nil {
		return nil, err
	}
	if err := m.upToDate(ctx, a.Target); err != nil {
		return nil, err
	}
	tested, err := m.tested(member)
	if err != nil {
		return nil, err
	}
	if tested != nil {
		if landed, err := m.Repo.Landed(ctx, tested); err != nil {
			return nil, err
		} else if landed {
			if err := m.Repo.Follow(ctx); err != nil {
				return nil, err
			}
			return m.completed(ctx, l, member, a, tested)
		}
	}
	if member.State != lifecycle.MemberApproved {
		return l, nil
	}
	r, err := m.Review(member)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, missingReview(member)
	}
	for range maxMoves {
		c, err := m.candidate(ctx, l, member, a, r)
		if err == nil && c == nil {
			return l, nil
		}
		if err == nil {
			err = m.toRemote(ctx, c)
		}
		if err == nil {
			err = m.Repo.Land(ctx, c)
		}
		switch {
		case errors.Is(err, ErrMoved):
			continue
		case err != nil:
			return nil, err
		}
		return m.completed(ctx, l, member, a, c)
	}
	return nil, pawl.Errorf(pawl.Unavailable, "%s has moved %d times while the work of member %s was being tested; it still waits", e.Target, maxMoves, e.Member)
}

// upToDate brings a target up to its branch at the forge, if it has one.
func (m *Merger) upToDate(ctx context.Context, target string) error {
	_, config, err := m.Repo.target(ctx, target)
	if err != nil || config.Forge == NoForge {
		return err
	}
	return m.Repo.catchUp(ctx, target)
}

// toRemote lets a candidate land at the forge, if its target has one.
func (m *Merger) toRemote(ctx context.Context, c *Candidate) error {
	config, err := m.Repo.Config(ctx, c.Old)
	if err != nil || config.Forge == NoForge {
		return err
	}
	return m.Repo.push(ctx, c)
}

// candidate returns the tested candidate of an entry, or nil if it goes back, as the landing says.
func (m *Merger) candidate(ctx context.Context, l *Landing, member *Member, a *Assignment, r *Review) (*Candidate, error) {
	_, head, err := m.Repo.branch(ctx, a.Branch)
	if err != nil {
		return nil, err
	}
	if head != r.Head {
		return nil, m.back(ctx, l, member, HeadMoved, fmt.Sprintf("the branch is at %s, and %s was approved", short(head), short(r.Head)))
	}
	old, config, err := m.Repo.target(ctx, a.Target)
	if err != nil {
		return nil, err
	}
	c, err := m.Repo.Candidate(ctx, head, a.Target, config.Strategy, title(member, a))
	var clash *ConflictError
	switch {
	case errors.As(err, &clash):
		return nil, m.back(ctx, l, member, Conflict, clash.Error())
	case err != nil:
		return nil, err
	case c.Old != old: // and its configuration may be another one
		return nil, ErrMoved
	case c.Patch != r.Patch:
		return nil, m.back(ctx, l, member, HeadMoved, fmt.Sprintf("on %s it changes something else than what was approved", short(c.Old)))
	}
	checks, _, err := m.tried(ctx, &trial{member, a, c.Commit, c.Old, config.Gates})
	if err != nil {
		return nil, err
	}
	var refused *GateError
	switch err := checks.Refusal().err(); {
	case errors.As(err, &refused):
		return nil, m.back(ctx, l, member, GateFailed, refused.Error())
	case err != nil:
		return nil, err
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	return c, m.Disk.Publish(m.testedFile(member), append(text, '\n'))
}

func (m *Merger) testedFile(member *Member) string {
	return filepath.Join(m.runDir(member.ID, member.Epoch), "candidate.json")
}

// tested returns the candidate that was tested for a member's assignment, or nil.
func (m *Merger) tested(member *Member) (*Candidate, error) {
	text, err := readFile(m.testedFile(member), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := new(Candidate)
	return c, json.Unmarshal(text, c)
}

// backEvents are the events by which work goes back from the queue, with the attention that they need.
var backEvents = map[string]struct {
	event     machine.Event
	attention text
}{
	Conflict:   {lifecycle.MemberMergeConflict, "conflict"},
	GateFailed: {lifecycle.MemberMergeConflict, "gate_failed"},
	HeadMoved:  {lifecycle.MemberHeadMoved, ""},
}

// back sends a member back to work or to review.
func (m *Merger) back(ctx context.Context, l *Landing, member *Member, state, reason string) error {
	by := m.By
	by.Reason, by.Epoch = reason, member.Epoch
	_, err := m.act(ctx, member.ID, by, func(*Member) (*Move, error) {
		move := by.move(func(m *Member) {
			m.LastError, m.Attention = text(reason), backEvents[state].attention
			if m.Review = reviewChanges; state == HeadMoved {
				m.Review = reviewPending
			}
		})
		move.Event = backEvents[state].event
		return move, nil
	})
	l.State, l.Reason = state, reason
	return err
}

// completed records that a candidate has landed, and removes the branch and the worktree.
func (m *Merger) completed(ctx context.Context, l *Landing, member *Member, a *Assignment, c *Candidate) (*Landing, error) {
	if member.State == lifecycle.MemberApproved {
		by := m.By
		by.Epoch = member.Epoch
		if _, err := m.act(ctx, member.ID, by, func(*Member) (*Move, error) {
			move := by.move(func(m *Member) { m.LastError, m.Attention = "", "" })
			move.Event, move.Reason = lifecycle.MemberMerge, "landed on "+a.Target+" as "+short(c.Commit)
			if l.By != "" {
				move.Actor, move.Request = l.By, l.Request
			}
			if l.Entry.Reason != "" {
				move.Reason += ": " + l.Entry.Reason
			}
			return move, nil
		}); err != nil {
			return nil, err
		}
	}
	if err := m.settleRequest(ctx, member, a, c.Commit); err != nil {
		return nil, err // the entry stays until it is settled
	}
	l.State, l.Commit, l.Reason = Landed, c.Commit, ""
	var loss *LossError
	if err := m.Repo.RemoveWorktree(ctx, a.Worktree, a.Branch, a.Target); err != nil && !errors.As(err, &loss) { // what it has beside stays
		return nil, err
	}
	return l, nil
}
