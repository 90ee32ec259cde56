package crew

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// restingStates are those in which nobody works on the task of a member.
var restingStates = map[machine.State]bool{lifecycle.MemberIdle: true, lifecycle.MemberCompleted: true, lifecycle.MemberFailed: true}

// A Task is what is to be done.
type Task struct {
	ID          string
	Target      string // a branch
	Base        string // a commit or a name of one; empty: the head of the target
	Prompt      string
	MaxAttempts int // 0: 3
}

const defaultAttempts = 3

// MaxPrompt is the longest prompt of a task, in bytes: programs get it as a variable.
const MaxPrompt = 64 << 10

// Assign gives a task to an idle member. A task is with one member at a time.
func (c *Crew) Assign(ctx context.Context, id string, t Task, by Caller) (*Member, error) {
	if err := CheckTask(t.ID); err != nil {
		return nil, err
	}
	switch {
	case t.MaxAttempts < 0:
		return nil, pawl.Errorf(pawl.Invalid, "max_attempts is %d; allowed: 1 or more", t.MaxAttempts)
	case len(t.Prompt) > MaxPrompt:
		return nil, pawl.Errorf(pawl.Invalid, "the prompt has more than %d bytes; name a file of the repository in it instead", MaxPrompt)
	case !utf8.ValidString(t.Prompt) || strings.ContainsRune(t.Prompt, 0):
		return nil, pawl.Errorf(pawl.Invalid, "the prompt of the task is no text; allowed: UTF-8 without NUL")
	}
	release, err := c.taskLock(ctx, t.ID)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := c.free(ctx, t.ID); err != nil {
		return nil, err
	}
	return c.act(ctx, id, by, func(m *Member) (*Move, error) {
		a := &Assignment{Task: t.ID, Attempt: 1, Target: t.Target, Base: t.Base, Prompt: t.Prompt, Request: by.Request}
		move := by.move(func(m *Member) {
			m.begin(a, c.Now())
			if m.MaxAttempts = t.MaxAttempts; m.MaxAttempts == 0 {
				m.MaxAttempts = defaultAttempts
			}
		})
		move.Event = lifecycle.MemberAssign
		if _, err := lifecycle.Member.Next(m.State, move.Event); err != nil {
			return move, nil // which refuses it
		}
		return move, c.plan(ctx, m, a)
	})
}

// begin sets what a new attempt begins with.
func (m *Member) begin(a *Assignment, now time.Time) {
	m.Task, m.Attempt, m.Branch, m.Epoch = text(a.Task), a.Attempt, text(a.Branch), m.Epoch+1
	m.AssignedAt = pawl.Timestamp(now.UnixMicro())
	m.PID, m.LastError, m.PullRequest, m.Review, m.Attention = 0, "", "", "", ""
}

// plan completes the assignment of an attempt, and writes it before the member has it. Its branch is a
// new one, of a name that no ref of Pawl has: what a task that was given up has left stays (C8).
func (c *Crew) plan(ctx context.Context, m *Member, a *Assignment) error {
	there, head, err := c.Repo.branch(ctx, a.Target)
	if err != nil {
		return err
	}
	if !there {
		return pawl.Errorf(pawl.NotFound, "there is no branch %s in %s", a.Target, c.Repo.Root)
	}
	if a.Base == "" {
		a.Base = head
	} else if a.Base, err = c.Repo.Commit(ctx, a.Base); err != nil {
		return err
	}
	for n := a.Attempt; ; n++ {
		a.Branch, a.Worktree = branchOf(m.ID, a.Task, n), c.worktreeOf(m.ID, a.Task, n)
		used, err := c.Repo.git(ctx, "for-each-ref", "--count=1", "--format=%(refname)", "refs/heads/"+a.Branch, refs+"submitted/"+a.Branch, refs+"rescue/"+a.Branch, refs+"discarded/"+a.Branch)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(a.Worktree); used == "" && errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if d := backoff(a.Attempt); d > 0 {
		a.Before = pawl.Timestamp(c.Now().Add(d).UnixMicro())
	}
	return c.writeAssignment(m.ID, m.Epoch+1, a)
}

// taskLock takes the lock of a task: two do not assign it at once.
func (c *Crew) taskLock(ctx context.Context, task string) (release func(), err error) {
	dir := filepath.Join(c.Dir, tasksDir)
	if err := c.Disk.MakeDir(dir); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	lock, err := durable.Acquire(ctx, filepath.Join(dir, task+".lock"))
	if errors.Is(err, durable.ErrHeld) {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "task " + task + " is being assigned by another process", Err: err}
	}
	if err != nil {
		return nil, err
	}
	return lock.Release, nil
}

