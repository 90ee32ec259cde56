package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/control"
)

// A serverProcess is a process with parts, on a SQLite file of its own.
type serverProcess struct {
	*exec.Cmd
	t    *testing.T
	dir  string
	url  string // where it serves HTTP
	host *control.Client
}

// startServer starts a process that stays, at a free port, and waits until it says that it
// answers.
func startServer(t *testing.T, role string, args ...string) *serverProcess {
	t.Helper()
	return startAtDefault(t, role, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
}

// startAtDefault is startServer at the default port, if args name no other.
func startAtDefault(t *testing.T, role string, args ...string) *serverProcess {
	t.Helper()
	dir := shortDir(t)
	env := append(os.Environ(), "PAWL_DATABASE="+filepath.Join(dir, "pawl.db"), "PAWL_RUNTIME_DIR="+filepath.Join(dir, "run"), "XDG_STATE_HOME="+dir)
	s := startWith(t, dir, env, append([]string{role}, args...)...)
	var err error
	if s.host, err = control.Connect(filepath.Join(dir, "run"), fmt.Sprintf("%s-%d", role, s.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	return s
}

// loopbackURL is where a process says that it answers.
var loopbackURL = regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)

// startWith starts a process that serves HTTP, in an environment and with a folder for what it
// says, and waits until it says where it answers.
func startWith(t *testing.T, dir string, env []string, args ...string) *serverProcess {
	t.Helper()
	return startServing(t, dir, env, loopbackURL, args...)
}

// startServing is startWith for a process that serves a URL of another form.
func startServing(t *testing.T, dir string, env []string, form *regexp.Regexp, args ...string) *serverProcess {
	t.Helper()
	s := &serverProcess{Cmd: exec.Command(binary(t), args...), t: t, dir: dir}
	s.Env = env
	errs, err := os.Create(filepath.Join(dir, "err"))
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	s.Stderr = errs
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.ProcessState == nil {
			_ = s.Process.Kill() // it may be gone already
			_ = s.Wait()
		}
	})
	s.until("it says where it answers", func() bool { s.url = form.FindString(s.said()); return s.url != "" })
	return s
}

// shortDir returns a folder in which a socket has a short name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (s *serverProcess) said() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "err"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(b)
}

func (s *serverProcess) until(what string, is func() bool) {
	s.t.Helper()
	deadline := time.After(time.Minute)
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for !is() {
		select {
		case <-poll.C:
		case <-deadline:
			s.t.Fatalf("not within a minute: %s\n%s", what, s.said())
		}
	}
}

// get asks over HTTP. The status is 0 if nobody answers.
func (s *serverProcess) get(path string) (status int, text string) {
	s.t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	r, err := client.Get(s.url + path)
	if err != nil {
		return 0, err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(b)
}

// stop ends the process, which must end well.
func (s *serverProcess) stop() {
	s.t.Helper()
	if err := s.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		s.t.Errorf("%v\n%s", err, s.said())
	}
}

