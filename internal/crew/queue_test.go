package crew

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/lifecycle"
)

// approved gives a member a task, writes files, and has them approved.
func (c *camp) approved(id string, files map[string]string) {
	c.t.Helper()
	ctx := c.t.Context()
	m := c.ok(lifecycle.MemberAssigned)(c.Assign(ctx, id, Task{ID: "task-" + id, Target: "main"}, ann))
	c.ok(lifecycle.MemberWorking)(c.Begin(ctx, id, ann))
	a, err := c.Assignment(m)
	if err != nil {
		c.t.Fatal(err)
	}
	for file, text := range files {
		c.write(a.Worktree, file, text)
	}
	c.estate.commit(a.Worktree, "work of "+id)
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, id, ann))
	c.ok(lifecycle.MemberApproved)(c.Approve(ctx, id, "", ann))
}

func (c *camp) merger() *Merger {
	return &Merger{Crew: c.Crew, By: Caller{Actor: "merger"}}
}

// configure commits a crew.yaml on main, which is not checked out.
func (c *camp) configure(text string) {
	c.t.Helper()
	dir := c.t.TempDir()
	c.write(dir, ConfigFile, text)
	blob := c.run(c.estate.Root, "hash-object", "-w", filepath.Join(dir, ConfigFile))
	tree := filepath.Join(dir, "tree")
	c.run(c.estate.Root, "worktree", "add", "--quiet", "--detach", tree, "main")
	c.run(tree, "update-index", "--add", "--cacheinfo", "100644,"+blob+","+ConfigFile)
	c.run(tree, "commit", "--quiet", "--message", "configure")
	c.run(c.estate.Root, "update-ref", "refs/heads/main", c.run(tree, "rev-parse", "HEAD"))
	c.run(c.estate.Root, "worktree", "remove", "--force", tree)
}

func (c *camp) enqueue(id string, priority int) {
	c.t.Helper()
	if _, err := c.Enqueue(c.t.Context(), id, priority, ann); err != nil {
		c.t.Fatal(err)
	}
}

// next lands the next entry, and returns what became of it: "MEMBER STATE", or "" if none waits.
func (c *camp) next(m *Merger) string {
	c.t.Helper()
	l, err := m.Next(c.t.Context(), "main")
	if err != nil {
		c.t.Fatal(err)
	}
	if l == nil {
		return ""
	}
	return l.Member + " " + l.State
}

