package crew

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestUntil: of several that land one queue at once each learns what became of its own work, whoever
// has landed it (C7).
func TestUntil(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth", "docs", "shop")
	c.approved("auth", map[string]string{"a.txt": "a\n"})
	c.approved("docs", map[string]string{"b.txt": "b\n"})
	c.approved("shop", map[string]string{"a.txt": "another\n"})
	states := map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	var entries []*Entry
	for _, id := range []string{"auth", "docs", "shop"} {
		e, err := c.Enqueue(ctx, id, 0, ann)
		if err != nil {
			t.Fatal(err)
		}
		entries = append(entries, e)
	}
	for _, e := range entries {
		all.Go(func() {
			l, err := NewMerger(c.Crew, ann).Until(ctx, e, func(*Landing) {})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			states[e.Member] = l.State
			if (l.State == Landed) != (l.Commit != "") || (l.State == Landed) != (l.Reason == "") {
				t.Errorf("%+v", l)
			}
		})
	}
	all.Wait()
	if diff := cmp.Diff(map[string]string{"auth": Landed, "docs": Landed, "shop": Conflict}, states); diff != "" {
		t.Error(diff)
	}
	for _, e := range entries { // long after
		l, err := NewMerger(c.Crew, ann).Until(ctx, e, func(*Landing) {})
		if err != nil || l.State != states[e.Member] || (l.State == Landed) != (l.Commit != "") {
			t.Errorf("%s later: %+v, %v", e.Member, l, err)
		}
	}
	c.ok(lifecycle.MemberIdle)(c.Leave(ctx, "auth", lifecycle.MemberRecycle, ann))
	c.approved("auth", map[string]string{"next.txt": "next\n"})
	c.enqueue("auth", 0)
	if l, err := c.merger().Next(ctx, "main"); err != nil || l.State != Landed {
		t.Fatalf("%+v, %v", l, err)
	}
	if l, err := NewMerger(c.Crew, ann).Until(ctx, entries[0], func(*Landing) {}); err != nil || l.State != Gone {
		t.Errorf("of another assignment: %+v, %v", l, err)
	}
}

// TestDiff: a diff is of what the branch changes, and not of what its target has got meanwhile; it is there
// after the branch has gone.
func TestDiff(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth", "docs", "shop")
	if _, err := c.Diff(ctx, "auth"); pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("without a task: %v", err)
	}
	c.approved("docs", map[string]string{"b.txt": "b\n"})
	tree := c.begun(Task{ID: "t1", Target: "main"})
	c.write(tree, "a.txt", "a\n")
	c.estate.commit(tree, "work")
	c.write(tree, "left.txt", "left\n")
	c.enqueue("docs", 0)
	if _, err := c.merger().Next(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	d, err := c.Diff(ctx, "auth")
	if err != nil {
		t.Fatal(err)
	}
	if !d.Behind || !cmp.Equal(d.Dirty, []string{"left.txt"}) || !strings.Contains(d.Patch, "+++ b/a.txt") || strings.Contains(d.Patch, "b.txt") || d.Base != c.base {
		t.Errorf("%+v", d)
	}
	landed, err := c.Diff(ctx, "docs")
	if err != nil || !strings.Contains(landed.Patch, "+++ b/b.txt") {
		t.Errorf("after it has landed: %+v, %v", landed, err)
	}
	c.run(c.estate.Root, "checkout", "--quiet", "--detach")
	c.configure("merge: merge\n")
	c.approved("shop", map[string]string{"c.txt": "c\n"})
	c.enqueue("shop", 0)
	if _, err := c.merger().Next(ctx, "main"); err != nil {
		t.Fatal(err)
	}
	if landed, err = c.Diff(ctx, "shop"); err != nil || !strings.Contains(landed.Patch, "+++ b/c.txt") {
		t.Errorf("after a merge: %+v, %v", landed, err)
	}
}

