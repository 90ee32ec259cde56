package crew

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A camp is a crew of a repository, with a wall clock that a test moves.
type camp struct {
	*estate
	*Crew
	ahead time.Duration
}

func newCamp(t *testing.T, members ...string) *camp {
	t.Helper()
	c := &camp{estate: newEstate(t, 3)}
	c.Crew = &Crew{Folder: newFolder(t), Repo: c.estate.Repo, Trees: c.trees}
	c.Now = func() time.Time { return time.Now().Add(c.ahead) }
	for _, id := range members {
		if _, err := c.Spawn(t.Context(), id, Move{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

var ann = Caller{Actor: "ann"}

// ok fails unless a verb leads to a state, and returns the member.
func (c *camp) ok(state machine.State) func(*Member, error) *Member {
	c.t.Helper()
	return func(m *Member, err error) *Member {
		c.t.Helper()
		if err != nil {
			c.t.Fatal(err)
		}
		if m.State != state {
			c.t.Fatalf("the member is %s, want %s", m.State, state)
		}
		return check(c.t, c.Folder, m.ID)
	}
}

// refuses fails unless a verb is refused with an error that has a text, and changes nothing.
func (c *camp) refuses(text string) func(*Member, error) {
	c.t.Helper()
	before, err := c.Load("auth")
	if err != nil {
		c.t.Fatal(err)
	}
	return func(_ *Member, err error) {
		c.t.Helper()
		if err == nil || !strings.Contains(err.Error(), text) {
			c.t.Errorf("error %v, want one that says %q", err, text)
		}
		if after := check(c.t, c.Folder, "auth"); after.Version != before.Version {
			c.t.Errorf("a refusal has made version %d", after.Version)
		}
	}
}

// begun assigns a task to auth and begins it. It returns the worktree.
func (c *camp) begun(t Task) string {
	c.t.Helper()
	ctx := c.t.Context()
	c.ok(lifecycle.MemberAssigned)(c.Assign(ctx, "auth", t, ann))
	m := c.ok(lifecycle.MemberWorking)(c.Begin(ctx, "auth", ann))
	a, err := c.Assignment(m)
	if err != nil {
		c.t.Fatal(err)
	}
	return a.Worktree
}

// TestAnAssignment: a task goes from its assignment to its approval; what is not as it has to be is
// refused, with the reason, and changes nothing (C7, C9, C12).
func TestAnAssignment(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth", "docs")
	c.refuses("the id of the task")(c.Assign(ctx, "auth", Task{ID: "a/b", Target: "main"}, ann))
	c.refuses("there is no branch nowhere")(c.Assign(ctx, "auth", Task{ID: "t1", Target: "nowhere"}, ann))
	c.refuses("is no commit")(c.Assign(ctx, "auth", Task{ID: "t1", Target: "main", Base: "v9"}, ann))
	c.refuses("not allowed in state IDLE")(c.Begin(ctx, "auth", ann))
	tree := c.begun(Task{ID: "t1", Target: "main", Prompt: "do it"})
	c.refuses("member auth works on task t1")(c.Assign(ctx, "docs", Task{ID: "t1", Target: "main"}, ann))
	c.refuses("is already in WORKING")(c.Begin(ctx, "auth", ann))

	me := Caller{Actor: memberActor + "auth", Epoch: 1}
	c.refuses("has no commit of its own")(c.Submit(ctx, "auth", me))
	c.write(tree, "a.txt", "a\n")
	c.run(tree, "checkout", "--quiet", "-b", "stray")
	c.refuses(`is on the branch "stray"`)(c.Submit(ctx, "auth", me))
	c.run(tree, "checkout", "--quiet", "auth/t1")
	c.estate.commit(tree, "work")
	c.write(tree, "b.txt", "b\n")
	c.refuses("b.txt")(c.Submit(ctx, "auth", me))
	head := c.estate.commit(tree, "more")
	c.refuses("is of epoch 7")(c.Submit(ctx, "auth", Caller{Actor: memberActor + "auth", Epoch: 7}))
	c.refuses("and not 99")(c.Submit(ctx, "auth", Caller{Actor: "ann", Version: 99}))
	m := c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", me))
	if m.Review != reviewPending || m.Branch != "auth/t1" || m.Epoch != 1 {
		t.Errorf("%+v", m)
	}

	c.refuses("may not review its own work")(c.Approve(ctx, "auth", "", me))
	c.refuses("was submitted")(c.Approve(ctx, "auth", "123456", ann))
	c.write(c.estate.Root, "other.txt", "o\n")
	main := c.estate.commit(c.estate.Root, "other")
	c.refuses("it is behind its target")(c.Approve(ctx, "auth", "", ann))
	m = c.ok(lifecycle.MemberWorking)(c.RequestChanges(ctx, "auth", head[:8], Caller{Actor: "ann", Reason: "rebase it"}))
	if r, err := c.Review(m); err != nil || r.Text != "rebase it" || r.By != "ann" || r.Round != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	c.run(tree, "rebase", "--quiet", "main")
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", me))
	c.run(tree, "commit", "--quiet", "--allow-empty", "--message", "sneaked in")
	c.refuses("was submitted")(c.Approve(ctx, "auth", "", ann))
	c.run(tree, "reset", "--quiet", "--hard", "HEAD^")
	m = c.ok(lifecycle.MemberApproved)(c.Approve(ctx, "auth", "", Caller{Actor: memberActor + "docs"}))
	r, err := c.Review(m)
	if err != nil || r.Round != 2 || r.Patch == "" || m.Review != reviewApproved {
		t.Errorf("%+v, %v", r, err)
	}
	if kept := c.run(c.estate.Root, "rev-parse", refs+"submitted/auth/t1"); kept != r.Head || kept == main {
		t.Errorf("%s is kept, and %s was submitted", kept, r.Head)
	}
}

// TestRounds: changes are requested three times at most (C12).
func TestRounds(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	tree := c.begun(Task{ID: "t1", Target: "main"})
	for round := range maxRounds {
		c.write(tree, "a.txt", fmt.Sprint(round))
		c.estate.commit(tree, "work")
		c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
		if round < maxRounds-1 {
			c.ok(lifecycle.MemberWorking)(c.RequestChanges(ctx, "auth", "", ann))
		}
	}
	c.refuses("as often as they can be")(c.RequestChanges(ctx, "auth", "", ann))
	c.ok(lifecycle.MemberApproved)(c.Approve(ctx, "auth", "", ann))
}

// TestAttempts: a failed attempt is followed by another one with a branch, a worktree and an epoch of
// its own, after a while; the last one fails the task, and its work stays (C1, C8, C9).
func TestAttempts(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth", "docs")
	first := c.begun(Task{ID: "t1", Target: "main", MaxAttempts: 2})
	c.write(first, "a.txt", "unfinished")
	m := c.ok(lifecycle.MemberAssigned)(c.Fail(ctx, "auth", false, Caller{Actor: memberActor + "auth", Reason: "out of ideas", Epoch: 1}))
	if m.Attempt != 2 || m.Epoch != 2 || m.Branch != "auth/t1.2" || m.LastError != "out of ideas" {
		t.Errorf("%+v", m)
	}
	c.refuses("attempt 2 of task t1 begins at")(c.Begin(ctx, "auth", ann))
	c.ahead += 10 * time.Second
	for range 2 { // as after a crash between the worktree and the row
		a, err := c.Assignment(m)
		if err == nil {
			err = c.Crew.Repo.AddWorktree(ctx, a.Worktree, a.Branch, a.Base)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.ok(lifecycle.MemberWorking)(c.Begin(ctx, "auth", ann))
	c.refuses("of epoch 1")(c.Submit(ctx, "auth", Caller{Actor: memberActor + "auth", Epoch: 1})) // late
	c.ok(lifecycle.MemberFailed)(c.Fail(ctx, "auth", false, ann))
	if text := string(read(t, first+"/a.txt")); text != "unfinished" {
		t.Errorf("the first attempt has %q", text)
	}

	c.ok(lifecycle.MemberAssigned)(c.Assign(ctx, "docs", Task{ID: "t1", Target: "main"}, ann))
	c.refuses("member docs works on task t1")(c.Retry(ctx, "auth", ann))
	c.ok(lifecycle.MemberFailed)(c.Cancel(ctx, "docs", Caller{Actor: "ann", Reason: "not needed"}))
	m = c.ok(lifecycle.MemberAssigned)(c.Retry(ctx, "auth", ann))
	if m.Attempt != 3 || m.Branch != "auth/t1.3" || m.LastError == "" {
		t.Errorf("%+v", m)
	}
	c.ok(lifecycle.MemberFailed)(c.Cancel(ctx, "auth", ann))
	m = c.ok(lifecycle.MemberIdle)(c.Rest(ctx, "auth", ann))
	if m.Task != "" || m.Branch != "" || m.Attempt != 0 || m.Epoch != 3 {
		t.Errorf("%+v", m)
	}
	if _, err := os.Stat(first); err != nil {
		t.Errorf("the first worktree is gone: %v", err)
	}
	for attempt, want := range map[int]time.Duration{1: 0, 2: 10 * time.Second, 3: 20 * time.Second, 6: 160 * time.Second, 7: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := backoff(attempt); got != want {
			t.Errorf("before attempt %d: %v, want %v", attempt, got, want)
		}
	}
}

// TestOneMemberForATask: of many that are given one task at once, one has it (C1).
func TestOneMemberForATask(t *testing.T) {
	t.Parallel()
	ids := []string{"auth", "docs", "ui", "api", "db"}
	c := newCamp(t, ids...)
	var won atomic.Int32
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			_, err := c.Assign(context.WithoutCancel(t.Context()), id, Task{ID: "t1", Target: "main"}, ann)
			if err == nil {
				won.Add(1)
			} else if pawl.KindOf(err) != pawl.Conflict {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := won.Load(); n != 1 {
		t.Errorf("%d members have the task", n)
	}
}

// TestAFailedPreparation: a change whose preparation fails is none (C3).
func TestAFailedPreparation(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth")
	tree := c.begun(Task{ID: "t1", Target: "main"})
	c.write(tree, "a.txt", "a")
	c.estate.commit(tree, "work")
	if err := os.RemoveAll(tree); err != nil {
		t.Fatal(err)
	}
	c.refuses("there is no worktree")(c.Submit(t.Context(), "auth", ann))
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := c.Submit(ended, "auth", ann); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
}
