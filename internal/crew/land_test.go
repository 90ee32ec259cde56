package crew

import (
	"context"
	"encoding/json"
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

// work makes a branch with a commit that writes files, and returns the commit.
func (e *estate) work(name string, files map[string]string) (head string) {
	e.t.Helper()
	path, _ := e.add(name)
	for file, text := range files {
		e.write(path, file, text)
	}
	return e.commit(path, "work of "+name)
}

func (e *estate) candidate(head string, how Strategy) *Candidate {
	e.t.Helper()
	c, err := e.Candidate(e.t.Context(), head, "main", how, "land")
	if err != nil {
		e.t.Fatal(err)
	}
	return c
}

// detach leaves main checked out nowhere.
func (e *estate) detach() { e.t.Helper(); e.run(e.Root, "checkout", "--quiet", "--detach") }

// TestLanding: what lands is the candidate, its tree is that of a merge, and its patch does not change
// when the target moves elsewhere (C7).
func TestLanding(t *testing.T) {
	t.Parallel()
	for _, how := range []Strategy{Squash, Merge} {
		e := newEstate(t, 3)
		e.detach()
		a, b := e.work("auth", map[string]string{"a.txt": "a\n", "d0/f0.txt": "changed\n"}), e.work("docs", map[string]string{"b.txt": "b\n"})
		ca, before := e.candidate(a, how), e.candidate(b, how)
		if err := e.Land(t.Context(), ca); err != nil {
			t.Fatal(err)
		}
		if err := e.Land(t.Context(), ca); err != nil {
			t.Errorf("landed already: %v", err)
		}
		if err := e.Land(t.Context(), before); !errors.Is(err, ErrMoved) {
			t.Errorf("on a target that has moved: %v", err)
		}
		after := e.candidate(b, how)
		if before.Patch != after.Patch || before.Tree == after.Tree {
			t.Errorf("%s: before %+v, after %+v", how, before, after)
		}
		if err := e.Land(t.Context(), after); err != nil {
			t.Fatal(err)
		}
		if got := e.run(e.Root, "rev-parse", "main", "main^{tree}"); got != after.Commit+"\n"+after.Tree {
			t.Errorf("main is at %s, want %+v", got, after)
		}
		if got := e.run(e.Root, "diff", "--name-only", e.base, "main"); got != "a.txt\nb.txt\nd0/f0.txt" {
			t.Errorf("landed: %s", got)
		}
		want := map[Strategy]string{Squash: "3", Merge: "5"}[how]
		if got := e.run(e.Root, "rev-list", "--count", "main"); got != want {
			t.Errorf("%s: %s commits, want %s", how, got, want)
		}
	}
}

// TestConflicts: a conflict names its paths, and changes nothing (C7).
func TestConflicts(t *testing.T) {
	t.Parallel()
	e := newEstate(t, 3)
	e.detach()
	a := e.work("auth", map[string]string{"d0/f0.txt": "a\n", "d1/f1.txt": "a\n", "new.txt": "a"})
	b := e.work("docs", map[string]string{"d0/f0.txt": "b\n", "d1/f1.txt": "b\n"})
	if err := e.Land(t.Context(), e.candidate(a, Squash)); err != nil {
		t.Fatal(err)
	}
	before := e.run(e.Root, "for-each-ref")
	_, err := e.Candidate(t.Context(), b, "main", Squash, "land")
	var conflict *ConflictError
	if !errors.As(err, &conflict) || cmp.Diff([]string{"d0/f0.txt", "d1/f1.txt"}, conflict.Paths) != "" {
		t.Errorf("%v", err)
	}
	if after := e.run(e.Root, "for-each-ref"); after != before {
		t.Errorf("refs are\n%s", after)
	}
	if _, err := e.Candidate(t.Context(), b, "nowhere", Squash, "land"); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("on a target that does not exist: %v", err)
	}
}