// TestBoard: a member that cannot be read hides no other.
func TestBoard(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth", "docs")
	c.begun(Task{ID: "t1", Target: "main"})
	if err := os.WriteFile(c.state("docs"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	board, err := c.Board()
	if err != nil || len(board) != 2 {
		t.Fatal(board, err)
	}
	if s := board[0]; s.ID != "auth" || s.Member.State != lifecycle.MemberWorking || s.Assignment.Task != "t1" || s.Problem != "" {
		t.Errorf("%+v", s)
	}
	if s := board[1]; s.ID != "docs" || s.Member != nil || s.Problem == "" {
		t.Errorf("%+v", s)
	}
}

// TestGuide: the page says what to do, and why work has come back.
func TestGuide(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth", "docs")
	page := func(want, not string) {
		t.Helper()
		text, err := c.Guide("auth")
		if err != nil || !strings.Contains(text, want) || not != "" && strings.Contains(text, not) {
			t.Errorf("want %q and not %q: %v\n%s", want, not, err, text)
		}
	}
	tree := c.begun(Task{ID: "t1", Target: "main", Prompt: "\nmend it\n\n"})
	page("## What to do\n\nmend it\n\n## Rules", "What came back")
	c.write(tree, "a.txt", "a\n")
	c.estate.commit(tree, "work")
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	c.ok(lifecycle.MemberWorking)(c.RequestChanges(ctx, "auth", "", Caller{Actor: "ben", Reason: "say more"}))
	page("## What came back\n\nben has requested changes: say more\n\n## Rules", "rebase main")
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	c.ok(lifecycle.MemberApproved)(c.Approve(ctx, "auth", "", ann))
	c.approved("docs", map[string]string{"a.txt": "other\n"})
	c.enqueue("docs", 5)
	c.enqueue("auth", 0)
	for range 2 {
		if _, err := c.merger().Next(ctx, "main"); err != nil {
			t.Fatal(err)
		}
	}
	page("conflict with main in a.txt\n\nRun `git rebase main`", "say more")
	c.ok(lifecycle.MemberAssigned)(c.Fail(ctx, "auth", false, Caller{Actor: "ann", Reason: "too hard"}))
	page("attempt 2 of 3", "rebase main")
	page("## What came back\n\ntoo hard", "")
}

// TestAgents: what works for a member is a program, or a profile, which goes on with its session.
func TestAgents(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	if _, err := c.AgentOf("auth"); pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("without one: %v", err)
	}
	if err := c.SetAgent("auth", Agent{Argv: []string{"./a.sh", "{prompt}"}}); err != nil {
		t.Fatal(err)
	}
	m := c.ok(lifecycle.MemberAssigned)(c.Assign(ctx, "auth", Task{ID: "t1", Target: "main", Prompt: "mend it"}, ann))
	if p, err := c.ProgramFor(m, ""); err != nil || !cmp.Equal(p.Argv, []string{"./a.sh", "{prompt}"}) {
		t.Errorf("%+v, %v", p, err)
	}
	folder := t.TempDir()
	c.write(folder, "mine.yaml", `{command: [mine, "{session}", "{prompt}"], resume: [mine, --again, "{session}", "{prompt_file}", "{git_dir}", "{crew_dir}"]}`)
	if err := c.SetAgent("auth", Agent{Profile: "mine"}); err != nil {
		t.Fatal(err)
	}
	first, err := c.ProgramFor(m, folder)
	if err != nil || len(first.Argv) != 3 || !strings.Contains(first.Argv[2], "mend it") {
		t.Fatalf("%+v, %v", first, err)
	}
	if _, err := c.Run(ctx, "auth", script("exit 3"), ann, nil); err != nil {
		t.Fatal(err)
	}
	m.Epoch = 1
	further, err := c.ProgramFor(m, folder)
	want := []string{"mine", "--again", first.Argv[1], filepath.Join(c.runDir("auth", 1), promptFile), c.Crew.Repo.dir, c.Dir}
	if diff := cmp.Diff(want, further.Argv); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	if err := c.SetAgent("auth", Agent{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AgentOf("auth"); pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("neither: %v", err)
	}
}

// TestOutput: the output is that of the newest program, also once its assignment is over.
func TestOutput(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := newCamp(t, "auth")
	if o, err := c.OutputOf("auth", 0, 0); err != nil || o.Stdout != "" {
		t.Errorf("without a program: %+v, %v", o, err)
	}
	c.ok(lifecycle.MemberAssigned)(c.Assign(ctx, "auth", Task{ID: "t1", Target: "main"}, ann))
	c.ok(lifecycle.MemberAssigned)(c.Run(ctx, "auth", script("echo a; echo b; printf c; echo e >&2; exit 3"), ann, nil))
	for lines, want := range map[int]string{0: "a\nb\nc", 1: "c", 2: "b\nc", 3: "a\nb\nc", 9: "a\nb\nc"} {
		if o, err := c.OutputOf("auth", 0, lines); err != nil || o.Stdout != want || o.Stderr != "e\n" || o.Epoch != 1 {
			t.Errorf("%d lines: %+v, %v", lines, o, err)
		}
	}
	if o, err := c.OutputOf("auth", 2, 0); err != nil || o.Stdout != "" {
		t.Errorf("of an assignment without a program: %+v, %v", o, err)
	}
}

// TestPrompts: a prompt is a text that a variable can have.
func TestPrompts(t *testing.T) {
	t.Parallel()
	c := newCamp(t, "auth")
	for _, prompt := range []string{strings.Repeat("x", MaxPrompt+1), "a\x00b", "\xff"} {
		c.refuses("the prompt")(c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main", Prompt: prompt}, ann))
	}
	c.ok(lifecycle.MemberAssigned)(c.Assign(t.Context(), "auth", Task{ID: "t1", Target: "main", Prompt: strings.Repeat("x", MaxPrompt)}, ann))
	c.ok(lifecycle.MemberInReview)(c.Run(t.Context(), "auth", script(`test "${#PAWL_PROMPT}" = 65536 && git commit -q --allow-empty -m work`), ann, nil))
}