// TestTheQueue: what is approved lands in its order, one after another; what conflicts, or a gate
// refuses, goes back to work with the reason (C7).
func TestTheQueue(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth", "docs", "ui", "api", "db")
	c.detach()
	c.approved("auth", map[string]string{"a.txt": "a\n"})
	c.approved("docs", map[string]string{"d0/f0.txt": "docs\n"})
	c.approved("ui", map[string]string{"d0/f0.txt": "ui\n"})
	c.approved("api", map[string]string{"bad.txt": "x\n"})
	c.approved("db", map[string]string{"urgent.txt": "x\n"})
	if _, err := c.Enqueue(t.Context(), "nobody", 0, ann); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("a member that does not exist: %v", err)
	}
	for range 2 { // the second time nothing changes
		for _, id := range []string{"auth", "docs", "ui", "api"} {
			c.enqueue(id, 0)
		}
	}
	c.enqueue("db", 5)
	m := c.merger()
	log := filepath.Join(t.TempDir(), "tested")
	c.configure("gates: [{name: test, run: 'git rev-parse HEAD^{tree} >>" + log + "; ! test -e bad.txt'}]")
	for _, want := range []string{"db landed", "auth landed", "docs landed", "ui conflict", "api gate_failed", ""} {
		if got := c.next(m); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	for id, want := range map[string]string{"auth": "COMPLETED  ", "ui": "WORKING conflict conflict with main in d0/f0.txt", "api": "WORKING gate_failed gate test has failed: it has ended with code 1"} {
		m := check(t, c.Folder, id)
		if got := fmt.Sprintf("%s %s %s", m.State, m.Attention, m.LastError); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if got, tested := c.run(c.estate.Root, "rev-parse", "main^{tree}"), strings.Fields(string(text)); len(tested) != 4 || got != tested[2] {
		t.Errorf("main has the tree %s, and %v were tested", got, tested)
	}
	if got := c.run(c.estate.Root, "log", "--format=%s", "main"); got != "task-docs (docs)\ntask-auth (auth)\ntask-db (db)\nconfigure\nfirst" {
		t.Errorf("main has\n%s", got)
	}
	if got := c.run(c.estate.Root, "for-each-ref", "--format=%(refname:short)", "refs/heads/auth", "refs/heads/ui"); got != "ui/task-ui" {
		t.Errorf("branches left: %s", got)
	}
	if left, err := os.ReadDir(filepath.Join(c.trees, ".gates")); err != nil || len(left) > 0 {
		t.Errorf("left of gates: %v, %v", left, err)
	}
}

// TestWhatIsNotApprovedDoesNotLand: a branch that has moved, and a patch that is another one on the
// target, go back to review; what was canceled leaves the queue; and a gate that breaks is no refusal
// (C7, C12).
func TestWhatIsNotApprovedDoesNotLand(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth", "docs", "ui")
	c.detach()
	for _, id := range []string{"auth", "docs", "ui"} {
		c.approved(id, map[string]string{id + ".txt": "x\n"})
		c.enqueue(id, 0)
	}
	c.run(c.worktreeOf("auth", "task-auth", 1), "commit", "--quiet", "--allow-empty", "--message", "sneaked in")
	c.ok(lifecycle.MemberFailed)(c.Cancel(ctx, "docs", ann))
	m := c.merger()
	for _, want := range []string{"auth head_moved", "docs gone"} {
		if got := c.next(m); got != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	if m := check(t, c.Folder, "auth"); m.State != lifecycle.MemberInReview {
		t.Errorf("auth is %s", m.State)
	}
	// Nothing is stuck: it is sent back to work, and submitted again.
	c.ok(lifecycle.MemberWorking)(c.RequestChanges(ctx, "auth", "", ann))
	if r, err := c.Review(c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))); err != nil || r.Round != 2 {
		t.Errorf("the review is %+v, %v", r, err)
	}
	for gate, want := range map[string]string{"{run: 'echo no space left; exit 75'}": "no space left", "{run: 'sleep 60', timeout: 1s}": "longer than 1s"} {
		c.configure("gates: [" + strings.Replace(gate, "{", "{name: broken, ", 1) + "]")
		if _, err := m.Next(ctx, "main"); pawl.KindOf(err) != pawl.Unavailable || !strings.Contains(err.Error(), want) {
			t.Errorf("a gate that breaks: %v", err)
		}
	}
	dir := t.TempDir()
	c.write(dir, "move.sh", `echo "$PAWL_BASE" >>"$0.log"
test $(wc -l <"$0.log") -ge 3 && exit
export GIT_INDEX_FILE="$0.index" GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
git read-tree main
git update-index --add --cacheinfo 100644,$(echo "$PAWL_BASE" | git hash-object -w --stdin),moved
git update-ref refs/heads/main $(git commit-tree $(git write-tree) -p main -m moved)
`)
	c.configure("gates: [{name: slow, run: sh " + dir + "/move.sh}]")
	before := c.run(c.estate.Root, "rev-parse", "main")
	if got := c.next(m); got != "ui landed" { // the target moves while it is tested
		t.Errorf("%q", got)
	}
	if got := c.run(c.estate.Root, "log", "--format=%s", before+"..main"); got != "task-ui (ui)\nmoved\nmoved" {
		t.Errorf("main has\n%s", got)
	}
}

