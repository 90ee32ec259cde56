package crew

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestStartTooEarly: a start that is refused, since the attempt is not due or the worktree cannot be prepared
// now, is no program that has died (C5, C9).
func TestStartTooEarly(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	c.detach()
	c.ok(lifecycle.MemberAssigned)(c.Assign(ctx, "auth", Task{ID: "t1", Target: "main"}, ann))
	c.configure("setup: {run: exit 75}")
	c.refuses("could not be prepared")(c.Run(ctx, "auth", script("true"), ann, nil))
	if got := c.patrolled(Patrol{Fix: true}); got != "" {
		t.Errorf("after a setup that could not be run: %q", got)
	}
	c.configure("{}")
	c.ok(lifecycle.MemberAssigned)(c.Run(ctx, "auth", script("exit 3"), ann, nil))
	c.refuses("begins at")(c.Run(ctx, "auth", script("true"), ann, nil))
	if got := c.patrolled(Patrol{Fix: true}); got != "auth remove_worktree done" { // of the first attempt
		t.Errorf("before the attempt is due: %q", got)
	}
	if m := check(t, c.Folder, "auth"); m.State != lifecycle.MemberAssigned || m.Attempt != 2 {
		t.Errorf("%s, attempt %d", m.State, m.Attempt)
	}
}

// TestNamesOfBranches: a task that is assigned again gets a branch of a name that no ref has, so that what is
// kept of earlier work stays (C8).
func TestNamesOfBranches(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	seen := map[string]bool{}
	for n := range 3 {
		tree := c.begun(Task{ID: "t1", Target: "main"})
		m := check(t, c.Folder, "auth")
		if seen[string(m.Branch)] {
			t.Fatalf("the branch %s was there before", m.Branch)
		}
		seen[string(m.Branch)] = true
		c.write(tree, "a.txt", strings.Repeat("x\n", n+1))
		c.estate.commit(tree, "work")
		if n == 0 {
			c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
		}
		c.ok(lifecycle.MemberFailed)(c.Cancel(ctx, "auth", ann))
		if n == 1 {
			if _, err := c.Discard(ctx, "auth"); err != nil {
				t.Fatal(err)
			}
		}
		c.ok(lifecycle.MemberIdle)(c.Rest(ctx, "auth", ann))
		c.patrolled(Patrol{Fix: true})
	}
	for ref, want := range map[string]string{"submitted/auth/t1": "x", "discarded/auth/t1.2": "x\nx"} {
		if got := c.run(c.estate.Root, "show", refs+ref+":a.txt"); got != want {
			t.Errorf("%s has %q", ref, got)
		}
	}
}

// TestEndOfAnOldRun: a program that ends after its work has come back has not answered: nothing is submitted
// again, and the next run answers (C12).
func TestEndOfAnOldRun(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	c.ok(lifecycle.MemberAssigned)(c.Assign(ctx, "auth", Task{ID: "t1", Target: "main"}, ann))
	begun, end := filepath.Join(t.TempDir(), "begun"), filepath.Join(t.TempDir(), "end")
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx, "auth", script("git commit -qm work --allow-empty; touch "+begun+"; until [ -e "+end+" ]; do sleep 0.01; done"), ann, nil)
		ended <- err
	}()
	wait(t, func() bool { _, err := os.Stat(begun); return err == nil })
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	c.ok(lifecycle.MemberWorking)(c.RequestChanges(ctx, "auth", "", ann))
	c.write(filepath.Dir(end), "end", "")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	m := check(t, c.Folder, "auth")
	if r, err := c.Review(m); err != nil || m.State != lifecycle.MemberWorking || r.Round != 1 {
		t.Errorf("%s, the review is %+v, %v", m.State, r, err)
	}
	if got := c.patrolled(Patrol{}); got != "auth start" {
		t.Errorf("patrol: %q", got)
	}
}

