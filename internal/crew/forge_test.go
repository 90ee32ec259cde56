package crew

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// fakeGH stands for the command line of GitHub: it keeps a file for each pull request, named like its branch,
// with its state.
const fakeGH = `#!/bin/sh
cd "$GH_TEST" || exit 1
echo "$*" >>calls
test ! -e down || { echo "no connection" >&2; exit 1; }
case "$1 $2" in
"pr list") if grep -qs OPEN "$(echo "$4" | tr / +).pr"; then echo '[{"url":"https://forge/'"$4"'"}]'; else echo '[]'; fi ;;
"pr create") echo OPEN >"$(echo "$4" | tr / +).pr"; echo creating >&2; echo "https://forge/$4" ;;
"pr view") echo '{"state":"'"$(cat "$(echo "${3#https://forge/}" | tr / +).pr")"'"}' ;;
"pr close") echo "CLOSED $5" >"$(echo "${3#https://forge/}" | tr / +).pr" ;;
*) echo "unknown: $*" >&2; exit 2 ;;
esac
`

// TestGitHub: the orchestrator pushes what is submitted and makes its pull request, once; what lands is
// pushed if the remote branch has not moved, and the pull request is closed (C7, C12).
func TestGitHub(t *testing.T) {
	ctx := t.Context()
	c := newCamp(t, "auth", "docs")
	bin, state := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "gh"), []byte(fakeGH), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	t.Setenv("GH_TEST", state)
	c.detach()
	c.configure("forge: github")
	remote := filepath.Join(t.TempDir(), "origin.git")
	c.run(c.estate.Root, "clone", "--quiet", "--bare", ".", remote)
	c.run(c.estate.Root, "remote", "add", "origin", remote)

	tree := c.begun(Task{ID: "t1", Target: "main", Prompt: "do it"})
	c.write(tree, "a.txt", "x\n")
	c.estate.commit(tree, "work")
	c.write(state, "down", "")
	c.refuses("no connection")(c.Submit(ctx, "auth", ann))
	if err := os.Remove(filepath.Join(state, "down")); err != nil {
		t.Fatal(err)
	}
	m := c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	if m.PullRequest != "https://forge/auth/t1" || c.run(remote, "rev-parse", "auth/t1") != c.run(tree, "rev-parse", "HEAD") {
		t.Errorf("the pull request is %q", m.PullRequest)
	}
	c.ok(lifecycle.MemberWorking)(c.RequestChanges(ctx, "auth", "", ann))
	c.run(tree, "commit", "--quiet", "--amend", "--message", "better")
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	if calls := string(read(t, filepath.Join(state, "calls"))); strings.Count(calls, "pr create") != 1 {
		t.Errorf("calls of gh:\n%s", calls)
	}
	c.ok(lifecycle.MemberApproved)(c.Approve(ctx, "auth", "", ann))
	c.enqueue("auth", 0)

	// Somebody else has pushed meanwhile.
	other := filepath.Join(t.TempDir(), "other")
	c.run(c.estate.Root, "clone", "--quiet", "--branch", "main", remote, other)
	c.write(other, "b.txt", "y\n")
	c.estate.commit(other, "theirs")
	c.run(other, "push", "--quiet", "origin", "HEAD:main")
	if got := c.next(c.merger()); got != "auth landed" {
		t.Error(got)
	}
	if got := c.run(remote, "log", "--format=%s", "main"); got != "t1 (auth)\ntheirs\nconfigure\nfirst" || c.run(remote, "rev-parse", "main") != c.run(c.estate.Root, "rev-parse", "main") {
		t.Errorf("the remote has\n%s", got)
	}
	if got := string(read(t, filepath.Join(state, "auth+t1.pr"))); !strings.HasPrefix(got, "CLOSED Landed on main as "+c.run(remote, "rev-parse", "main")) {
		t.Errorf("the pull request is %s", got)
	}
	if got := c.run(remote, "for-each-ref", "--format=%(refname)", "refs/heads/auth"); got != "" {
		t.Errorf("branches left: %s", got)
	}

	// Killed after the push, the work has landed.
	c.approved("docs", map[string]string{"d.txt": "x\n"})
	c.enqueue("docs", 0)
	c.write(state, "down", "")
	if _, err := c.merger().Next(ctx, "main"); pawl.KindOf(err) != pawl.Unavailable {
		t.Errorf("without a connection to close the pull request: %v", err)
	}
	landed := c.run(remote, "rev-parse", "main")
	c.run(c.estate.Root, "update-ref", "refs/heads/main", "main~1") // as if only the remote had it
	if err := os.Remove(filepath.Join(state, "down")); err != nil {
		t.Fatal(err)
	}
	if got := c.next(c.merger()); got != "docs landed" || c.run(remote, "rev-parse", "main") != landed || c.run(c.estate.Root, "rev-parse", "main") != landed {
		t.Errorf("%q", got)
	}

	// Commits that only the local branch has are left to a person.
	c.configure("forge: github\nmerge: merge")
	c.ok(lifecycle.MemberIdle)(c.Rest(ctx, "auth", ann))
	c.write(c.begun(Task{ID: "t2", Target: "main"}), "c.txt", "x\n")
	c.estate.commit(c.worktreeOf("auth", "t2", 1), "work")
	c.ok(lifecycle.MemberInReview)(c.Submit(ctx, "auth", ann))
	c.ok(lifecycle.MemberApproved)(c.Approve(ctx, "auth", "", ann))
	c.enqueue("auth", 0)
	if _, err := c.merger().Next(ctx, "main"); pawl.KindOf(err) != pawl.Conflict || !strings.Contains(err.Error(), "does not have") {
		t.Errorf("a local branch with commits of its own: %v", err)
	}
}