// TestPartsOfAServer are services: they are listed, counted and begun anew, and none can
// be stopped by itself (S14, K7).
func TestPartsOfAServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, "server", "--retention", "30d")
	s.until("it is ready", func() bool { status, _ := s.get("/readyz"); return status == http.StatusOK })
	if status, text := s.get("/healthz"); status != http.StatusOK || text != "ok\n" {
		t.Errorf("healthz: %d %q", status, text)
	}
	if status, _ := s.get("/"); status != http.StatusNotFound {
		t.Errorf("another path: %d", status)
	}
	all, err := s.host.Services(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	_, text := s.get("/metrics")
	for _, v := range all {
		names = append(names, v.ID)
		if v.State != "running" || v.PID != s.Process.Pid || v.Host != fmt.Sprintf("server-%d", s.Process.Pid) || len(v.Why) != 0 {
			t.Errorf("%+v", v)
		}
		if !strings.Contains(text, fmt.Sprintf("\npawl_part_up{part=%q} 1\n", v.ID)) {
			t.Errorf("no metrics of %s", v.ID)
		}
	}
	if want := []string{"beat", "deadlines", "evaluator", "hints", "http", "retention", "socket", "sweep", "upkeep", "webhooks"}; !slices.Equal(names, want) {
		t.Errorf("services %v: want %v", names, want)
	}
	if !strings.Contains(text, fmt.Sprintf("\npawl_services{phase=\"running\"} %d\n", len(all))) || !strings.Contains(text, "\ngo_goroutines ") {
		t.Error(text)
	}
	order := control.Order{Verb: control.Stop, Change: pawl.Change{Actor: "cli:bob", Reason: "a test"}}
	if _, err := s.host.Order(t.Context(), "deadlines", order); pawl.KindOf(err) != pawl.Refused || !strings.Contains(err.Error(), "cannot be stopped by itself") {
		t.Errorf("stop: %v", err)
	}
	order.Verb = control.Restart
	for _, id := range names {
		if _, err := s.host.Order(t.Context(), id, order); err != nil {
			t.Errorf("restart %s: %v", id, err)
		}
		s.until(id+" runs again", func() bool {
			v, err := s.host.Service(t.Context(), id) // it is away while the socket is
			return err == nil && v.Starts == 2 && v.State == "running"
		})
	}
	s.until("it is ready again, at the same address", func() bool { status, _ := s.get("/readyz"); return status == http.StatusOK })
	if _, text := s.get("/metrics"); !strings.Contains(text, "\npawl_part_starts_total{part=\"http\"} 2\n") {
		t.Error("no second start of http")
	}
	s.stop()
	if _, err := s.host.Services(t.Context()); err == nil {
		t.Error("the socket outlives the server")
	}
	if !strings.HasSuffix(s.said(), "has stopped\n") || strings.Contains(s.said(), "level=") {
		t.Errorf("said:\n%s", s.said())
	}
}

// TestPartsOfDev: a job that needs evaluation and a deadline runs, and is counted. A
// second process on the port is refused (6). Where there can be no socket, work goes on
// all the same.
func TestPartsOfDev(t *testing.T) {
	t.Parallel()
	s := startServer(t, "dev")
	file := filepath.Join(s.dir, "job.yaml")
	source := "name: counted\nsteps:\n  - {id: a, command: [echo, hello]}\n  - {id: nap, needs: [a], sleep: 1ms}\n  - {id: b, needs: [nap], if: 'steps.a.output != \"\"', command: [echo, over]}\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(binary(t), "submit", file, "--wait")
	c.Env = s.Env
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, out, s.said())
	}
	if _, text := s.get("/metrics"); !regexp.MustCompile(`\npawl_part_rounds_total\{part="evaluator"\} [1-9]`).MatchString(text) {
		t.Error("no job was evaluated")
	}
	if _, text := s.get("/metrics"); !strings.Contains(text, "\npawl_worker_attempts_total{handler=\"command\",outcome=\"success\"} 2\n") {
		t.Error("the attempts of its worker are not counted")
	}
	if status, text := s.get("/api/jobs?workflow=counted"); status != http.StatusOK || !strings.Contains(text, `"status":"COMPLETED"`) {
		t.Errorf("the API: %d %s", status, text)
	}

	second := exec.Command(binary(t), "server", "--listen", strings.TrimPrefix(s.url, "http://"))
	second.Env = s.Env
	out, err := second.CombinedOutput()
	if second.ProcessState.ExitCode() != codeUnavailable || !bytes.Contains(out, []byte("error: cannot listen on 127.0.0.1:")) || !bytes.Contains(out, []byte("hint: another process may use that port")) {
		t.Errorf("a second one: %v\n%s", err, out)
	}
	s.stop()

	for name, place := range map[string]string{"a file": file, "a folder of all": "/"} {
		third := exec.Command(binary(t), "server", "--listen", "none", "--database", filepath.Join(s.dir, "pawl.db"))
		third.Env = append(os.Environ(), "PAWL_RUNTIME_DIR="+place)
		errs, err := third.StderrPipe()
		if err == nil {
			err = third.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 64<<10)
		n := 0
		for !bytes.Contains(b[:n], []byte("evaluates")) && err == nil {
			var more int
			more, err = errs.Read(b[n:])
			n += more
		}
		if err := third.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		rest, _ := io.ReadAll(errs)
		if said := string(b[:n]) + string(rest); third.Wait() != nil || !strings.Contains(said, "pawl service does not reach this process") || !strings.Contains(said, "has stopped") || strings.Contains(said, "http://") {
			t.Errorf("with %s for a folder of sockets: %s", name, said)
		}
	}
}

