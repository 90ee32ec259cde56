package crew

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/lifecycle"
)

// script is a program of a shell.
func script(text string) Program {
	return Program{Argv: []string{"sh", "-c", text}, Env: gitConfig}
}

// TestPrograms: a program works in its worktree, and what it has done decides what follows (C11).
func TestPrograms(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	for name, tt := range map[string]struct {
		script string
		state  string
		reason string
	}{
		"commits":           {"echo x >new.txt && git add . && git commit -qm work", "IN_REVIEW", ""},
		"does nothing":      {"true", "ASSIGNED", "has no commit of its own"},
		"commits nothing":   {"echo x >new.txt", "ASSIGNED", "has no commit of its own"},
		"leaves a file":     {"git commit -qm work --allow-empty && echo x >new.txt", "ASSIGNED", "new.txt"},
		"fails":             {"exit 3", "ASSIGNED", "has ended with code 3"},
		"is killed":         {"kill -9 $$", "ASSIGNED", "ended by signal killed"},
		"reads its input":   {"cat && exit 4", "ASSIGNED", "code 4"},
		"leaves its branch": {"git checkout -q --detach && git commit -qm work --allow-empty", "ASSIGNED", "is on the branch"},
		"opens an editor":   {"git commit --allow-empty; exit 5", "ASSIGNED", "code 5"},
		"loses its folder":  {`rm -rf "$PWD" && cd / && exit 0`, "ASSIGNED", "there is no worktree"},
		"knows its task":    {`test "$PAWL_WORKER $PAWL_TASK $PAWL_ATTEMPT $PAWL_TARGET $PAWL_PROMPT" = "auth t1 1 main do it" || exit 6; exit 7`, "ASSIGNED", "code 7"},
		"works for nothing": {"nonexistent-program", "ASSIGNED", "code 127"},
	} {
		if _, err := c.Assign(ctx, "auth", Task{ID: "t1", Target: "main", Prompt: "do it"}, ann); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Run(ctx, "auth", script(tt.script), ann, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		m := check(t, c.Folder, "auth")
		if string(m.State) != tt.state || !strings.Contains(string(m.LastError), tt.reason) {
			t.Errorf("%s: %s, %q", name, m.State, m.LastError)
		}
		run, err := c.RunOf("auth", m.Epoch-int64(m.Attempt-1))
		if err != nil || !run.Launched || run.Alive || run.Tree || run.Exit == nil {
			t.Errorf("%s: the run is %+v, %v", name, run, err)
		}
		c.ok(lifecycle.MemberFailed)(c.Cancel(ctx, "auth", ann))
		c.ok(lifecycle.MemberIdle)(c.Rest(ctx, "auth", ann))
		c.run(c.estate.Root, "worktree", "prune")
		for _, branch := range strings.Fields(c.run(c.estate.Root, "for-each-ref", "--format=%(refname)", "refs/heads/auth")) {
			c.run(c.estate.Root, "update-ref", "-d", branch)
		}
		if err := os.RemoveAll(filepath.Join(c.trees, "auth")); err != nil {
			t.Fatal(err)
		}
		c.run(c.estate.Root, "worktree", "prune")
	}
}

// TestWhatAProgramLeaves: what a program has left running is ended with it, whatever it did to be on its
// own (C11).
func TestWhatAProgramLeaves(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth")
	if _, err := c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main"}, ann); err != nil {
		t.Fatal(err)
	}
	pids := filepath.Join(t.TempDir(), "pids")
	p := script(fmt.Sprintf(`sleep 1000 & echo $! >>%[1]s; setsid sh -c 'echo $$ >>%[1]s; exec sleep 1000' & while [ "$(wc -l <%[1]s)" -lt 2 ]; do sleep 0.01; done; exit 3`, pids))
	if _, err := c.Run(t.Context(), "auth", p, ann, nil); err != nil {
		t.Fatal(err)
	}
	for _, text := range strings.Fields(string(read(t, pids))) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		wait(t, func() bool { return syscall.Kill(pid, 0) != nil })
	}
}

