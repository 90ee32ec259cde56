package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/lifecycle"
)

// handover is a step that says under which claim it runs, and ends when it may.
const handover = `name: handover
inputs: {dir: {type: string, required: true}}
env: {DIR: "${{ inputs.dir }}"}
steps:
  - id: a
    retry: {max_attempts: 1}
    output: text
    run: |
      echo $$ > "$DIR/claim-$PAWL_CLAIM"
      while [ ! -f "$DIR/go" ]; do sleep 0.05; done
      echo "$PAWL_CLAIM"
  - {id: b, needs: [a], command: [echo, over]}
`

// A fleet is processes on one database.
type fleet struct {
	t        *testing.T
	bin, url string
	dir      string
	running  []*exec.Cmd
}

func newFleet(t *testing.T, url string) *fleet {
	f := &fleet{t: t, bin: binary(t), url: url, dir: t.TempDir()}
	t.Cleanup(func() {
		for _, c := range f.running {
			_ = c.Process.Kill() // it may be gone already
			_ = c.Wait()
		}
	})
	return f
}

// start starts a process that stays.
func (f *fleet) start(args ...string) *exec.Cmd {
	f.t.Helper()
	c := exec.Command(f.bin, append([]string{"--database", f.url}, args...)...)
	c.Stderr = &bytes.Buffer{}
	if err := c.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.running = append(f.running, c)
	return c
}

// say runs a command that answers.
func (f *fleet) say(args ...string) string {
	f.t.Helper()
	c := exec.Command(f.bin, append([]string{"--database", f.url}, args...)...)
	var errs bytes.Buffer
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		f.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, errs.String())
	}
	return string(out)
}

// until waits for a condition.
func (f *fleet) until(what string, is func() bool) {
	f.t.Helper()
	deadline := time.After(time.Minute)
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	for !is() {
		select {
		case <-poll.C:
		case <-deadline:
			f.t.Fatal("not within a minute: " + what)
		}
	}
}

// holder waits for a claim of the step, and returns the process that has it.
func (f *fleet) holder(job string, claim int) *exec.Cmd {
	f.t.Helper()
	file := filepath.Join(f.dir, "claim-"+strconv.Itoa(claim))
	f.until("claim "+strconv.Itoa(claim), func() bool { _, err := os.Stat(file); return err == nil })
	var v pawl.JobView
	f.parse(&v, "job", "show", job, "-o", "json")
	var w pawl.WorkerView
	f.parse(&w, "worker", "show", *v.Steps[0].WorkerID, "-o", "json")
	for _, c := range f.running {
		if c.Process.Pid == w.PID {
			return c
		}
	}
	f.t.Fatalf("no process has claim %d: the worker is %+v", claim, w)
	return nil
}

func (f *fleet) parse(into any, args ...string) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.say(args...)), into); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fleet) signal(c *exec.Cmd, s syscall.Signal) {
	f.t.Helper()
	if err := c.Process.Signal(s); err != nil {
		f.t.Fatal(err)
	}
}

// TestTakeover: a worker that is killed and one that is merely stopped lose their
// step to others; what the stopped one still has to say is refused, and kept where
// people see it, and it goes on under a new name (T5, T10, J1, J9).
func TestTakeover(t *testing.T) {
	t.Parallel()
	f := newFleet(t, pgtest.URL(t))
	file := filepath.Join(f.dir, "handover.yaml")
	if err := os.WriteFile(file, []byte(handover), 0o600); err != nil {
		t.Fatal(err)
	}
	f.say("migrate", "up") // before several do it at once
	for range 2 {
		f.start("server", "--silence", "2s")
	}
	for range 3 {
		f.start("worker", "--beat", "300ms", "--capacity", "1")
	}
	job := strings.TrimSpace(f.say("submit", file, "-i", "dir="+f.dir))

	killed, at := f.holder(job, 1), time.Now()
	f.signal(killed, syscall.SIGKILL)
	stopped := f.holder(job, 2)
	t.Logf("the step of a killed worker ran again after %s", time.Since(at).Truncate(10*time.Millisecond))

	at = time.Now()
	f.signal(stopped, syscall.SIGSTOP)
	f.holder(job, 3)
	t.Logf("the step of a stopped worker ran again after %s", time.Since(at).Truncate(10*time.Millisecond))
	if err := os.WriteFile(filepath.Join(f.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.until("the job ends", func() bool { return strings.Contains(f.say("jobs"), string(lifecycle.JobCompleted)) })
	f.signal(stopped, syscall.SIGCONT)
	f.until("the late result is seen", func() bool { return strings.Contains(f.say("job", "history", job), "REFUSED") })
	f.until("the stopped worker lives anew", func() bool {
		var living []pawl.WorkerView
		f.parse(&living, "worker", "list", "-o", "json")
		alive := map[int]bool{}
		for _, w := range living {
			alive[w.PID] = true
		}
		return alive[stopped.Process.Pid] && !alive[killed.Process.Pid]
	})
	var v pawl.JobView
	f.parse(&v, "job", "show", job, "-o", "json")
	if s := v.Steps[0]; s.Claims != 3 || s.Attempts != 1 || string(s.Output) != `"3"` {
		t.Errorf("the step: %d claims, %d attempts, output %s; want 3 claims, one attempt, and what the third has said", s.Claims, s.Attempts, s.Output)
	}
	f.say("audit", "verify")
}
