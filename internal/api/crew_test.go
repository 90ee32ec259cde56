package api_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pawl-dev/pawl/internal/crew"
)

// gitIn runs git in a folder, without the settings of whoever runs the tests.
func gitIn(t testing.TB, dir string, args ...string) {
	t.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// openCrew makes a crew whose member auth has submitted work for review, and docs is idle.
func openCrew(t testing.TB) *crew.Crew {
	t.Helper()
	ctx, dir := context.Background(), t.TempDir()
	repo := filepath.Join(dir, "repo")
	gitIn(t, dir, "init", "--quiet", "--initial-branch", "main", "repo")
	gitIn(t, repo, "commit", "--quiet", "--allow-empty", "--message", "first")
	r, err := crew.FindRepo(ctx, repo)
	if err != nil {
		t.Fatal(err)
	}
	f, err := crew.Create(filepath.Join(r.Root, crew.FolderName))
	if err != nil {
		t.Fatal(err)
	}
	c := &crew.Crew{Folder: f, Repo: r, Trees: filepath.Join(dir, "trees")}
	if err := r.Exclude(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"auth", "docs"} {
		if _, err := c.Spawn(ctx, id, crew.Move{Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	by := crew.Caller{Actor: "ann"}
	if _, err := c.Assign(ctx, "auth", crew.Task{ID: "t1", Target: "main"}, by); err != nil {
		t.Fatal(err)
	}
	m, err := c.Begin(ctx, "auth", by)
	if err != nil {
		t.Fatal(err)
	}
	resubmit(t, c, m)
	return c
}

// resubmit commits something in the worktree of a member, and submits it.
func resubmit(t testing.TB, c *crew.Crew, m *crew.Member) {
	t.Helper()
	a, err := c.Assignment(m)
	if err != nil {
		t.Fatal(err)
	}
	gitIn(t, a.Worktree, "commit", "--quiet", "--allow-empty", "--message", "work")
	if _, err := c.Submit(context.Background(), m.ID, crew.Caller{Actor: crew.ActorOf(m.ID)}); err != nil {
		t.Fatal(err)
	}
}

// driveCrew drives the operations of a crew: work goes back, is approved by whoever the request is from, and
// waits to land; what cannot be is refused (C10).
func driveCrew(t *testing.T, d *drive) {
	const auth, docs = "/api/crew/members/auth", "/api/crew/members/docs"
	c := d.crews[0]
	d.want(200, "GET", "/api/crew/members?limit=1", "")
	d.want(200, "GET", "/api/crew/members?attention=true", "")
	d.want(404, "GET", "/api/crew/members/none", "")
	d.want(404, "GET", "/api/crew/members/none/history", "")
	d.want(200, "GET", auth+"/history?limit=2", "")
	d.want(200, "GET", auth+"/diff", "")
	d.want(409, "GET", docs+"/diff", "")
	d.want(200, "GET", auth+"/log?lines=3", "")
	d.want(200, "GET", "/api/crew/queue", "")
	d.want(200, "GET", "/api/crew/queue?target=main", "")
	d.want(404, "GET", "/api/crew/queue?target=nowhere", "")
	if state := d.want(200, "GET", auth, "").field(t, "review_state"); state != "pending" {
		t.Errorf("the review is %v", state)
	}

	d.want(422, "POST", auth+"/request-changes", `{}`)
	d.want(200, "POST", auth+"/request-changes", `{"reason":"not yet"}`)
	m, err := c.Load("auth")
	if err != nil {
		t.Fatal(err)
	}
	resubmit(t, c, m)
	d.want(409, "POST", auth+"/approve", `{"head":"0000"}`)
	d.want(409, "POST", auth+"/merge", "")
	d.want(200, "POST", auth+"/approve", `{"reason":"fine"}`, "Pawl-Actor", "ada")
	d.want(200, "POST", auth+"/merge", `{"priority":3}`)
	if queued := d.want(200, "GET", auth, "").field(t, "queued"); queued != true {
		t.Errorf("queued is %v", queued)
	}
	if l, err := crew.NewMerger(c, crew.Caller{Actor: "server"}).Next(t.Context(), "main"); err != nil || l == nil || l.State != crew.Landed {
		t.Errorf("landed: %+v, %v", l, err)
	}
	rows := d.want(200, "GET", auth+"/history", "")
	if actor := rows.field(t, "items.6.actor"); actor != "ada" {
		t.Errorf("%v has approved it: %s", actor, rows.body)
	}
	d.want(409, "POST", auth+"/reset", "")
	d.want(200, "POST", auth+"/recycle", "")

	d.want(422, "POST", docs+"/assign", `{"task":"no such..name"}`)
	d.want(404, "POST", docs+"/assign", `{"task":"t2","target":"none"}`)
	d.want(200, "POST", docs+"/assign", `{"task":"t2","prompt":"do it"}`)
	d.want(409, "POST", docs+"/assign", `{"task":"t3"}`)
	d.want(200, "POST", docs+"/cancel", `{"reason":"not needed"}`)
	d.want(200, "POST", docs+"/retry", "")
	d.want(200, "POST", docs+"/cancel", "")
	d.want(200, "POST", docs+"/reset", "")
}

// TestNoCrew: a server without a crew says so, and how to start it with one.
func TestNoCrew(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	if a := s.want(404, "GET", "/api/crew/members", ""); a.field(t, "hint") != "start it with --crew DIR, a folder in the repository" {
		t.Errorf("%s", a.body)
	}
}