// TestStopAProgram: a program whose context ends is stopped, and a second one does not begin beside it
// (C5, C11).
func TestStopAProgram(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth")
	if _, err := c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main"}, ann); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(ctx, "auth", script("trap 'exit 0' TERM; while :; do sleep 0.01; done"), ann, nil)
		ended <- err
	}()
	wait(t, func() bool { m, err := c.Load("auth"); return err != nil || m.State == lifecycle.MemberWorking })
	if _, err := c.Run(t.Context(), "auth", script("true"), ann, nil); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("a second program: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if m := check(t, c.Folder, "auth"); m.State != lifecycle.MemberAssigned || m.LastError != "it was stopped" {
		t.Errorf("%s, %q", m.State, m.LastError)
	}
}

// TestLoudProgram: of what a program prints the end is kept, and no more than twice the size of a log (C11).
func TestLoudProgram(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth")
	if _, err := c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main"}, ann); err != nil {
		t.Fatal(err)
	}
	c.ok(lifecycle.MemberAssigned)(c.Run(t.Context(), "auth", script("yes 0123456789 | head -c 250000003; echo the end; exit 3"), ann, nil))
	files, err := filepath.Glob(filepath.Join(c.runDir("auth", 1), "stdout.log*"))
	if err != nil {
		t.Fatal(err)
	}
	var size int64
	for _, path := range files {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		size += info.Size()
	}
	o, err := c.OutputOf("auth", 1, 1)
	if err != nil || o.Stdout != "the end\n" || size < runLog || size > 2*runLog+1<<20 {
		t.Errorf("%d bytes in %v, the last line is %q, %v", size, files, o.Stdout, err)
	}
}

// TestGuard: git, as a program runs it, keeps to the branch of its member: no stash, no other branch, nothing
// in the main worktree. What belongs to the work is possible, hooks of the repository run, and no
// configuration has changed (C7, C11).
func TestGuard(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth")
	if _, err := c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main"}, ann); err != nil {
		t.Fatal(err)
	}
	c.write(c.estate.Root, ".git/hooks/pre-commit", "#!/bin/sh\necho hooked >>"+filepath.Join(c.estate.Root, ".git", "hooked")+"\n")
	if err := os.Chmod(filepath.Join(c.estate.Root, ".git/hooks/pre-commit"), 0o755); err != nil {
		t.Fatal(err)
	}
	before := c.run(c.estate.Root, "for-each-ref") + c.run(c.estate.Root, "config", "--list", "--local")
	work := script(`refused() { if "$@" 2>>err.log; then echo "not refused: $*"; exit 9; fi; }
echo x >new.txt && git add new.txt
refused git stash
refused git checkout -q -b mine
refused git branch other
refused git update-ref refs/pawl/mine HEAD
refused git -C ` + c.estate.Root + ` commit -qm elsewhere --allow-empty
refused git update-ref refs/heads/main HEAD
git checkout -q HEAD -- . 2>/dev/null
git commit -qm one && git commit -q --amend -m two && git commit -qm three --allow-empty && git reset -q --soft HEAD^ && git commit -qm four --allow-empty &&
git rebase -q "$PAWL_TARGET" && git tag mark && mv err.log ../ && git status --short`)
	m, err := c.Run(t.Context(), "auth", work, ann, nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := c.runDir("auth", 1)
	if m.State != lifecycle.MemberInReview {
		t.Fatalf("%s, %s\n%s%s", m.State, m.LastError, read(t, filepath.Join(dir, "stdout.log")), read(t, filepath.Join(dir, "stderr.log")))
	}
	if got := string(read(t, filepath.Join(c.trees, "auth", "err.log"))); strings.Count(got, "pawl: member auth works on the branch auth/t1") != 6 {
		t.Errorf("the refusals say\n%s", got)
	}
	c.run(c.estate.Root, "update-ref", "-d", "refs/tags/mark")
	c.run(c.estate.Root, "update-ref", "-d", "refs/pawl/submitted/auth/t1")
	c.run(c.estate.Root, "worktree", "remove", "--force", c.worktreeOf("auth", "t1", 1))
	c.run(c.estate.Root, "update-ref", "-d", "refs/heads/auth/t1")
	if diff := cmp.Diff(before, c.run(c.estate.Root, "for-each-ref")+c.run(c.estate.Root, "config", "--list", "--local")); diff != "" {
		t.Error(diff)
	}
	if got := strings.Count(string(read(t, filepath.Join(c.estate.Root, ".git", "hooked"))), "hooked"); got < 4 {
		t.Errorf("the hook of the repository ran %d times", got)
	}
}

