package main

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A crewSite is a repository with a crew, and a server that tends it.
type crewSite struct {
	*fleet
	repo   string
	server *answering
}

// command returns a command that knows the worktrees of the test, and no settings of git but its own.
func (s *crewSite) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir = s.repo
	c.Env = append(append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(s.dir, "state"), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"), outside...)
	return c
}

func (s *crewSite) run(name string, args ...string) string {
	s.t.Helper()
	out, err := s.command(name, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// serve starts a server that tends the crew.
func (s *crewSite) serve() {
	s.t.Helper()
	address := freeAddress(s.t)
	c := s.command(s.bin, "--database", s.url, "server", "--listen", address, "--crew", s.repo)
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.running = append(s.running, c)
	s.server = &answering{c, "http://" + address}
	s.until("the server answers", func() bool { return s.over(s.server, "jobs") == nil })
}

// post changes a member.
func (s *crewSite) post(path, body string) {
	s.t.Helper()
	a, err := http.Post(s.server.url+"/api/crew/members/"+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s", path, a.Status)
	}
}

// comes waits for a state of a member.
func (s *crewSite) comes(id, state string) {
	s.t.Helper()
	s.until(id+" is "+state, func() bool {
		a, err := http.Get(s.server.url + "/api/crew/members/" + id)
		if err != nil {
			return false
		}
		defer a.Body.Close()
		var m struct{ State string }
		return json.NewDecoder(a.Body).Decode(&m) == nil && m.State == state
	})
}

// TestServerTendsACrew: over the API a task is assigned, approved and let land; the server does the rest. It
// is killed while the program of the member works, which goes on; the next server finds it (C5, C10, C11).
func TestServerTendsACrew(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &crewSite{fleet: newFleet(t, "sqlite://"+filepath.Join(dir, "pawl.db")), repo: filepath.Join(dir, "repo")}
	if err := os.Mkdir(s.repo, 0o755); err != nil {
		t.Fatal(err)
	}
	s.run("git", "init", "--quiet", "--initial-branch", "main")
	s.run("git", "commit", "--quiet", "--allow-empty", "--message", "first")
	s.run(s.bin, "crew", "init")
	begun, finish := filepath.Join(dir, "begun"), filepath.Join(dir, "finish")
	s.run(s.bin, "crew", "spawn", "auth", "--", "sh", "-c", `touch "`+begun+`"; until [ -e "`+finish+`" ]; do sleep 0.05; done; echo x >work.txt; git add .; git commit --quiet --message work`)
	s.serve()
	s.post("auth/assign", `{"task":"t1","prompt":"work","reason":"needed"}`)
	s.until("the program works", func() bool { _, err := os.Stat(begun); return err == nil })
	s.kill(s.server)
	s.serve()
	if err := os.WriteFile(finish, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.comes("auth", "IN_REVIEW")
	s.post("auth/approve", "")
	s.post("auth/merge", "")
	s.comes("auth", "COMPLETED")
	if got := s.run("git", "log", "--format=%s"); got != "t1 (auth)\nfirst\n" {
		t.Errorf("main has\n%s", got)
	}
	if got := s.run("git", "status", "--short"); got != "" {
		t.Errorf("the main worktree has\n%s", got)
	}
	s.run(s.bin, "audit", "verify", "--file", ".worker-state/history")
}
