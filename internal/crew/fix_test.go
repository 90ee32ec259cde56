package crew

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl/lifecycle"
)

// patrolled patrols, and returns what it has found, a line each.
func (c *camp) patrolled(p Patrol) string {
	c.t.Helper()
	list, err := c.Patrol(c.t.Context(), p)
	if err != nil {
		c.t.Fatal(err)
	}
	var lines []string
	for _, one := range list {
		done := map[bool]string{true: "done"}[one.Done]
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprint(one.Member, " ", one.Event, one.Action, " ", done)), " "))
	}
	return strings.Join(lines, "\n")
}

// TestMessagesThatMove: a member that only writes messages makes the moves of its own assignment with them,
// and hears why one cannot be made (C6).
func TestMessagesThatMove(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	tree := c.begun(Task{ID: "t1", Target: "main"})
	say := func(typ string, epoch int64, task, body string) {
		if err := c.Send(ctx, &Message{From: "auth", To: Orchestrator, Type: typ, Epoch: epoch, Task: task, Body: body}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		what, typ, task string
		epoch           int64
		found, state    string
	}{
		{"what is no move", "note", "", 1, "", "WORKING"},
		{"an old assignment", "failed", "", 7, "", "WORKING"},
		{"another task", "failed", "t2", 1, "", "WORKING"},
		{"nothing to submit", "done", "t1", 1, "auth receive", "WORKING"},
		{"work to submit", "done", "t1", 1, "auth receive done", "IN_REVIEW"},
		{"that again", "done", "t1", 1, "", "IN_REVIEW"},
	} {
		if tt.what == "work to submit" {
			c.write(tree, "a.txt", "x\n")
			c.estate.commit(tree, "work")
		}
		say(tt.typ, tt.epoch, tt.task, "")
		if got := c.patrolled(Patrol{}); strings.TrimSuffix(got, " done") != strings.TrimSuffix(tt.found, " done") {
			t.Errorf("%s: without fix %q", tt.what, got)
		}
		if got := c.patrolled(Patrol{Fix: true}); got != tt.found {
			t.Errorf("%s: %q, want %q", tt.what, got, tt.found)
		}
		if m := check(t, c.Folder, "auth"); string(m.State) != tt.state {
			t.Errorf("%s: %s, want %s", tt.what, m.State, tt.state)
		}
	}
	in, err := c.Inbox("auth")
	if err != nil || len(in.Messages) != 1 || in.Messages[0].Type != refusedType || !strings.Contains(in.Messages[0].Body, "no commit of its own") {
		t.Errorf("the answer: %+v, %v", in, err)
	}
	if in, err := c.Inbox(Orchestrator); err != nil || len(in.Messages) != 6 {
		t.Errorf("whoever reads for the orchestrator has %+v, %v", in, err)
	}
	c.ok(lifecycle.MemberWorking)(c.RequestChanges(ctx, "auth", "", ann))
	line := `{"ts": "2026-01-10T14:00:00Z", "from": "auth", "type": "done", "task": "t1"}` + "\n" // as other programs write it
	file, err := os.OpenFile(c.messages("auth"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = file.WriteString(line)
	}
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.Patrol(ctx, Patrol{Fix: true})
	if err != nil || len(list) != 1 || list[0].Done || !strings.Contains(list[0].Text, "without an epoch") {
		t.Errorf("a message without an epoch: %+v, %v", list, err)
	}
	say("failed", 1, "", "cannot be done")
	if got := c.patrolled(Patrol{Fix: true}); !strings.HasPrefix(got, "auth receive done") {
		t.Error(got)
	}
	if m := check(t, c.Folder, "auth"); m.State != lifecycle.MemberAssigned || m.LastError != "cannot be done" {
		t.Errorf("%s, %s", m.State, m.LastError)
	}
}

// TestQuarantine: a state that was changed without its history is kept aside, and the one that its history
// leads to is put in its place (C2).
func TestQuarantine(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth", "docs", "ui", "api")
	before := c.ok(lifecycle.MemberIdle)(c.Load("auth"))
	edited := strings.Replace(string(read(t, c.state("auth"))), "IDLE", "APPROVED", 1)
	for name, text := range map[string]string{"auth": edited, "docs": "{", "stranger": strings.Replace(edited, "auth", "stranger", 1)} {
		if err := os.WriteFile(c.state(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(c.history("ui"), []byte("damaged\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	const found = "auth quarantine%[1]s\ndocs quarantine%[1]s\nstranger quarantine%[1]s\nui"
	if got, want := c.patrolled(Patrol{}), fmt.Sprintf(found, ""); !strings.HasPrefix(got, want[:len(want)-3]) {
		t.Errorf("without fix:\n%s", got)
	}
	if got, want := c.patrolled(Patrol{Fix: true}), fmt.Sprintf(found, " done"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if diff := cmp.Diff(before, c.ok(lifecycle.MemberIdle)(c.Settle(t.Context(), "auth")), cmp.AllowUnexported(Member{})); diff != "" {
		t.Error(diff)
	}
	check(t, c.Folder, "docs")
	kept, err := filepath.Glob(filepath.Join(c.Dir, quarantineDir, "auth.*.json"))
	if err != nil || len(kept) != 1 || string(read(t, kept[0])) != edited {
		t.Errorf("kept: %v, %v", kept, err)
	}
	if _, err := c.Load("stranger"); err == nil {
		t.Error("who has no history is a member")
	}
}

// TestMovedHeads: what has changed since it was approved goes back to review (C7).
func TestMovedHeads(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth", "docs")
	for _, id := range []string{"auth", "docs"} {
		c.approved(id, map[string]string{id + ".txt": "x\n"})
	}
	c.run(c.worktreeOf("auth", "task-auth", 1), "commit", "--quiet", "--allow-empty", "--message", "sneaked in")
	if got := c.patrolled(Patrol{}); got != "auth head_moved" {
		t.Error(got)
	}
	if got := c.patrolled(Patrol{Fix: true}); got != "auth head_moved done" {
		t.Error(got)
	}
	if m := check(t, c.Folder, "auth"); m.State != lifecycle.MemberInReview || m.Review != reviewPending {
		t.Errorf("%s, %s", m.State, m.Review)
	}
}

// TestStartAgain: patrol starts a program whose work has come back or whose next attempt is due, if it is one
// that Pawl launches, and a member whose runner ended well is not taken for dead (C5, C9).
func TestStartAgain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth", "docs")
	c.begun(Task{ID: "t0", Target: "main"}) // others launch it
	c.ok(lifecycle.MemberAssigned)(c.Assign(ctx, "docs", Task{ID: "t1", Target: "main"}, ann))
	c.ok(lifecycle.MemberInReview)(c.Run(ctx, "docs", script("git commit -qm work --allow-empty"), ann, nil))
	c.ok(lifecycle.MemberWorking)(c.RequestChanges(ctx, "docs", "", ann))
	if got := c.patrolled(Patrol{Fix: true, Start: func(context.Context, string) error { t.Error("started"); return nil }}); got != "docs start" {
		t.Errorf("without a program of its own: %q", got)
	}
	if err := c.SetAgent("docs", Agent{Argv: []string{"false"}}); err != nil {
		t.Fatal(err)
	}
	var started []string
	p := Patrol{Fix: true, Start: func(_ context.Context, id string) error {
		started = append(started, id)
		_, err := c.Run(ctx, id, script("exit 3"), ann, nil)
		return err
	}}
	if got := c.patrolled(Patrol{Fix: true}); got != "docs start" {
		t.Errorf("without a starter: %q", got)
	}
	if got := c.patrolled(p); got != "docs start done\ndocs remove_worktree done" { // the attempt has failed, and what it has submitted is kept
		t.Error(got)
	}
	if m := check(t, c.Folder, "docs"); m.State != lifecycle.MemberAssigned || m.Attempt != 2 {
		t.Fatalf("%+v", m)
	}
	if got := c.patrolled(p); got != "" {
		t.Errorf("before the attempt is due: %q", got)
	}
	c.ahead += time.Minute
	if got := c.patrolled(p); !strings.HasPrefix(got, "docs start done") {
		t.Error(got)
	}
	if got := fmt.Sprint(started); got != "[docs docs]" {
		t.Error(got)
	}
}

// TestLeftovers: worktrees of assignments that are over are removed unless that would lose work; what is
// thrown away is kept under refs (C8).
func TestLeftovers(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth", "docs")
	tree := c.begun(Task{ID: "t1", Target: "main"})
	c.write(tree, "work.txt", "committed\n")
	c.estate.commit(tree, "work")
	c.write(tree, "work.txt", "changed\n")
	c.write(tree, "new.txt", "new\n")
	if err := os.MkdirAll(filepath.Join(c.trees, "docs", "stray"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := c.patrolled(Patrol{Fix: true}); got != "docs remove_worktree" {
		t.Errorf("while it works: %q", got)
	}
	if err := os.Remove(filepath.Join(c.trees, "docs", "stray")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Discard(ctx, "auth"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(tree, "new.txt")); err != nil {
		t.Fatalf("discarded while it works: %v", err)
	}
	c.ok(lifecycle.MemberAssigned)(c.Fail(ctx, "auth", false, ann))
	for range 2 { // it stays
		if got := c.patrolled(Patrol{Fix: true}); got != "auth remove_worktree" {
			t.Error(got)
		}
	}
	c.ahead += time.Minute
	c.ok(lifecycle.MemberWorking)(c.Begin(ctx, "auth", ann))
	c.ok(lifecycle.MemberFailed)(c.Cancel(ctx, "auth", ann))
	kept, err := c.Discard(ctx, "auth")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"refs/pawl/rescue/auth/t1", "refs/pawl/discarded/auth/t1", "refs/pawl/rescue/auth/t1.2", "refs/pawl/discarded/auth/t1.2"}, kept); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]string{"rescue/auth/t1:work.txt": "changed", "rescue/auth/t1:new.txt": "new", "discarded/auth/t1:work.txt": "committed"} {
		if got := c.run(c.estate.Root, "show", refs+path); got != want {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := c.run(c.estate.Root, "for-each-ref", "--format=%(refname)", "refs/heads/auth"); got != "" {
		t.Errorf("branches left: %s", got)
	}
	if left, err := filepath.Glob(filepath.Join(c.trees, "auth", "*")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	c.ok(lifecycle.MemberIdle)(c.Rest(ctx, "auth", ann))
	// The same task begins anew; and once it is over with nothing to lose, its worktree goes by itself.
	again := c.begun(Task{ID: "t1", Target: "main"})
	c.ok(lifecycle.MemberFailed)(c.Cancel(ctx, "auth", ann))
	if got := c.patrolled(Patrol{Fix: true}); got != "" {
		t.Errorf("of a member that has failed: %q", got)
	}
	c.ok(lifecycle.MemberIdle)(c.Rest(ctx, "auth", ann))
	if got := c.patrolled(Patrol{Fix: true}); got != "auth remove_worktree done" {
		t.Error(got)
	}
	if _, err := os.Stat(again); err == nil {
		t.Error("it is still there")
	}
}