// TestCanceledProgram: the program of a member that is canceled ends soon (C1, C11).
func TestCanceledProgram(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth")
	if _, err := c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main"}, ann); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), "auth", script("exec sleep 1000"), ann, func(*Member) {
			if _, err := c.Cancel(t.Context(), "auth", ann); err != nil {
				t.Error(err)
			}
		})
		ended <- err
	}()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if m := check(t, c.Folder, "auth"); m.State != lifecycle.MemberFailed || m.LastError != "it was canceled" {
		t.Errorf("%s, %q", m.State, m.LastError)
	}
}

// hastens moves the clock of a camp to 20 ms before the next attempt of a member, once that has a time.
func (c *camp) hastens(id string) {
	var mu sync.Mutex
	c.Now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		if m, err := c.Load(id); err == nil {
			if a, err := c.Assignment(m); err == nil && !a.Before.IsZero() {
				c.ahead = max(c.ahead, time.Until(a.Before.Time())-20*time.Millisecond)
			}
		}
		return time.Now().Add(c.ahead)
	}
}

// TestAttemptsOfARunner: while attempts are left, the next one begins after a while, on a branch of its own, and what
// it begins with is the target as it is then (C9).
func TestAttemptsOfARunner(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth")
	c.detach()
	if _, err := c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main"}, ann); err != nil {
		t.Fatal(err)
	}
	begun := 0
	c.hastens("auth")
	m, err := c.RunAll(t.Context(), "auth", func(*Member) (Program, error) {
		return script(`test "$PAWL_ATTEMPT" = 2 || exit 3; echo x >new.txt && git add . && git commit -qm work`), nil
	}, ann, func(*Member) { begun++ })
	if err != nil || m.State != lifecycle.MemberInReview || m.Branch != "auth/t1.2" || m.Attempt != 2 || begun != 1 {
		t.Errorf("%+v, %v, begun %d times", m, err, begun)
	}
}

// TestSetup: a new worktree is prepared once for an assignment; if that fails the member has failed, and if
// it cannot be tried it still waits (C1).
func TestSetup(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	c.detach()
	log := filepath.Join(t.TempDir(), "log")
	c.configure("setup: {run: 'echo $PAWL_TASK >>" + log + "; exit 75'}")
	c.ok(lifecycle.MemberAssigned)(c.Assign(ctx, "auth", Task{ID: "t1", Target: "main"}, ann))
	if _, err := c.Run(ctx, "auth", script("true"), ann, nil); pawl.KindOf(err) != pawl.Unavailable {
		t.Errorf("a setup that could not be run: %v", err)
	}
	c.configure("setup: {run: 'echo $PAWL_TASK >>" + log + "'}")
	c.ok(lifecycle.MemberInReview)(c.Run(ctx, "auth", script("git commit -qm work --allow-empty"), ann, nil))
	c.ok(lifecycle.MemberWorking)(c.RequestChanges(ctx, "auth", "", ann))
	c.ok(lifecycle.MemberInReview)(c.Run(ctx, "auth", script("git commit -qm more --allow-empty"), ann, nil))
	if got := string(read(t, log)); got != "t1\nt1\n" {
		t.Errorf("prepared for %q", got)
	}
	c.ok(lifecycle.MemberFailed)(c.Cancel(ctx, "auth", ann))
	c.ok(lifecycle.MemberIdle)(c.Rest(ctx, "auth", ann))
	c.configure("setup: {run: 'echo no such package; exit 1'}")
	c.ok(lifecycle.MemberAssigned)(c.Assign(ctx, "auth", Task{ID: "t1", Target: "main"}, ann))
	if m := c.ok(lifecycle.MemberFailed)(c.Run(ctx, "auth", script("true"), ann, nil)); m.LastError != "setup: it has ended with code 1: no such package" {
		t.Errorf("%q", m.LastError)
	}
}

