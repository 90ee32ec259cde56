package crew

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
)

// TestInit: a crew is made from any folder of the repository, once, and found from any worktree;
// worktrees are not made in the repository (C2, C7).
func TestInit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e := newEstate(t, 1)
	state := filepath.Join(t.TempDir(), "state")
	if _, err := Find(ctx, e.Root, state); pawl.KindOf(err) != pawl.NotFound {
		t.Errorf("before: %v", err)
	}
	if _, err := Init(ctx, e.Root, filepath.Join(e.Root, "state")); err == nil || !strings.Contains(err.Error(), "is in the repository") {
		t.Errorf("worktrees in the repository: %v", err)
	}
	if _, err := os.Stat(filepath.Join(e.Root, FolderName)); err == nil {
		t.Error("what was refused has made a crew")
	}
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(state, link); err != nil {
		t.Fatal(err)
	}
	first, err := Init(ctx, filepath.Join(e.Root, "d0"), link)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(first.Trees, "link") {
		t.Errorf("worktrees are in %s, which git names otherwise", first.Trees)
	}
	if _, err := first.Spawn(ctx, "auth", Move{Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Init(ctx, e.Root, state); err != nil {
		t.Fatal(err)
	}
	if err := first.Repo.AddWorktree(ctx, filepath.Join(first.Trees, "auth", "t.1"), "auth/t", e.base); err != nil {
		t.Fatal(err)
	}
	second, err := Find(ctx, filepath.Join(first.Trees, "auth", "t.1"), link)
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := second.Members(); err != nil || len(ids) != 1 || second.Dir != first.Dir || second.Trees != first.Trees {
		t.Errorf("from a worktree: %v, %v, %s and %s", ids, err, second.Dir, second.Trees)
	}
	if out := e.run(e.Root, "status", "--short"); out != "" {
		t.Errorf("git sees %s", out)
	}
}

func TestOlder(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{"2.38.0": false, "2.39.5": false, "3.0": false, "10.1": false, "2.37.9": true, "1.99": true, "2.4": true, "": true, "what": true, "2.39.5.windows.1": false} {
		if older(version, leastGit) != want {
			t.Errorf("%q: want %v", version, want)
		}
	}
}

// TestSections: what others have written in a file stays, byte by byte.
func TestSections(t *testing.T) {
	t.Parallel()
	section := sectionBegin + "\nnew\n" + sectionEnd
	for name, tt := range map[string]struct{ text, head, want string }{
		"none":        {"", "", section + "\n"},
		"with a head": {"", "---\nname: x\n---\n\n", "---\nname: x\n---\n\n" + section + "\n"},
		"others":      {"# Ours\n", "ignored", "# Ours\n\n" + section + "\n"},
		"no line end": {"# Ours", "", "# Ours\n\n" + section + "\n"},
		"replaced":    {"a\n" + sectionBegin + "\nold\n" + sectionEnd + "b\r\n\n\n", "", "a\n" + section + "b\r\n\n\n"},
		"the same":    {"a\n" + section + "\n", "", "a\n" + section + "\n"},
	} {
		if got, err := withSection(tt.text, tt.head, "\nnew\n"); err != nil || got != tt.want {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(tt.want, got))
		}
	}
	for _, text := range []string{sectionBegin + "\nold\n", "old\n" + sectionEnd, sectionEnd + sectionBegin} {
		if got, err := withSection(text, "", "new"); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
}

// TestGuides: a link stays a link, and the second time nothing is written.
func TestGuides(t *testing.T) {
	t.Parallel()
	e := newEstate(t, 1)
	e.write(e.Root, "CLAUDE.md", "# Ours\n")
	path := filepath.Join(e.Root, "AGENTS.md")
	if err := os.Symlink("CLAUDE.md", path); err != nil {
		t.Fatal(err)
	}
	want := []string{"AGENTS.md", ".agents/skills/pawl-crew/SKILL.md", ".claude/skills/pawl-crew/SKILL.md"}
	if got, err := e.WriteGuides(); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := e.WriteGuides(); err != nil || len(got) > 0 {
		t.Errorf("again: %v, %v", got, err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("AGENTS.md: %v, %v", info, err)
	}
	text := string(read(t, path))
	if !strings.HasPrefix(text, "# Ours\n\n"+sectionBegin) || !strings.Contains(text, "pawl crew submit") {
		t.Error(text)
	}
}

// TestExamine: what is wrong is named, with what to do about it.
func TestExamine(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e, state := newEstate(t, 1), t.TempDir()
	c, err := Init(ctx, e.Root, state)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Spawn(ctx, "auth", Move{Actor: "ann"}); err != nil {
		t.Fatal(err)
	}
	if found := Examine(ctx, e.Root, state); health.Worst(found) != health.OK {
		t.Errorf("%+v", found)
	}
	e.write(c.Dir, "auth.json", strings.Replace(string(read(t, c.state("auth"))), "IDLE", "FAILED", 1))
	e.write(c.Dir, "history/gone.jsonl.torn-7", "half a li")
	e.write(c.Trees, "auth/t.1/file", "x")
	if err := os.Remove(filepath.Join(c.Repo.dir, "info", "exclude")); err != nil {
		t.Fatal(err)
	}
	e.write(e.Root, ConfigFile, "gates: [{nmae: x, run: y}]\n")
	e.commit(e.Root, "a mistake")
	got := map[string]health.Severity{}
	for _, f := range Examine(ctx, e.Root, state) {
		got[f.Check] = f.Severity
		if f.Severity != health.OK && f.Cure == "" {
			t.Errorf("%+v has no cure", f)
		}
	}
	want := map[string]health.Severity{"git": health.OK, "crew": health.OK, "locks": health.OK, "exclude": health.Warning, "config": health.Problem, "member": health.Problem, "torn_line": health.Warning, "worktree": health.Warning}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
