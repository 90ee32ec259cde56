package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestPostgresIsAway: PostgreSQL is killed, and started again after some seconds, while steps
// run, a webhook sends, a bulk request cancels and somebody is signed in. Meanwhile requests are
// refused as unavailable, and nobody is signed out; afterwards, without any restart, everything
// continues: no step runs twice under one claim, no job is canceled twice, and no message is missing
// (J8, J9, K5, K6).
func TestPostgresIsAway(t *testing.T) {
	t.Parallel()
	const canceled, running, away = 300, 20, 8 * time.Second
	c, err := pgtest.Start(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Stop() })
	f, k := newFleet(t, c.URL), newKiller(t)
	f.say("migrate", "up")
	for name, text := range map[string]string{"waiting": waiting, "effective": effective,
		"slow": "name: slow\nenv: {DIR: \"${{ inputs.dir }}\"}\ninputs: {dir: {type: string, required: true}}\nsteps: [{id: a, run: 'echo >> \"$DIR/slow\"; sleep 2; echo done', output: text}]\noutput: ${{ steps.a.output }}\n"} {
		file := filepath.Join(f.dir, name+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f.say("workflow", "register", file)
	}
	s := f.serve()
	f.start("worker", "--capacity", "2", "--listen", "none")
	far := exec.Command(f.bin, "--server", s.url, "worker", "--capacity", "2", "--listen", "none")
	if err := far.Start(); err != nil {
		t.Fatal(err)
	}
	f.running = append(f.running, far)
	f.say("webhook", "create", "w", k.move("/"), "--machine", "job,step")
	var token struct{ Secret string }
	f.into(f.want(s, 201, "POST", "/api/tokens", map[string]any{"name": "ci", "roles": []string{"viewer"}}), &token)
	cookies := f.want(s, 201, "POST", "/api/session", map[string]any{"token": token.Secret}).Cookies()
	f.jobs(s, canceled, "")

	waiter := exec.Command(f.bin, "--server", s.url, "submit", "slow", "-i", "dir="+f.dir, "--wait")
	var said shared
	waiter.Stderr = &said
	out := &bytes.Buffer{}
	waiter.Stdout = out
	if err := waiter.Start(); err != nil {
		t.Fatal(err)
	}
	f.running = append(f.running, waiter)
	f.until("the slow step runs", func() bool { _, err := os.Stat(filepath.Join(f.dir, "slow")); return err == nil })
	var many []any
	for range running {
		many = append(many, map[string]any{"workflow": "effective", "inputs": map[string]string{"dir": f.dir}})
	}
	f.want(s, 200, "POST", "/api/jobs/batch", map[string]any{"jobs": many})
	bulk := map[string]any{"request_id": "bulk-1", "filter": map[string]any{"workflow": "waiting"}}
	over := make(chan string, 1) // 1: the test may have failed
	go func() {
		a, err := s.ask("POST", "/api/bulk/cancel", bulk)
		if err != nil {
			over <- err.Error()
			return
		}
		over <- fmt.Sprintf("%d, with %d of them unavailable", a.StatusCode, bytes.Count(a.text, []byte(`"UNAVAILABLE"`)))
	}()
	f.until("some jobs are canceled", func() bool {
		a, err := s.ask("GET", "/api/jobs?status=CANCELED&limit=1", nil)
		return err == nil && bytes.Contains(a.text, []byte(`"id":"j_`))
	})

	c.Kill()
	elapsed := time.NewTimer(away) // the duration of the outage is under test
	defer elapsed.Stop()
	f.duringAnOutage(s, cookies)
	<-elapsed.C
	if err := c.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	back := time.Now()
	since := func(what string) {
		t.Logf("%s %s after PostgreSQL was back", what, time.Since(back).Round(10*time.Millisecond))
	}
	f.until("the server is ready", func() bool { a, err := s.ask("GET", "/readyz", nil); return err == nil && a.StatusCode == 200 })
	since("the server is ready")
	t.Logf("the bulk request under way: %s", <-over)
	if a, err := s.ask("GET", "/api/session", nil, cookies...); err != nil || a.StatusCode != 200 || !bytes.Contains(a.text, []byte(`"viewer"`)) {
		t.Errorf("the session: %v, %s", err, a.text)
	}
	a := f.want(s, 200, "POST", "/api/bulk/cancel", bulk)
	if n := bytes.Count(a.text, []byte(`"receipt"`)); n != canceled || bytes.Contains(a.text, []byte(`"problem"`)) {
		t.Errorf("repeated, %d jobs are canceled: %.500s", n, a.text)
	}
	since("all jobs are canceled")
	if err := waiter.Wait(); err != nil || !strings.Contains(out.String(), "done") {
		t.Errorf("submit --wait: %v, %s\n%s", err, out, &said)
	}
	t.Logf("submit --wait said:\n%s", &said)
	since("who waited knows")
	f.until("all jobs have completed", func() bool {
		var v []pawl.JobView
		f.parse(&v, "jobs", "--status", string(lifecycle.JobCompleted), "-o", "json", "--limit", "1000")
		return len(v) == running+1
	})
	since("all jobs have completed")
	f.onceForEachClaim(2 * running)
	f.until("everything in the trails is received", func() bool {
		missing, _ := k.missing(f.say("audit", "export"))
		return missing == 0
	})
	since("all messages are received")
	t.Logf("%d messages, %d of them again", k.n, k.doubles)
	f.say("audit", "verify")
	f.kill(s) // its log is complete then
	if log := s.Stderr.(*bytes.Buffer).String(); !strings.Contains(log, "connection refused") {
		t.Errorf("the log has no reason: %s", log)
	}
}

// duringAnOutage checks what users of a server see while its database is unavailable.
func (f *fleet) duringAnOutage(s *answering, cookies []*http.Cookie) {
	f.t.Helper()
	f.until("the server is not ready", func() bool {
		a, err := s.ask("GET", "/readyz", nil)
		return err == nil && a.StatusCode == 503
	})
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/api/jobs": 503, "/api/session": 503, "/api/overview": 503} {
		began := time.Now()
		a, err := s.ask("GET", path, nil, cookies...)
		if err != nil || a.StatusCode != want {
			f.t.Errorf("%s: %v, %+v, want %d", path, err, a, want)
			continue
		}
		if bytes.Contains(a.text, []byte("127.0.0.1")) {
			f.t.Errorf("%s shows where the database is: %s", path, a.text)
		}
		f.t.Logf("%s: %d after %s: %s", path, a.StatusCode, time.Since(began).Round(time.Millisecond), a.text)
	}
	for _, args := range [][]string{{"--database", f.url}, {"--server", s.url}} {
		began := time.Now()
		out, err := exec.Command(f.bin, append(args, "jobs")...).CombinedOutput()
		var code int
		if e, ok := err.(*exec.ExitError); ok {
			code = e.ExitCode()
		}
		if code != codeUnavailable || args[0] == "--server" && bytes.Contains(out, []byte("dial")) {
			f.t.Errorf("%s jobs: %v, %s", args[0], err, out)
		}
		f.t.Logf("%s jobs: exit %d after %s: %s", args[0], code, time.Since(began).Round(time.Millisecond), out)
	}
}