const tasksDir = "tasks"

// free returns an error if a member works on a task. It settles all members: one whose assignment was
// interrupted has the task.
func (c *Crew) free(ctx context.Context, task string) error {
	ids, err := c.Members()
	if err != nil {
		return err
	}
	for _, id := range ids {
		m, err := c.Settle(ctx, id)
		if err != nil {
			return err
		}
		if string(m.Task) == task && !resting(m) {
			return pawl.Errorf(pawl.Conflict, "member %s works on task %s: it is %s", id, task, m.State)
		}
	}
	return nil
}

// Submit offers the work of a member for review: commits on its own branch, and nothing that is not
// committed (C7). The head is kept from then on. Where the target has a forge, there is a pull request.
func (c *Crew) Submit(ctx context.Context, id string, by Caller) (*Member, error) {
	url, proposed, err := c.proposal(ctx, id, by)
	if err != nil {
		return nil, err
	}
	return c.act(ctx, id, by, func(m *Member) (*Move, error) {
		move := by.move(func(m *Member) { m.Review, m.Attention, m.PullRequest = reviewPending, "", text(url) })
		move.Event = lifecycle.MemberSubmit
		if m.State != lifecycle.MemberWorking {
			return move, nil // which refuses it
		}
		a, tree, err := c.submission(ctx, m)
		if err != nil {
			return nil, err
		}
		if proposed != "" && proposed != tree.Head {
			return nil, pawl.Errorf(pawl.Unavailable, "the branch %s has moved while it was pushed", a.Branch)
		}
		if err := c.Repo.keep(ctx, a, tree.Head); err != nil {
			return nil, err
		}
		return move, c.writeReview(m, &Review{Head: tree.Head, Base: a.Base})
	})
}

// submission returns the assignment and the worktree of a member, if that can be offered for review.
func (c *Crew) submission(ctx context.Context, m *Member) (*Assignment, *Tree, error) {
	a, err := c.Assignment(m)
	if err != nil {
		return nil, nil, err
	}
	tree, err := c.Repo.Inspect(ctx, a.Worktree, a.Base)
	if err != nil {
		return nil, nil, err
	}
	return a, tree, tree.submittable(a)
}

// proposal makes the pull request of what a member is about to submit, before its lock is held: that goes over
// the network. It returns its URL, and the commit that it has, or nothing if there is no forge.
func (c *Crew) proposal(ctx context.Context, id string, by Caller) (url, head string, err error) {
	m, err := c.Settle(ctx, id)
	if err != nil || by.allow(m) != nil || m.State != lifecycle.MemberWorking {
		return "", "", err // Submit refuses it
	}
	a, err := c.Assignment(m)
	if err != nil {
		return "", "", err
	}
	_, config, err := c.Repo.target(ctx, a.Target)
	if err != nil || config.Forge == NoForge {
		return "", "", err
	}
	a, tree, err := c.submission(ctx, m)
	if err != nil {
		return "", "", err
	}
	url, err = c.propose(ctx, m, a, tree.Head)
	return url, tree.Head, err
}