// TestTwoServersOnOneMachine have the same default port: one of them takes another, and says so
// where its parts are listed (S14).
func TestTwoServersOnOneMachine(t *testing.T) {
	t.Parallel()
	moved := 0
	for _, s := range []*serverProcess{startAtDefault(t, "server"), startAtDefault(t, "dev")} {
		s.until("it works", func() bool { return strings.Contains(s.said(), "stop with Ctrl-C") })
		s.until("it is ready", func() bool { status, _ := s.get("/readyz"); return status == http.StatusOK })
		v, err := s.host.Service(t.Context(), "http")
		if err != nil || !strings.HasPrefix(v.Status, "serves "+s.url) {
			t.Errorf("%+v, %v", v, err)
		}
		taken := strings.Contains(s.said(), s.url+" serves /api, /openapi.json, /metrics, /healthz and /readyz; 127.0.0.1:7295 is taken\n")
		if taken {
			moved++
		}
		if atDefault := s.url == "http://127.0.0.1:7295"; taken == atDefault || taken != strings.Contains(v.Status, ", since 127.0.0.1:7295 is taken") {
			t.Errorf("at %s: %s\n%s", s.url, v.Status, s.said())
		}
		defer s.stop()
	}
	if moved == 0 {
		t.Error("two processes have the default port")
	}
}

// TestListenOfASupervisor: what keeps a program from running is a reason not to be ready
// (S14, K7).
func TestListenOfASupervisor(t *testing.T) {
	t.Parallel()
	file := filepath.Join(shortDir(t), "shop.yaml")
	source := "name: shop\nservices:\n  web: {command: [sleep, '1000']}\n  bad: {command: ['false']}\n"
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "supervise", file)
	s.until("one runs, and the other one does not", func() bool {
		status, text := s.get("/readyz")
		_, counts := s.get("/metrics")
		return status == http.StatusServiceUnavailable && strings.HasPrefix(text, "bad is ") && !strings.Contains(text, "web is ") &&
			strings.Contains(counts, "\npawl_services{phase=\"running\"} 1\n") && strings.Contains(counts, `from="trying_to_start",to="running",type="program"`)
	})
	s.stop()
}

// TestWorkerListens: a worker with --listen serves its metrics and its readiness, and none of
// the API (K7).
func TestWorkerListens(t *testing.T) {
	t.Parallel()
	s := startServer(t, "server")
	w := startWith(t, shortDir(t), s.Env, "worker", "--listen", "127.0.0.1:0")
	w.until("it is ready", func() bool { status, _ := w.get("/readyz"); return status == http.StatusOK })
	w.until("it works", func() bool { return strings.Contains(w.said(), "stop with Ctrl-C") })
	if _, text := w.get("/metrics"); !strings.Contains(text, "\npawl_worker_capacity 10\n") || !strings.Contains(text, "\npawl_database_readable 1\n") {
		t.Errorf("its metrics:\n%s", text)
	}
	if status, _ := w.get("/api/version"); status != http.StatusNotFound {
		t.Errorf("the API at a worker: %d, want 404", status)
	}
	w.stop()
	s.stop()
}
