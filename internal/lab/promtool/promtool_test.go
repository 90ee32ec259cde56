package promtool

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/lab/s3test"
)

const (
	rules     = "../../../deploy/prometheus/alerts.yaml"
	unitTests = "../../../deploy/prometheus/alerts_test.yaml"
	dashboard = "../../../deploy/grafana/pawl.json"
	list      = "../../../docs/metrics.md"
)

func TestMain(m *testing.M) {
	code := m.Run()
	s3test.Remove()
	os.Exit(code)
}

// tool returns the path of promtool. Where it is not installed, it is taken out of the package
// that apt-get downloads, which needs no rights.
func tool(t *testing.T) string {
	t.Helper()
	if path, err := exec.LookPath("promtool"); err == nil {
		return path
	}
	dir := t.TempDir()
	get := exec.CommandContext(t.Context(), "sh", "-c", "{ apt-get download prometheus || { apt-get update -q && apt-get download prometheus; }; } && dpkg-deb -x prometheus_*.deb .")
	get.Dir = dir
	if out, err := get.CombinedOutput(); err != nil {
		t.Fatalf("promtool is missing; run: sudo apt-get install -y --no-install-recommends prometheus\n%v\n%s", err, out)
	}
	return filepath.Join(dir, "usr/bin/promtool")
}

// run runs a program with an input.
func run(t *testing.T, in []byte, name string, args ...string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Stdin = bytes.NewReader(in)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s %s: %v\n%s", filepath.Base(name), strings.Join(args, " "), err, out)
	}
}

// expressions returns the queries of the dashboard.
func expressions(t *testing.T) (all []string) {
	t.Helper()
	b, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Templating struct {
			List []struct{ Name string }
		}
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$job", ".*")
	for _, v := range d.Templating.List {
		if !slices.Contains([]string{"datasource", "job", "instance"}, v.Name) {
			t.Errorf("variable %s: want datasource, job or instance", v.Name)
		}
	}
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q has the id of another one", p.Title)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			expr := variables.Replace(target.Expr)
			if strings.Contains(expr, "$") {
				t.Errorf("panel %q: unknown variable in %s", p.Title, target.Expr)
			}
			all = append(all, expr)
		}
	}
	return all
}