// TestKilledRunner: a runner that is killed takes its program with it, and patrol knows at once (C5).
func TestKilledRunner(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth")
	if _, err := c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main"}, ann); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pid := filepath.Join(t.TempDir(), "pid")
	p := exec.Command(self)
	p.Env = append(os.Environ(), envRepo+"="+c.estate.Root, "PAWL_CREW_TEST_RUN="+c.Dir, "PAWL_CREW_TEST_TREES="+c.trees, "PAWL_CREW_TEST_PID="+pid)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { text, err := os.ReadFile(pid); return err == nil && len(text) > 0 })
	if list, err := c.Patrol(t.Context(), Patrol{Fix: true}); err != nil || len(list) > 0 {
		t.Errorf("while it runs: %+v, %v", list, err)
	}
	_ = p.Process.Kill()
	_ = p.Wait()
	agent, err := strconv.Atoi(strings.TrimSpace(string(read(t, pid))))
	if err != nil {
		t.Fatal(err)
	}
	wait(t, func() bool { return syscall.Kill(agent, 0) != nil })
	list, err := c.Patrol(t.Context(), Patrol{Fix: true})
	if err != nil || len(list) != 2 || list[0].Event != lifecycle.MemberDied || !list[0].Done || list[1].Event != lifecycle.MemberReassign || !list[1].Done {
		t.Errorf("after a kill: %+v, %v", list, err)
	}
	if m := check(t, c.Folder, "auth"); m.State != lifecycle.MemberAssigned || m.Attempt != 2 || m.Branch != "auth/t1.2" || m.LastError != "its program was killed" {
		t.Errorf("it is %+v", m)
	}
	if got := c.run(c.estate.Root, "show", "refs/pawl/rescue/auth/t1:unsaved.txt"); got != "x" {
		t.Errorf("rescued: %q", got)
	}
}

// runAgent is a runner that may be killed.
func runAgent(r *Repo, dir string) {
	f, err := Open(dir)
	if err == nil {
		c := &Crew{Folder: f, Repo: r, Trees: os.Getenv("PAWL_CREW_TEST_TREES")}
		_, err = c.Run(context.Background(), "auth", script("echo x >unsaved.txt; echo $$ >"+os.Getenv("PAWL_CREW_TEST_PID")+"; exec sleep 1000"), ann, func(*Member) { Ready(nil) })
	}
	Ready(err)
	fmt.Println(err)
	os.Exit(1)
}