// TestStaleReviews: work whose review is overdue still waits for a person, who decides about it (C1).
func TestStaleReviews(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	c.write(c.begun(Task{ID: "t1", Target: "main"}), "a.txt", "x\n")
	c.estate.commit(c.worktreeOf("auth", "t1", 1), "work")
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	stale := func() *Member {
		return c.ok(lifecycle.MemberStale)(c.Change(ctx, "auth", func(*Member) (*Move, error) {
			return &Move{Event: lifecycle.MemberReviewTimeout, Actor: "patrol"}, nil
		}))
	}
	m := stale()
	by := ann
	by.Version = m.Version - 1
	c.refuses("has version")(c.RequestChanges(ctx, "auth", "", by))
	by.Version = m.Version
	c.ok(lifecycle.MemberWorking)(c.RequestChanges(ctx, "auth", "", by))
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	stale()
	if r, err := c.Reviewed(ctx, "auth"); err != nil || !r.Pending() {
		t.Errorf("a stale review: %+v, %v", r, err)
	}
	if _, err := c.Check(ctx, "auth"); err != nil {
		t.Errorf("the gates on a stale review: %v", err)
	}
	c.ok(lifecycle.MemberApproved)(c.Approve(ctx, "auth", "", ann))
}

// TestQueueGoesOn: what cannot be tested now holds up nobody, and lands later; who has asked for a landing is
// in the history (C7, C12).
func TestQueueGoesOn(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth", "docs")
	c.detach()
	for _, id := range []string{"auth", "docs"} {
		c.approved(id, map[string]string{id + ".txt": "x\n"})
		c.enqueue(id, 0)
	}
	c.configure(`gates: [{name: test, run: 'test "$PAWL_WORKER" != auth || exit 75'}]`)
	if got := c.next(c.merger()); got != "docs landed" {
		t.Error(got)
	}
	_, err := c.merger().Next(ctx, "main")
	if of := errorOf(err, "auth"); pawl.KindOf(of) != pawl.Unavailable || errorOf(err, "docs") != nil {
		t.Errorf("the errors of the queue: %v", err)
	}
	c.configure("{}")
	if got := c.next(c.merger()); got != "auth landed" {
		t.Error(got)
	}
	last, _, err := c.lastRow("auth")
	if err != nil || last.Actor != "ann" || !strings.HasPrefix(last.Reason, "landed on main as ") {
		t.Errorf("the last row is %+v, %v", last, err)
	}
}

// TestGuardIsMended: hooks of the guard that somebody killed has left without their mode get it (C11).
func TestGuardIsMended(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth")
	tree := c.begun(Task{ID: "t1", Target: "main"})
	for range 2 {
		if _, err := c.guard(t.Context(), tree); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(c.Dir, guardDir, "reference-transaction")
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%v, %v", info.Mode(), err)
		}
		if err := errors.Join(os.Chmod(path, 0o644), os.Chtimes(path, time.Time{}, time.Time{})); err != nil {
			t.Fatal(err)
		}
	}
}

// TestMessagesOfStaleMembers: what a stale member asks for is answered (C6).
func TestMessagesOfStaleMembers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	c.begun(Task{ID: "t1", Target: "main"})
	c.ok(lifecycle.MemberStale)(c.Change(ctx, "auth", func(*Member) (*Move, error) {
		return &Move{Event: lifecycle.MemberHeartbeatTimeout, Actor: "patrol"}, nil
	}))
	if err := c.Send(ctx, &Message{From: "auth", To: Orchestrator, Type: doneType, Epoch: 1}); err != nil {
		t.Fatal(err)
	}
	if got := c.patrolled(Patrol{Fix: true}); got != "auth receive" {
		t.Error(got)
	}
	if in, err := c.Inbox("auth"); err != nil || len(in.Messages) != 1 || in.Messages[0].Type != refusedType {
		t.Errorf("the answer: %+v, %v", in, err)
	}
}