// TestFailuresOfTheQueue: whatever fails, the work lands once in the end, and waits until then (C7).
func TestFailuresOfTheQueue(t *testing.T) {
	t.Parallel()
	c := newCamp(t)
	c.detach()
	for fails := 1; ; fails += 2 { // before an operation, and after it
		id := fmt.Sprint("m", fails)
		if _, err := c.Spawn(t.Context(), id, Move{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		c.approved(id, map[string]string{id + ".txt": "x\n"})
		c.enqueue(id, 0)
		calls := 0
		c.Disk.Hook = func(durable.Op, string, bool) error {
			if calls++; calls == fails+fails/2%2 {
				return syscall.EIO
			}
			return nil
		}
		_, err := c.merger().Next(t.Context(), "main")
		c.Disk.Hook = nil
		if err == nil {
			if fails < 15 {
				t.Errorf("only %d operations", calls)
			}
			return
		}
		if got := c.next(c.merger()); got != id+" landed" {
			t.Fatalf("operation %d failed (%v), and then %q", fails, err, got)
		}
		if m := check(t, c.Folder, id); m.State != lifecycle.MemberCompleted {
			t.Errorf("operation %d failed, and the member is %s", fails, m.State)
		}
		if got := c.run(c.estate.Root, "log", "--format=%s", "main"); strings.Count(got, "("+id+")") != 1 {
			t.Errorf("operation %d failed, and main has\n%s", fails, got)
		}
	}
}

// TestKilledMergers: whenever mergers are killed, each work lands once, and the target has nothing else
// (C7).
func TestKilledMergers(t *testing.T) {
	t.Parallel()
	ids := []string{"auth", "docs", "ui", "api", "db", "cli"}
	c := newCamp(t, ids...)
	for _, id := range ids {
		c.approved(id, map[string]string{id + ".txt": "x\n"})
		c.enqueue(id, 0)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for range ids {
		p := exec.Command(self)
		p.Env = append(os.Environ(), envRepo+"="+c.estate.Root, "PAWL_CREW_TEST_MERGE="+c.Dir, "PAWL_CREW_TEST_TREES="+c.trees)
		p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(30*time.Millisecond+rand.N(250*time.Millisecond), func() { _ = syscall.Kill(-p.Process.Pid, syscall.SIGKILL) })
		if p.Wait() != nil {
			killed++
		}
	}
	if err := os.WriteFile(filepath.Join(c.estate.Root, ".git", "packed-refs.lock"), nil, 0o600); err != nil { // as a git leaves it that is killed
		t.Fatal(err)
	}
	m := c.merger()
	for c.next(m) != "" {
		continue
	}
	for _, id := range ids {
		if m := check(t, c.Folder, id); m.State != lifecycle.MemberCompleted {
			t.Errorf("%s is %s: %s", id, m.State, m.LastError)
		}
	}
	subjects := c.run(c.estate.Root, "log", "--format=%s", "main")
	for _, id := range ids {
		if n := strings.Count(subjects, "("+id+")"); n != 1 {
			t.Errorf("the work of %s is there %d times", id, n)
		}
	}
	if n := len(strings.Split(subjects, "\n")); n != len(ids)+1 {
		t.Errorf("main has\n%s", subjects)
	}
	if got := c.run(c.estate.Root, "status", "--porcelain"); got != "" {
		t.Errorf("the worktree has\n%s", got)
	}
	t.Logf("%d of %d were killed", killed, len(ids))
}

// mergeAll is a process that lands what waits, and may be killed.
func mergeAll(r *Repo, dir string) {
	f, err := Open(dir)
	m := &Merger{Crew: &Crew{Folder: f, Repo: r, Trees: os.Getenv("PAWL_CREW_TEST_TREES")}, By: Caller{Actor: "merger"}}
	for err == nil {
		var l *Landing
		if l, err = m.Next(context.Background(), "main"); l == nil && err == nil {
			os.Exit(0)
		}
	}
	fmt.Println(err)
	os.Exit(1)
}
