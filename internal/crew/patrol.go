package crew

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Finding is what patrol has found.
type Finding struct {
	Member string        `json:"member,omitempty"`
	State  machine.State `json:"state,omitempty"`  // before
	Event  machine.Event `json:"event,omitempty"`  // that patrol makes, or would make
	Action string        `json:"action,omitempty"` // what it does else, or would do
	Text   string        `json:"text"`
	Done   bool          `json:"done"`            // the event was made, or the action done
	Error  string        `json:"error,omitempty"` // why it could not be, or why the member cannot be judged
}

// The actions of patrol that are no events.
const (
	actionQuarantine = "quarantine"      // a state that its history does not lead to
	actionReceive    = "receive"         // a message that asks for an event
	actionStart      = "start"           // the program of a member
	actionRemove     = "remove_worktree" // of an assignment that is over
)

// did records what became of an action.
func (one *Finding) did(err error) {
	if one.Done = err == nil; err != nil {
		one.Error = err.Error()
	}
}

// A Patrol says what a patrol may do.
type Patrol struct {
	Fix   bool                                       // do something about what is found
	Start func(ctx context.Context, id string) error // starts the program of a member again; nil: nobody does
}

const patrolLock = ".patrol.lock"

// ErrPatrolled is returned by Patrol while another process patrols.
var ErrPatrolled = pawl.Errorf(pawl.Unavailable, "another process patrols this crew")

// Patrol looks after the crew: it judges every member (C5), receives what members have sent, and finds what
// was left behind. It only reports unless p.Fix is set. Only one patrols at a time.
func (c *Crew) Patrol(ctx context.Context, p Patrol) ([]Finding, error) {
	lock, err := durable.TryAcquire(filepath.Join(c.Dir, patrolLock))
	if err != nil {
		return nil, err
	}
	if lock == nil {
		return nil, ErrPatrolled
	}
	defer lock.Release()
	findings := []Finding{}
	for _, round := range []func(context.Context, Patrol) ([]Finding, error){c.quarantine, c.judgeAll, c.receive, c.reassign, c.compareHeads, c.startAgain, c.tidy} {
		list, err := round(ctx, p)
		if findings = append(findings, list...); err != nil {
			return findings, err
		}
	}
	return findings, nil
}

// each calls look for every member whose state can be read, and returns what it finds.
func (c *Crew) each(look func(*Member) (*Finding, error)) (list []Finding, err error) {
	ids, err := c.Members()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		m, err := c.Load(id)
		if err != nil {
			continue // judgeAll has named it
		}
		one, err := look(m)
		if err != nil {
			one = &Finding{Member: id, State: m.State, Error: err.Error(), Text: unjudged}
		}
		if one != nil {
			list = append(list, *one)
		}
	}
	return list, nil
}

// judgeAll judges every member by the time limits of its target.
func (c *Crew) judgeAll(ctx context.Context, p Patrol) ([]Finding, error) {
	return c.judgeBy(ctx, p.Fix, func(m *Member) (Limits, error) { return c.limitsOf(ctx, m) })
}

// judgeBy judges every member by the limits that it has.
func (f *Folder) judgeBy(ctx context.Context, fix bool, limits func(*Member) (Limits, error)) (list []Finding, err error) {
	ids, err := f.Members()
	if err != nil {
		return nil, err
	}
	mem, err := f.recall()
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if one := f.inspect(ctx, id, mem, limits, fix); one != nil {
			list = append(list, *one)
		}
	}
	return list, f.remember(mem)
}

// reassign gives the task of a stale member whose program was killed to its next attempt. Its processes are
// ended first, and what its worktree has is kept (C8).
func (c *Crew) reassign(ctx context.Context, p Patrol) ([]Finding, error) {
	return c.each(func(m *Member) (*Finding, error) { return c.reassignIf(ctx, m, p.Fix) })
}

func (c *Crew) reassignIf(ctx context.Context, m *Member, fix bool) (*Finding, error) {
	if m.State != lifecycle.MemberStale || m.Attempt >= m.MaxAttempts || m.Review == reviewPending {
		return nil, nil
	}
	run, err := c.RunOf(m.ID, m.Epoch)
	if err != nil || !run.Launched || run.Alive {
		return nil, err
	}
	one := &Finding{Member: m.ID, State: m.State, Event: lifecycle.MemberReassign, Text: fmt.Sprintf("its program is gone: attempt %d of %d", m.Attempt+1, m.MaxAttempts)}
	if fix {
		one.did(c.reassignOne(ctx, m))
	}
	return one, nil
}

func (c *Crew) reassignOne(ctx context.Context, m *Member) error {
	if err := c.end(ctx, m); err != nil {
		return err
	}
	a, err := c.Assignment(m)
	if err != nil {
		return err
	}
	if _, err := c.Repo.throwAway(ctx, a.Worktree, a.Branch); err != nil {
		return err
	}
	by := patroller
	by.Epoch, by.Reason = m.Epoch, "its program was killed"
	_, err = c.act(ctx, m.ID, by, func(m *Member) (*Move, error) {
		return c.again(ctx, m, lifecycle.MemberReassign, reasonOr(by, ""), by)
	})
	return err
}

var patroller = Caller{Actor: "patrol"}