// TestLaunch: a runner of its own goes on by itself once the member works, and says why if it does not
// (C11).
func TestLaunch(t *testing.T) {
	c := newCamp(t, "auth")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pid := filepath.Join(t.TempDir(), "pid")
	for key, value := range map[string]string{envRepo: c.estate.Root, "PAWL_CREW_TEST_RUN": c.Dir, "PAWL_CREW_TEST_TREES": c.trees, "PAWL_CREW_TEST_PID": pid} {
		t.Setenv(key, value)
	}
	launch := func() (*Member, error) { return c.Launch(t.Context(), "auth", []string{self}) }
	c.refuses("event start_work")(launch())
	c.ok(lifecycle.MemberAssigned)(c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main"}, ann))
	m := c.ok(lifecycle.MemberWorking)(launch())
	if _, err := launch(); pawl.KindOf(err) != pawl.Conflict || !strings.Contains(err.Error(), "works for member auth already") {
		t.Errorf("a second runner: %v", err)
	}
	run, err := c.RunOf("auth", m.Epoch)
	if err != nil || !run.Alive {
		t.Errorf("the run is %+v, %v", run, err)
	}
	c.ok(lifecycle.MemberFailed)(c.Cancel(t.Context(), "auth", ann))
	wait(t, func() bool { run, err := c.RunOf("auth", m.Epoch); return err != nil || !run.Alive && !run.Tree })
	if _, err := c.Launch(t.Context(), "auth", []string{"/bin/false"}); err == nil || !strings.Contains(err.Error(), "has ended at once") {
		t.Errorf("a runner that ends at once: %v", err)
	}
	if _, err := c.Launch(t.Context(), "auth", []string{"/nonexistent"}); err == nil {
		t.Error("a runner that does not exist")
	}
}

// TestLostFolders: a program is stopped when the folder of its crew or its worktree is gone (C11).
func TestLostFolders(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose func(*Crew) string
		want func(*Crew, *Member, error) bool
	}{
		"the crew": {func(c *Crew) string { return c.Dir }, func(_ *Crew, _ *Member, err error) bool {
			gone := (*durable.GoneError)(nil)
			return errors.As(err, &gone)
		}},
		"the worktree": {func(c *Crew) string { return c.Trees }, func(c *Crew, m *Member, err error) bool {
			return err == nil && m.State == lifecycle.MemberAssigned && strings.HasSuffix(string(m.LastError), "was removed while this process worked on it")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCamp(t, "auth")
			if _, err := c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main"}, ann); err != nil {
				t.Fatal(err)
			}
			pids := filepath.Join(t.TempDir(), "pid")
			p := script(fmt.Sprintf("echo $$ >%[1]s2 && mv %[1]s2 %[1]s; cd /; while :; do sleep 0.01; done", pids))
			go func() {
				wait(t, func() bool { _, err := os.Stat(pids); return err == nil })
				lost := tt.lose(c.Crew)
				if err := os.Rename(lost, lost+".away"); err != nil { // in one step: files are made in it meanwhile
					t.Error(err)
				}
			}()
			m, err := c.Run(t.Context(), "auth", p, ann, nil)
			if !tt.want(c.Crew, m, err) {
				t.Errorf("%+v, %v", m, err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(read(t, pids))))
			if err != nil || syscall.Kill(pid, 0) == nil {
				t.Errorf("process %d still runs, %v", pid, err)
			}
		})
	}
}

// TestEndedInTime: a canceled step of a crew is not given up while the program of the member is ended (T1).
func TestEndedInTime(t *testing.T) {
	t.Parallel()
	if endTime >= decide.CancelGrace {
		t.Errorf("a program may take %s to end, and a canceled step %s", endTime, decide.CancelGrace)
	}
	c := newCamp(t, "auth")
	if _, err := c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main"}, ann); err != nil {
		t.Fatal(err)
	}
	begun := filepath.Join(t.TempDir(), "begun")
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), "auth", script("trap '' TERM; : >"+begun+"; while :; do sleep 0.01; done"), ann, nil)
		ended <- err
	}()
	wait(t, func() bool { _, err := os.Stat(begun); return err == nil })
	m, err := c.Cancel(t.Context(), "auth", ann)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ended(t.Context(), m); err != nil {
		t.Error(err)
	}
	if run, err := c.RunOf("auth", m.Epoch); err != nil || run.Tree {
		t.Errorf("its program ignores SIGTERM, and runs: %+v, %v", run, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestEnded: of an assignment that is over nothing runs any more once Ended
// returns (C9).
func TestEnded(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth")
	if _, err := c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main"}, ann); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	begun, end := filepath.Join(dir, "begun"), filepath.Join(dir, "end")
	ended := make(chan error, 1)
	go func() {
		_, err := c.Run(t.Context(), "auth", script("trap 'sleep 0.3; : >"+end+"; exit 1' TERM; : >"+begun+"; while :; do sleep 0.01; done"), ann, nil)
		ended <- err
	}()
	wait(t, func() bool { _, err := os.Stat(begun); return err == nil })
	m, err := c.Cancel(t.Context(), "auth", ann)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ended(t.Context(), m); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(end); err != nil {
		t.Errorf("the program has not ended: %v", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