// submittable returns an error unless a worktree can be offered for review.
func (t *Tree) submittable(a *Assignment) error {
	switch {
	case t.Branch != a.Branch:
		return pawl.Errorf(pawl.Conflict, "the worktree %s is on the branch %q, and the work is on %s", a.Worktree, t.Branch, a.Branch)
	case !t.Based:
		return pawl.Errorf(pawl.Conflict, "the branch %s does not follow %s, at which the work began", a.Branch, short(a.Base))
	case t.Commits == 0:
		return pawl.Errorf(pawl.Conflict, "the branch %s has no commit of its own", a.Branch)
	case len(t.Dirty) > 0:
		return &LossError{What: "the worktree " + a.Worktree + " has what is not committed", Dirty: t.Dirty}
	}
	return nil
}

// Fail ends an attempt: the next one begins after a while, unless it was the last or another could
// not help (C9).
func (c *Crew) Fail(ctx context.Context, id string, permanent bool, by Caller) (*Member, error) {
	return c.act(ctx, id, by, func(m *Member) (*Move, error) {
		why := reasonOr(by, "the attempt has failed")
		move := by.move(func(m *Member) { m.LastError = why })
		switch {
		case permanent:
			move.Event = lifecycle.MemberWorkFailed
		case m.Attempt >= m.MaxAttempts:
			move.Event = lifecycle.MemberMaxAttempts
		default:
			return c.again(ctx, m, lifecycle.MemberAttemptFailed, why, by)
		}
		return move, nil
	})
}

// again returns the move to the next attempt.
func (c *Crew) again(ctx context.Context, m *Member, event machine.Event, why text, by Caller) (*Move, error) {
	a := new(Assignment)
	move := by.move(func(m *Member) {
		m.begin(a, c.Now())
		m.LastError = why
	})
	move.Event = event
	if _, err := lifecycle.Member.Next(m.State, event); err != nil {
		return move, nil // which refuses it
	}
	before, err := c.Assignment(m)
	if err != nil {
		return nil, err
	}
	*a = Assignment{Task: before.Task, Attempt: m.Attempt + 1, Target: before.Target, Prompt: before.Prompt, Request: cmp.Or(by.Request, before.Request)}
	return move, c.plan(ctx, m, a)
}

// Retry begins the next attempt of a task that has failed.
func (c *Crew) Retry(ctx context.Context, id string, by Caller) (*Member, error) {
	m, err := c.Settle(ctx, id)
	if err != nil {
		return nil, err
	}
	release, err := c.taskLock(ctx, string(m.Task))
	if err != nil {
		return nil, err
	}
	defer release()
	if err := c.free(ctx, string(m.Task)); err != nil && m.State == lifecycle.MemberFailed {
		return nil, err
	}
	return c.act(ctx, id, by, func(m *Member) (*Move, error) { return c.again(ctx, m, lifecycle.MemberRetry, m.LastError, by) })
}

// Cancel ends the work of a member for good.
func (c *Crew) Cancel(ctx context.Context, id string, by Caller) (*Member, error) {
	return c.act(ctx, id, by, func(*Member) (*Move, error) {
		move := by.move(func(m *Member) { m.LastError, m.Attention = reasonOr(by, "it was canceled"), "" })
		move.Event = lifecycle.MemberCancel
		return move, nil
	})
}

// Rest makes a member idle that has failed or completed. Its history, branches and worktrees stay.
func (c *Crew) Rest(ctx context.Context, id string, by Caller) (*Member, error) {
	return c.act(ctx, id, by, func(m *Member) (*Move, error) {
		move := by.move(func(m *Member) {
			*m = Member{ID: m.ID, Epoch: m.Epoch, LastHeartbeat: m.LastHeartbeat, StateChangedAt: m.StateChangedAt, others: m.others}
		})
		if move.Event = lifecycle.MemberReset; m.State == lifecycle.MemberCompleted {
			move.Event = lifecycle.MemberRecycle
		}
		return move, nil
	})
}