// TestLandingWhereCheckedOut: the files of a worktree with the target follow; where they have changes,
// or others are in the way, nothing lands and nothing is lost (C7, C8).
func TestLandingWhereCheckedOut(t *testing.T) {
	t.Parallel()
	e := newEstate(t, 3)
	c := e.candidate(e.work("auth", map[string]string{"a.txt": "a\n", "d0/f0.txt": "changed\n"}), Squash)
	refuses := func(text string) {
		t.Helper()
		var loss *LossError
		if err := e.Land(t.Context(), c); !errors.As(err, &loss) || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), e.Root) {
			t.Errorf("%v, want one that names %s", err, text)
		}
		if got := e.run(e.Root, "rev-parse", "main"); got != e.base {
			t.Errorf("main is at %s", got)
		}
	}
	e.write(e.Root, "d1/f1.txt", "mine\n")
	refuses("d1/f1.txt")
	e.run(e.Root, "checkout", "--quiet", "d1/f1.txt")
	e.write(e.Root, "a.txt", "mine\n")
	refuses("a.txt")
	e.write(e.Root, "other.txt", "mine\n")
	if err := os.Remove(filepath.Join(e.Root, "a.txt")); err != nil {
		t.Fatal(err)
	}
	if err := e.Land(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if got := e.run(e.Root, "status", "--porcelain"); got != "?? other.txt" {
		t.Errorf("the worktree has\n%s", got)
	}
	if got := string(read(t, filepath.Join(e.Root, "d0/f0.txt"))); got != "changed\n" {
		t.Errorf("the file has %q", got)
	}
}

// TestQueuesThatRace: of many candidates on one commit, one lands; the others are told that the
// target has moved, and all land in the end (C7).
func TestQueuesThatRace(t *testing.T) {
	t.Parallel()
	e := newEstate(t, 1)
	const n = 4
	var heads []string
	for i := range n {
		heads = append(heads, e.work(fmt.Sprint("m", i), map[string]string{fmt.Sprint(i, ".txt"): "x\n"}))
	}
	var all sync.WaitGroup
	for _, head := range heads {
		all.Go(func() {
			for {
				c, err := e.Candidate(t.Context(), head, "main", Squash, "land")
				if err == nil {
					err = e.Land(t.Context(), c)
				}
				if err == nil || !errors.Is(err, ErrMoved) {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	all.Wait()
	if got := e.run(e.Root, "rev-list", "--count", "main"); got != fmt.Sprint(n+1) {
		t.Errorf("main has %s commits, want %d", got, n+1)
	}
	if got := e.run(e.Root, "status", "--porcelain"); got != "" {
		t.Errorf("the worktree has\n%s", got)
	}
}

// land is a process that lands a candidate, and may be killed.
func land(r *Repo, text string) {
	var c Candidate
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = r.Land(context.Background(), &c)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(0)
}

// TestKilledLandings: whenever the process of a landing is killed, with its git or without, the target
// has moved or not; the next landing brings the files of the worktree to where its branch is (C7).
func TestKilledLandings(t *testing.T) {
	t.Parallel()
	e := newEstate(t, 300)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	within, landed := 0, 0
	for i := range 6 {
		files := map[string]string{fmt.Sprint("new", i, ".txt"): "new\n"}
		for f := range 200 {
			files[fmt.Sprintf("d%d/f%d.txt", f%20, f)] = fmt.Sprintf("%d of %d\n", i, f)
		}
		e.base = e.run(e.Root, "rev-parse", "main")
		c := e.candidate(e.work(fmt.Sprint("m", i), files), Squash)
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		p := exec.Command(self)
		p.Env = append(os.Environ(), envRepo+"="+e.Root, "PAWL_CREW_TEST_LAND="+string(text))
		p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(20*time.Millisecond+rand.N(60*time.Millisecond), func() {
			group := -p.Process.Pid
			if i%3 == 0 {
				group = -group // git runs on
			}
			_ = syscall.Kill(group, syscall.SIGKILL)
		})
		_ = p.Wait()
		if _, err := os.Stat(e.landingFile()); err == nil {
			within++
		}
		if was, err := e.Landed(t.Context(), c); err != nil {
			t.Fatal(err)
		} else if was {
			landed++
		} else if got := e.run(e.Root, "rev-parse", "main"); got != e.base && got != c.Commit { // a git that was left may still land it
			t.Errorf("neither landed nor not: main is at %s", got)
		}
		if err := e.Land(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := e.run(e.Root, "rev-parse", "main"); got != c.Commit {
			t.Errorf("main is at %s", got)
		}
		if got := e.run(e.Root, "status", "--porcelain"); got != "" {
			t.Fatalf("the worktree has\n%s", got)
		}
	}
	t.Logf("of 6, %d were killed within, %d had landed", within, landed)
}
