package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// effects is a workflow whose steps say which claim runs.
const effects = `name: effects
inputs: {dir: {type: string, required: true}}
env: {DIR: "${{ inputs.dir }}"}
steps:
  - {id: a, run: 'echo "$PAWL_STEP_ID $PAWL_CLAIM" >> "$DIR/effects"; sleep 0.1'}
  - {id: b, needs: [a], run: 'echo "$PAWL_STEP_ID $PAWL_CLAIM" >> "$DIR/effects"; sleep 0.1'}
  - {id: c, needs: [b], run: 'echo "$PAWL_STEP_ID $PAWL_CLAIM" >> "$DIR/effects"'}
`

// A farSite has servers on one SQLite file and workers that know a URL and nothing else.
type farSite struct {
	t   *testing.T
	dir string
	url string
}

// start starts a process. Its environment names neither a database nor a server.
func (s *farSite) start(args ...string) *exec.Cmd {
	s.t.Helper()
	c := exec.Command(binary(s.t), args...)
	c.Env = append(os.Environ(), "PAWL_RUNTIME_DIR="+filepath.Join(s.dir, "run"), "XDG_STATE_HOME="+s.dir)
	c.Stderr = &bytes.Buffer{}
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.kill(c) })
	return c
}

func (s *farSite) kill(c *exec.Cmd) {
	_ = c.Process.Kill() // it may be gone already
	_ = c.Wait()
}

func (s *farSite) worker() *exec.Cmd {
	return s.start("worker", "--server", s.url, "--silence", "2s", "--capacity", "4", "--floor", "0")
}

func (s *farSite) server() *exec.Cmd {
	c := s.start("server", "--database", filepath.Join(s.dir, "pawl.db"), "--silence", "2s", "--listen", strings.TrimPrefix(s.url, "http://"))
	(&fleet{t: s.t}).until("the server answers", func() bool {
		return exec.Command(binary(s.t), "--server", s.url, "jobs").Run() == nil
	})
	return c
}

// ended returns how many jobs are complete, and fails if one has ended otherwise.
func (s *farSite) ended() (n int) {
	s.t.Helper()
	var jobs []pawl.JobView
	out, err := exec.Command(binary(s.t), "--server", s.url, "jobs", "--limit", "100", "-o", "json").Output()
	if err != nil || json.Unmarshal(out, &jobs) != nil {
		return 0 // the server is not there
	}
	for _, j := range jobs {
		if lifecycle.Job.Ended(j.Status) && j.Status != lifecycle.JobCompleted {
			s.t.Fatalf("job %s is %s: %+v", j.ID, j.Status, j.Error)
		}
		if j.Status == lifecycle.JobCompleted {
			n++
		}
	}
	return n
}

// TestWorkersOverAServerAreKilled: kill -9 of the worker, of the server, and of both: nothing is
// stuck after the silence, and no claim runs twice (T5, T7, J9).
func TestWorkersOverAServerAreKilled(t *testing.T) {
	t.Parallel()
	s := &farSite{t: t, dir: shortDir(t), url: "http://" + freeAddress(t)}
	f := &fleet{t: t}
	server, worker := s.server(), s.worker()
	file := filepath.Join(s.dir, "effects.yaml")
	if err := os.WriteFile(file, []byte(effects), 0o600); err != nil {
		t.Fatal(err)
	}
	const jobs = 40
	for range jobs {
		c := exec.Command(binary(t), "--server", s.url, "submit", file, "-i", "dir="+s.dir)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	f.until("some jobs have ended", func() bool { return s.ended() >= 4 })
	s.kill(worker)
	worker = s.worker()
	f.until("the next worker goes on", func() bool { return s.ended() >= 12 })
	s.kill(server)
	server = s.server()
	f.until("the worker goes on with the next server", func() bool { return s.ended() >= 20 })
	s.kill(worker)
	s.kill(server)
	s.server()
	worker = s.worker()
	f.until("all jobs have ended", func() bool { return s.ended() == jobs })
	if err := worker.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ends with %v\n%s", err, worker.Stderr)
	}
	b, err := os.ReadFile(filepath.Join(s.dir, "effects"))
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for line := range strings.Lines(string(b)) {
		if ran[line]++; ran[line] > 1 {
			t.Errorf("run twice: %s", line)
		}
	}
	if len(ran) < 3*jobs {
		t.Errorf("%d claims have run, of %d steps", len(ran), 3*jobs)
	}
	if out, err := exec.Command(binary(t), "--database", filepath.Join(s.dir, "pawl.db"), "audit", "verify").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Log(fmt.Sprint(len(ran), " claims"))
}

// TestShellWorker: the worker of the examples, in shell and curl, runs steps of a handler and
// reports failures; asked to stop, it ends its record.
func TestShellWorker(t *testing.T) {
	t.Parallel()
	s := &farSite{t: t, dir: shortDir(t), url: "http://" + freeAddress(t)}
	s.server()
	c := exec.Command("sh", "../../examples/worker.sh", s.url, "shout", "sh", "-c", `grep -q '"with":{"ok":true}' && echo '{"said":"A"}'`)
	c.Stderr = &bytes.Buffer{}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.kill(c) })
	file := filepath.Join(s.dir, "shout.yaml")
	for ok, want := range map[string]machine.State{"true": lifecycle.JobCompleted, "false": lifecycle.JobFailed} {
		text := "name: shout\nsteps:\n  - {id: a, handler: shout, with: {ok: true}}\n  - {id: b, handler: shout, needs: [a], with: {ok: " + ok + "}, retry: {max_attempts: 1}}\noutput: ${{ steps.b.output }}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(binary(t), "--server", s.url, "submit", file, "--wait", "-o", "json").CombinedOutput()
		if done := err == nil; done != (want == lifecycle.JobCompleted) || done && !strings.Contains(string(out), `"said": "A"`) {
			t.Errorf("ok: %s: %v\n%s\n%s", ok, err, out, c.Stderr)
		}
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("the worker ends with %v\n%s", err, c.Stderr)
	}
	out, err := exec.Command(binary(t), "--server", s.url, "worker", "list", "--all").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "COMPLETED") {
		t.Errorf("%v\n%s", err, out)
	}
}
