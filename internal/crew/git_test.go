package crew

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
)

// An estate is a repository with one commit on main, and a place for worktrees.
type estate struct {
	t *testing.T
	*Repo
	trees string
	base  string
}

// gitConfig keeps the settings of whoever runs the tests away from git.
var gitConfig = []string{"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}

func newEstate(t *testing.T, files int) *estate {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e := &estate{t: t, trees: filepath.Join(dir, "trees"), Repo: &Repo{Root: filepath.Join(dir, "repo")}}
	if err := os.Mkdir(e.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	e.run(e.Root, "init", "--quiet", "--initial-branch", "main")
	for i := range files {
		e.write(e.Root, fmt.Sprintf("d%d/f%d.txt", i%20, i), fmt.Sprint("line\n", i, "\n"))
	}
	e.base = e.commit(e.Root, "first")
	if e.Repo, err = FindRepo(t.Context(), e.Root); err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *estate) run(dir string, args ...string) string {
	e.t.Helper()
	// A commit would start two more processes, which look for maintenance to do.
	out, err := git(e.t.Context(), dir, gitConfig, append([]string{"-c", "maintenance.auto=false"}, args...)...)
	if err != nil {
		e.t.Fatalf("git %v: %v", args, err)
	}
	return out
}

func (e *estate) write(dir, name, text string) {
	e.t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		e.t.Fatal(err)
	}
}

// commit commits all that a worktree has, and returns the commit.
func (e *estate) commit(dir, message string) string {
	e.t.Helper()
	e.run(dir, "add", "--all")
	e.run(dir, "commit", "--quiet", "--message", message)
	return e.run(dir, "rev-parse", "HEAD")
}

func (e *estate) add(name string) (path, branch string) {
	e.t.Helper()
	path, branch = filepath.Join(e.trees, name), name+"/task"
	if err := e.AddWorktree(e.t.Context(), path, branch, e.base); err != nil {
		e.t.Fatal(err)
	}
	return path, branch
}

func (e *estate) inspect(path string) *Tree {
	e.t.Helper()
	tree, err := e.Inspect(e.t.Context(), path, e.base)
	if err != nil {
		e.t.Fatal(err)
	}
	return tree
}

// TestParallelWorktrees: 16 at once are all made, though git cannot do that by itself (C7).
func TestParallelWorktrees(t *testing.T) {
	t.Parallel()
	e := newEstate(t, 20)
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			name := fmt.Sprint("m", i)
			if err := e.AddWorktree(t.Context(), filepath.Join(e.trees, name), name+"/task", e.base); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for i := range 16 {
		want := &Tree{Branch: fmt.Sprintf("m%d/task", i), Head: e.base, Based: true}
		if diff := cmp.Diff(want, e.inspect(filepath.Join(e.trees, fmt.Sprint("m", i)))); diff != "" {
			t.Error(diff)
		}
	}
}

// TestKilledWorktrees: a process that is killed while it makes a worktree leaves nothing that is in
// the way of the next one (C7).
func TestKilledWorktrees(t *testing.T) {
	t.Parallel()
	e := newEstate(t, 400)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	killed := 0
	for i := range 12 {
		name := fmt.Sprint("m", i)
		path := filepath.Join(e.trees, name)
		c := exec.Command(self)
		c.Env = append(os.Environ(), envRepo+"="+e.Root, "PAWL_CREW_TEST_TREE="+path, "PAWL_CREW_TEST_BASE="+e.base)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(10*time.Millisecond+rand.N(60*time.Millisecond), func() {
			group := -c.Process.Pid
			if i%3 == 0 {
				group = -group // git runs on
			}
			_ = syscall.Kill(group, syscall.SIGKILL)
		})
		_ = c.Wait()
		if _, err := os.Stat(e.addingFile()); err == nil {
			killed++
		}
		if err := e.AddWorktree(t.Context(), path, name+"/task", e.base); err != nil {
			t.Errorf("after a kill: %v", err)
			continue
		}
		if diff := cmp.Diff(&Tree{Branch: name + "/task", Head: e.base, Based: true}, e.inspect(path)); diff != "" {
			t.Errorf("after a kill: %s", diff)
		}
	}
	t.Logf("%d of 12 were killed within", killed)
}

// addWorktree is a process that makes a worktree, and may be killed.
func addWorktree(root string) {
	ctx := context.Background()
	r, err := FindRepo(ctx, root)
	if err == nil {
		if dir := os.Getenv("PAWL_CREW_TEST_MERGE"); dir != "" {
			mergeAll(r, dir)
		}
		if dir := os.Getenv("PAWL_CREW_TEST_RUN"); dir != "" {
			runAgent(r, dir)
		}
		if c := os.Getenv("PAWL_CREW_TEST_LAND"); c != "" {
			land(r, c)
		}
		path := os.Getenv("PAWL_CREW_TEST_TREE")
		err = r.AddWorktree(ctx, path, filepath.Base(path)+"/task", os.Getenv("PAWL_CREW_TEST_BASE"))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestWhatIsInTheWay: a branch, a folder or a worktree of others is named, and stays (C7, C8).
func TestWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	e := newEstate(t, 1)
	path, branch := e.add("auth")
	e.write(path, "new.txt", "work")
	if err := e.AddWorktree(t.Context(), path, branch, e.base); err != nil { // as after a crash of start
		t.Errorf("the same again: %v", err)
	}
	if got := e.inspect(path).Dirty; cmp.Diff([]string{"new.txt"}, got) != "" {
		t.Errorf("the work is gone: %v", got)
	}
	head := e.commit(path, "work")
	e.run(path, "branch", "other")
	e.write(filepath.Join(e.trees, "docs"), "precious.txt", "x")
	for name, want := range map[string]struct {
		path, branch, text string
	}{
		"a branch with commits":    {filepath.Join(e.trees, "x"), "other", short(head)},
		"a branch of another":      {filepath.Join(e.trees, "x"), branch, path},
		"a branch in use":          {filepath.Join(e.trees, "x"), "main", e.Root},
		"a folder of somebody":     {filepath.Join(e.trees, "docs"), "docs/task", "docs is not empty"},
		"a worktree of another":    {path, "docs/task", "another worktree"},
		"a branch named like this": {filepath.Join(e.trees, "x"), "auth", "auth"},
	} {
		if err := e.AddWorktree(t.Context(), want.path, want.branch, e.base); err == nil || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text := read(t, filepath.Join(e.trees, "docs", "precious.txt")); string(text) != "x" {
		t.Error("what somebody had there is changed")
	}
}

// TestNothingIsLost: what is not committed, or committed and nowhere else, is not removed; a rescue
// keeps it and changes nothing (C8).
func TestNothingIsLost(t *testing.T) {
	t.Parallel()
	e := newEstate(t, 3)
	e.write(e.Root, ".gitignore", "cache/\n")
	e.base = e.commit(e.Root, "second")
	path, branch := e.add("auth")
	refuses := func(text string) {
		t.Helper()
		var loss *LossError
		if err := e.RemoveWorktree(t.Context(), path, branch, "main"); !errors.As(err, &loss) || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want one that names %s", err, text)
		}
	}
	e.write(path, "d0/f0.txt", "changed")
	e.write(path, "new file.txt", "new")
	e.write(path, "cache/big", "ignored")
	e.run(path, "rm", "--quiet", "d1/f1.txt")
	refuses("d0/f0.txt")

	before, index := e.run(path, "status", "--porcelain"), e.run(path, "diff", "--cached")
	rescued, err := e.Rescue(t.Context(), path, refs+"rescue/auth/1")
	if err != nil {
		t.Fatal(err)
	}
	if after := e.run(path, "status", "--porcelain"); after != before || e.run(path, "diff", "--cached") != index || e.run(path, "stash", "list") != "" {
		t.Errorf("the rescue changed something: %s", after)
	}
	if got := e.run(e.Root, "diff", "--name-status", e.base, rescued); got != "M\td0/f0.txt\nD\td1/f1.txt\nA\tnew file.txt" {
		t.Errorf("rescued:\n%s", got)
	}
	refuses("d0/f0.txt") // it is still not committed

	e.commit(path, "work")
	refuses("commits that main does not have")
	if _, err := e.Rescue(t.Context(), path, refs+"rescue/auth/2"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // done once, it is done
		if err := e.RemoveWorktree(t.Context(), path, branch, "main"); err != nil {
			t.Fatal(err)
		}
	}
	e.run(e.Root, "gc", "--quiet", "--prune=now")
	for ref, want := range map[string]string{"rescue/auth/1:d0/f0.txt": "changed", "rescue/auth/2:new file.txt": "new"} {
		if got := e.run(e.Root, "show", refs+ref); got != want {
			t.Errorf("%s has %q", ref, got)
		}
	}
	// A folder that was removed by hand causes no error.
	path, branch = e.add("docs")
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := e.RemoveWorktree(t.Context(), path, branch, "main"); err != nil {
		t.Error(err)
	}
	if there, _, err := e.branch(t.Context(), branch); there || err != nil {
		t.Errorf("the branch is there: %t, %v", there, err)
	}
}

// TestStrayFolders: git is never let loose on the repository above a folder that is no worktree
// (C8).
func TestStrayFolders(t *testing.T) {
	t.Parallel()
	e := newEstate(t, 1)
	stray := filepath.Join(e.Root, "sub")
	e.write(stray, "x.txt", "x")
	for name, f := range map[string]func(context.Context) error{
		"inspect": func(ctx context.Context) error { _, err := e.Inspect(ctx, stray, e.base); return err },
		"rescue":  func(ctx context.Context) error { _, err := e.Rescue(ctx, stray, refs+"x"); return err },
		"remove":  func(ctx context.Context) error { return e.RemoveWorktree(ctx, stray, "x", "main") },
	} {
		if err := f(t.Context()); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := FindRepo(t.Context(), t.TempDir()); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("outside of any repository: %v", err)
	}
	path, _ := e.add("auth")
	if r, err := FindRepo(t.Context(), path); err != nil || r.Root != e.Root {
		t.Errorf("from a worktree: %+v, %v", r, err)
	}
	for range 2 {
		if err := e.Exclude(); err != nil {
			t.Fatal(err)
		}
	}
	e.write(path, FolderName+"/auth.json", "{}")
	if got := e.inspect(path).Dirty; got != nil {
		t.Errorf("not excluded: %v", got)
	}
}

// TestPatchIDs: a clean rebase keeps it, another change does not (C7).
func TestPatchIDs(t *testing.T) {
	t.Parallel()
	e := newEstate(t, 5)
	path, _ := e.add("auth")
	e.write(path, "a.txt", "one\n")
	head := e.commit(path, "work")
	e.write(e.Root, "b.txt", "two\n")
	main := e.commit(e.Root, "other")
	e.run(path, "rebase", "--quiet", main)
	rebased := e.run(path, "rev-parse", "HEAD")
	e.write(path, "a.txt", "three\n")
	changed := e.commit(path, "more")
	id := func(base, head string) string {
		t.Helper()
		id, err := e.patchID(t.Context(), base, head)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	if a, b, c := id(e.base, head), id(main, rebased), id(main, changed); a == "" || a != b || a == c || id(main, main) != "" {
		t.Errorf("before %q, rebased %q, changed %q", a, b, c)
	}
	if commit, err := e.Commit(t.Context(), "main"); err != nil || commit != main {
		t.Errorf("main is %s, %v", commit, err)
	}
	for _, name := range []string{"nothing", "--all", ""} {
		if _, err := e.Commit(t.Context(), name); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("%q: %v", name, err)
		}
	}
}