// TestRules: the rules and the queries of the dashboard are valid, and the rules fire when they
// should (K7).
func TestRules(t *testing.T) {
	t.Parallel()
	promtool := tool(t)
	run(t, nil, promtool, "check", "rules", rules)
	run(t, nil, promtool, "test", "rules", unitTests)
	var recorded strings.Builder
	recorded.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, expr := range expressions(t) {
		fmt.Fprintf(&recorded, "  - {record: dashboard:%d, expr: %q}\n", i, expr)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yaml")
	if err := os.WriteFile(file, []byte(recorded.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, nil, promtool, "check", "rules", file)
}

// TestMetrics: what a server and a worker serve passes the checks of Prometheus, and has every
// metric that the rules and the dashboard use (K7).
func TestMetrics(t *testing.T) { // not parallel: it sets a variable of the environment
	promtool, dir := tool(t), t.TempDir()
	pawl := filepath.Join(dir, "pawl")
	run(t, nil, "go", "build", "-o", pawl, "../../../cmd/pawl")
	database := filepath.Join(dir, "pawl.db")
	t.Setenv("PAWL_RUNTIME_DIR", dir)
	served := map[string]bool{}
	for _, role := range []string{"server", "worker"} {
		args := []string{"--database", database, role, "--listen", "127.0.0.1:0"}
		if role == "server" {
			args = append(args, "--load", dir)
		}
		check(t, promtool, scrape(t, exec.CommandContext(t.Context(), pawl, args...), "pawl_build_info"), served)
	}
	load := filepath.Join(dir, "load.yaml")
	if err := os.WriteFile(load, []byte("name: a\nfiles: [{name: d, count: 1, size: 4KiB}]\nmix: [{operation: read}]\nengine: \"null\"\nrate: 100\nduration: 1h\ninterval: 100ms\nstart: {delay: 10ms}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	check(t, promtool, scrape(t, exec.CommandContext(t.Context(), pawl, "load", "run", load, "--metrics", "127.0.0.1:0", "--out", filepath.Join(dir, "result")), "pawl_load_response_seconds_count"), served)
	checkObjects(t, promtool, pawl, served)
	documented, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	for name := range named(append(expressions(t), string(source))) {
		// A counter with labels is served once something has happened; that the list has
		// what there is then, a test of package metrics says.
		if !served[name] && !bytes.Contains(documented, []byte("\n| `"+name+"` |")) {
			t.Errorf("there is no metric %s", name)
		}
	}
	for _, name := range []string{"pawl_build_info", "pawl_part_up", "pawl_webhook_lag_seconds", "pawl_database_readable", "pawl_worker_capacity", "pawl_load_runs", "pawl_load_service_seconds", "pawl_load_skew_seconds", "pawl_load_first_byte_seconds", "pawl_load_retries_total", "pawl_agent_first_byte_seconds", "pawl_agent_retries_total"} {
		if !served[name] {
			t.Errorf("no process serves %s", name)
		}
	}
}

// checkObjects checks the metrics of the agent and of the controller of a load on an object store (L11).
func checkObjects(t *testing.T, promtool, pawl string, served map[string]bool) {
	t.Helper()
	store := s3test.Start(t)
	dir, err := os.MkdirTemp("", "pawl-s3-") // short: it has a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	file, address := filepath.Join(dir, "objects.yaml"), "unix:"+filepath.Join(dir, "s")
	if err := os.WriteFile(file, []byte("{name: objects, engine: s3, files: [{name: d, count: 2, size: 4KiB}], mix: [{operation: read}], rate: 100, duration: 1h, interval: 100ms, start: {delay: 10ms}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), pawl, append(args, "--metrics", "127.0.0.1:0")...)
		c.Env = append(os.Environ(), store.Env()...)
		return c
	}
	agent := serve(t, command("agent", "--s3", store.URL, "--state-dir", filepath.Join(dir, "state"), "--listen", address))
	agent.scrape(t, "pawl_build_info") // it listens
	load := serve(t, command("load", "run", file, "--agents", address, "--out", filepath.Join(dir, "result")))
	check(t, promtool, load.scrape(t, "pawl_load_first_byte_seconds_count"), served)
	check(t, promtool, agent.scrape(t, "pawl_agent_first_byte_seconds_count"), served)
}

// check checks metrics as Prometheus does, and notes their names.
func check(t *testing.T, promtool string, text []byte, names map[string]bool) {
	t.Helper()
	run(t, text, promtool, "check", "metrics")
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllSubmatch(text, -1) {
		names[string(m[1])] = true
	}
}

// named returns the names of metrics in texts. A part of a histogram counts as that.
func named(texts []string) map[string]bool {
	names := map[string]bool{}
	for _, text := range texts {
		for _, name := range regexp.MustCompile(`\b(pawl|go|process)_[a-z_]+`).FindAllString(text, -1) {
			names[strings.TrimSuffix(name, "_bucket")] = true
		}
	}
	return names
}

// scrape starts a process, reads its metrics when it is ready and has one of a name, and ends it.
func scrape(t *testing.T, c *exec.Cmd, name string) []byte {
	t.Helper()
	p := serve(t, c)
	defer p.end()
	return p.scrape(t, name)
}

// A process has metrics.
type process struct {
	*exec.Cmd
	said *lockedBuffer
}

// serve starts a process, which ends with the test.
func serve(t *testing.T, c *exec.Cmd) *process {
	t.Helper()
	p := &process{c, &lockedBuffer{}}
	c.Stderr = p.said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	return p
}

// end ends the process, if it has not ended.
func (p *process) end() {
	_ = p.Process.Kill()
	_ = p.Wait()
}

// scrape reads the metrics of a process when it is ready and has one of a name.
func (p *process) scrape(t *testing.T, name string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the process is not ready: %s", p.said.String())
		}
		url := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`).FindString(p.said.String())
		if url == "" {
			continue
		}
		if status, _ := ask(ctx, url+"/readyz"); status != http.StatusOK {
			continue
		}
		status, text := ask(ctx, url+"/metrics")
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
		if bytes.Contains(text, []byte("\n"+name)) {
			return text
		}
	}
}

func ask(ctx context.Context, url string) (status int, body []byte) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, body
}

// A lockedBuffer keeps what a process says while another goroutine reads it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