// compareHeads sends back to review what has changed since it was approved (C7).
func (c *Crew) compareHeads(ctx context.Context, p Patrol) ([]Finding, error) {
	return c.each(func(m *Member) (*Finding, error) {
		if m.State != lifecycle.MemberApproved {
			return nil, nil
		}
		r, err := c.Review(m)
		if err != nil {
			return nil, err
		}
		if r == nil {
			return nil, missingReview(m)
		}
		there, head, err := c.Repo.branch(ctx, string(m.Branch))
		if err != nil || head == r.Head {
			return nil, err
		}
		one := &Finding{Member: m.ID, State: m.State, Event: lifecycle.MemberHeadMoved, Text: fmt.Sprintf("its branch is at %s, and %s was approved", short(head), short(r.Head))}
		if !there {
			tested, err := (&Merger{Crew: c}).tested(m)
			if err != nil || tested != nil { // it is landing
				return nil, err
			}
			one.Text = fmt.Sprintf("its branch is gone, and %s was approved", short(r.Head))
		}
		if p.Fix {
			by := patroller
			by.Version, by.Reason = m.Version, one.Text
			_, err := c.act(ctx, m.ID, by, func(*Member) (*Move, error) {
				move := by.move(func(m *Member) { m.Review = reviewPending })
				move.Event = one.Event
				return move, nil
			})
			one.did(err)
		}
		return one, nil
	})
}

// startAgain starts the programs of members whose next attempt is due, or whose work has come back.
func (c *Crew) startAgain(ctx context.Context, p Patrol) ([]Finding, error) {
	return c.each(func(m *Member) (*Finding, error) {
		why, err := c.waits(m)
		if err != nil || why == "" {
			return nil, err
		}
		one := &Finding{Member: m.ID, State: m.State, Action: actionStart, Text: why}
		if _, err := c.AgentOf(m.ID); pawl.KindOf(err) == pawl.Invalid {
			one.Text += "; it has none of its own, so somebody has to start it"
		} else if p.Fix && p.Start != nil {
			one.did(p.Start(ctx, m.ID))
		}
		return one, nil
	})
}

// waits returns why a member whose program Pawl launches waits for it, or nothing.
func (c *Crew) waits(m *Member) (string, error) {
	epoch := m.Epoch
	if m.State == lifecycle.MemberAssigned {
		epoch-- // of the attempt before
	}
	run, err := c.RunOf(m.ID, epoch)
	if err != nil || !run.Launched || run.Alive {
		return "", err
	}
	switch m.State {
	case lifecycle.MemberWorking:
		if back, err := c.cameBack(m); err != nil || !back {
			return "", err // it was killed, which is judged
		}
		return "its work has come back, and no program runs", nil
	case lifecycle.MemberAssigned:
		now, err := c.RunOf(m.ID, m.Epoch)
		if err != nil || now.Alive || m.Attempt == 1 {
			return "", err
		}
		a, err := c.Assignment(m)
		if err != nil || c.Now().Before(a.Before.Time()) {
			return "", err
		}
		return fmt.Sprintf("attempt %d is due, and no program runs", m.Attempt), nil
	}
	return "", nil
}

// tidy removes the worktrees of assignments that are over, unless that would lose work (C8), and temporary
// files whose writers died.
func (c *Crew) tidy(ctx context.Context, p Patrol) (list []Finding, err error) {
	if p.Fix {
		if err := c.sweep(); err != nil {
			return nil, err
		}
	}
	left, err := c.leftovers(ctx)
	if err != nil {
		return nil, err
	}
	for _, l := range left {
		one := Finding{Member: l.member, Action: actionRemove, Text: l.text}
		if p.Fix && l.a != nil {
			one.did(c.Repo.RemoveWorktree(ctx, l.a.Worktree, l.a.Branch, l.a.Target))
		}
		list = append(list, one)
	}
	return list, nil
}

// sweep removes temporary files whose writers died, wherever a crew has files.
func (c *Crew) sweep() error {
	return filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // what is gone meanwhile has none
		}
		if _, err := durable.Sweep(path, c.Now()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// A leftover is a folder for a worktree that no assignment has any more.
type leftover struct {
	member, text string
	a            *Assignment // that had it; nil if there is none
}

// leftovers returns what is below the folder of worktrees and of no assignment that goes on. A member that has
// failed keeps its last one, so that somebody can look.
func (c *Crew) leftovers(ctx context.Context) (list []leftover, err error) {
	var paths []string
	for _, id := range subfolders(c.Trees) {
		for _, name := range subfolders(filepath.Join(c.Trees, id)) {
			paths = append(paths, filepath.Join(c.Trees, id, name))
		}
	}
	for _, path := range paths {
		id := filepath.Base(filepath.Dir(path))
		m, err := c.Load(id)
		if pawl.KindOf(err) != pawl.NotFound && err != nil {
			continue // it is named already
		}
		owner, epoch, err := c.ownerOf(id, path)
		switch {
		case err != nil:
			return nil, err
		case owner == nil:
			list = append(list, leftover{member: id, text: path + " is of no assignment"})
		case m != nil && epoch == m.Epoch && m.State != lifecycle.MemberIdle && m.State != lifecycle.MemberCompleted:
		default:
			list = append(list, leftover{member: id, a: owner, text: fmt.Sprintf("the worktree %s, on %s, is of an assignment that is over", path, owner.Branch)})
		}
	}
	return list, nil
}

// subfolders returns the names of the folders in a folder but for hidden ones, such as those of gates and of
// what is being removed.
func subfolders(dir string) (names []string) {
	list, _ := os.ReadDir(dir) // what is not there has none
	for _, e := range list {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// ownerOf returns the last assignment that has a worktree, with its epoch, or nil.
func (c *Crew) ownerOf(id, path string) (owner *Assignment, epoch int64, err error) {
	err = c.assignments(id, func(a *Assignment, n int64) {
		if a.Worktree == path && n > epoch {
			owner, epoch = a, n
		}
	})
	return owner, epoch, err
}
