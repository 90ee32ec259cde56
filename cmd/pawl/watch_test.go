package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/internal/signals"
	"github.com/pawl-dev/pawl/lifecycle"
)

const waits = "name: waits\nsteps:\n  - {id: a, event: {name: a}}\n  - {id: b, needs: [a], event: {name: b}}\n"

// TestWatchSurvivesTheServer: kill -9 of the server, and another one at its address: whoever
// watches a job or all of them sees what comes then, and the end.
func TestWatchSurvivesTheServer(t *testing.T) { // J11
	t.Parallel()
	s := &farSite{t: t, dir: shortDir(t), url: "http://" + freeAddress(t)}
	f := &fleet{t: t}
	server := s.server()
	pawlDo := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(binary(t), append([]string{"--server", s.url}, args...)...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	file := filepath.Join(s.dir, "waits.yaml")
	write(t, file, waits)
	job := pawlDo("submit", file)
	one, oneOut, oneErr := s.watcher(job, "-o", "json")
	all, allOut, _ := s.watcher("-o", "json")
	text, textOut, _ := s.watcher()
	f.until("they watch", func() bool {
		return strings.Contains(oneOut.String(), job) && strings.Contains(allOut.String(), job) && strings.Contains(textOut.String(), job)
	})
	s.kill(server)
	f.until("it is said", func() bool { return strings.Contains(oneErr.String(), "trying again until it is back") })
	s.server()
	pawlDo("job", "signal", job, "a")
	f.until("the next step waits", func() bool { return strings.Contains(pawlDo("job", "why", job, "b", "-o", "json"), `"event"`) })
	pawlDo("job", "signal", job, "b")
	if err := one.Wait(); err != nil {
		t.Errorf("%v\n%s", err, oneErr)
	}
	lines := strings.Split(strings.TrimSpace(oneOut.String()), "\n")
	var last pawl.JobView
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Status != lifecycle.JobCompleted || len(last.Steps) != 2 {
		t.Errorf("%v\n%s", err, oneOut)
	}
	f.until("the others see the end", func() bool {
		return strings.Contains(allOut.String(), `"COMPLETED"`) && strings.Contains(textOut.String(), job+" waits COMPLETED 2/2\n")
	})
	for _, c := range []*exec.Cmd{all, text} {
		if err := c.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("interrupted: %v", err)
		}
	}
	if !strings.Contains(oneErr.String(), "it is in reach again") {
		t.Errorf("%s", oneErr)
	}
}

// TestWaitSurvivesTheServer: kill -9 of the server, and another one at its address: "submit --wait" and
// "job retry --wait" wait on, and have the exit code and the output of the job; one that was to wait
// shorter ends with 6.
func TestWaitSurvivesTheServer(t *testing.T) { // J11
	t.Parallel()
	s := &farSite{t: t, dir: shortDir(t), url: "http://" + freeAddress(t)}
	f := &fleet{t: t}
	server := s.server()
	pawlDo := func(args ...string) string {
		t.Helper()
		out, err := exec.Command(binary(t), append([]string{"--server", s.url}, args...)...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	file := filepath.Join(s.dir, "waits.yaml")
	write(t, file, "name: waits\nsteps: [{id: a, event: {name: a}}]\noutput: ${{ steps.a.output }}\n")
	old := pawlDo("submit", file)
	pawlDo("job", "cancel", old)
	submit, submitOut, submitErr := s.client("submit", file, "--wait")
	retry, _, retryErr := s.client("job", "retry", old, "--wait")
	short, _, shortErr := s.client("submit", file, "--wait", "--reconnect", "300ms")
	jobs := map[*shared]string{}
	f.until("they wait", func() bool {
		for _, stderr := range []*shared{submitErr, retryErr, shortErr} {
			if _, rest, ok := strings.Cut(stderr.String(), "job j_"); ok && strings.Contains(rest, "waits for the event a") {
				jobs[stderr] = "j_" + rest[:32]
			}
		}
		return len(jobs) == 3
	})
	s.kill(server)
	f.until("it is said", func() bool {
		return strings.Contains(submitErr.String(), "trying again until it is back, for 2m0s at most") && strings.Contains(retryErr.String(), "trying again")
	})
	if err := short.Wait(); short.ProcessState.ExitCode() != codeUnavailable || !strings.Contains(shortErr.String(), "the job continues; see it with: pawl job show "+jobs[shortErr]) {
		t.Errorf("%v\n%s", err, shortErr)
	}
	s.server()
	for _, stderr := range []*shared{submitErr, retryErr} {
		pawlDo("job", "signal", jobs[stderr], "a", "--data", `"yes"`)
	}
	for c, stderr := range map[*exec.Cmd]*shared{submit: submitErr, retry: retryErr} {
		if err := c.Wait(); err != nil || strings.Count(stderr.String(), "trying again") != 1 {
			t.Errorf("%v\n%s", err, stderr)
		}
	}
	if !strings.Contains(submitOut.String(), "yes") {
		t.Errorf("the output is %q", submitOut)
	}
}

// watcher starts "pawl watch".
func (s *farSite) watcher(args ...string) (c *exec.Cmd, stdout, stderr *shared) {
	s.t.Helper()
	return s.client(append([]string{"watch"}, args...)...)
}

// client starts a command that uses the server.
func (s *farSite) client(args ...string) (c *exec.Cmd, stdout, stderr *shared) {
	s.t.Helper()
	stdout, stderr = &shared{}, &shared{}
	c = exec.Command(binary(s.t), append([]string{"--server", s.url}, args...)...)
	c.Stdout, c.Stderr = stdout, stderr
	if err := c.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.kill(c) })
	return c, stdout, stderr
}

// shared is a buffer for two goroutines.
type shared struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// TestWatchLeavesTheTerminalClean: on a terminal the table is redrawn in place, and SIGINT leaves
// the cursor on a line of its own below it.
func TestWatchLeavesTheTerminalClean(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := map[string]string{"HOME": dir, "USER": "tester", "PAWL_DATABASE": filepath.Join(dir, "pawl.db")}
	file := filepath.Join(dir, "waits.yaml")
	write(t, file, waits)
	code, job, stderr := here(env, "submit", file)
	if code != codeOK {
		t.Fatal(stderr)
	}
	job = strings.TrimSpace(job)
	for _, tt := range []struct {
		args  []string
		draws string
		code  int
	}{
		{[]string{"watch"}, job + "  waits     PENDING  0/2", codeOK},
		{[]string{"watch", job}, "waits", codeInterrupted},
	} {
		var out, errs shared
		ctx, cancel := context.WithCancel(t.Context())
		p := &process{args: tt.args, stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(key string) string { return env[key] },
			screen: console.Screen{Terminal: true, Size: func() (int, int) { return 80, 24 }}, columns: func() int { return 80 }, signals: signals.New(func() {})}
		over := make(chan error, 1)
		go func() { over <- p.execute(ctx) }()
		(&fleet{t: t}).until("it is drawn twice", func() bool { return strings.Count(errs.String(), tt.draws) > 1 })
		cancel()
		if got := codeOf(<-over); got != tt.code {
			t.Errorf("%v: exit code %d, want %d\n%s", tt.args, got, tt.code, &errs)
		}
		drawn, rest, _ := strings.Cut(errs.String(), "hint: ")
		if !strings.HasSuffix(drawn, "\n\x1b[J") || strings.Contains(rest, "\x1b") || strings.Contains(drawn, "\x1b[?") || out.String() != "" {
			t.Errorf("%v: stdout %q, stderr %q", tt.args, &out, &errs)
		}
	}
}
