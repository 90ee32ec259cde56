package main

import (
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/tracing"
)

// A tracedSpan is a span as OTLP has it in JSON.
type tracedSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	StartTimeUnixNano, EndTimeUnixNano  string
	Status                              struct{ Code int }
}

// A collector keeps the spans that it gets, by name.
type collector struct {
	t     *testing.T
	mu    sync.Mutex
	spans map[string][]tracedSpan
}

func (c *collector) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var m struct {
		ResourceSpans []struct {
			ScopeSpans []struct{ Spans []tracedSpan }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&m); err != nil || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
		c.t.Errorf("%s: %v", r.URL, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range m.ResourceSpans[0].ScopeSpans[0].Spans {
		c.spans[s.Name] = append(c.spans[s.Name], s)
	}
}

const traced = `name: traced
steps:
  - {id: shell, run: 'printf "%s" "$TRACEPARENT"', output: text}
  - {id: request, needs: [shell], http: {url: "URL"}, output: text}
  - {id: child, needs: [request], workflow: {file: child.yaml}}
output: {shell: "${{ steps.shell.output }}"}
`

// TestTraces: a job and its attempts are spans of the trace that it was submitted with, whoever
// runs them; commands, requests and child jobs get their place in it (K7).
func TestTraces(t *testing.T) {
	t.Parallel()
	c := &collector{t: t, spans: map[string][]tracedSpan{}}
	otlp := httptest.NewServer(c)
	defer otlp.Close()
	passed := make(chan string, 1)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { passed <- r.Header.Get("traceparent") }))
	defer service.Close()

	f := newFleet(t, "sqlite://"+filepath.Join(t.TempDir(), "pawl.db"))
	for name, text := range map[string]string{"traced.yaml": strings.Replace(traced, "URL", service.URL, 1), "child.yaml": "name: child\nsteps: [{id: a, run: 'exit 1', retry: {max_attempts: 1}}]\n"} {
		if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	begin := func(args ...string) *exec.Cmd {
		t.Helper()
		p := exec.Command(f.bin, append([]string{"--database", f.url}, args...)...)
		p.Env = append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+otlp.URL)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		f.running = append(f.running, p)
		return p
	}
	server, worker := begin("server", "--listen", "none"), begin("worker")
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	submit := exec.Command(f.bin, "--database", f.url, "submit", filepath.Join(f.dir, "traced.yaml"), "--wait", "-o", "json")
	submit.Env = append(os.Environ(), "TRACEPARENT="+caller)
	out, _ := submit.Output() // the child fails, and so does the job
	var job pawl.JobView
	if err := json.Unmarshal(out, &job); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, p := range []*exec.Cmd{worker, server} { // what they have is sent when they end
		_ = p.Process.Signal(syscall.SIGTERM)
		_ = p.Wait()
	}

	id, err := pawl.ParseID(pawl.JobPrefix, job.ID)
	if err != nil {
		t.Fatal(err)
	}
	span, _ := tracing.OfJob(id, caller)
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, want := range map[string]struct {
		parent string
		code   int
	}{
		"job traced":          {"00f067aa0ba902b7", 2},
		"step traced.shell":   {hex.EncodeToString(span.Span[:]), 0},
		"step traced.request": {hex.EncodeToString(span.Span[:]), 0},
		"job child":           {hex.EncodeToString(span.Span[:]), 2},
		"step child.a":        {"", 2},
	} {
		got := c.spans[name]
		if len(got) != 1 {
			t.Errorf("%d spans %q, want 1 of %v", len(got), name, c.spans)
			continue
		}
		s := got[0]
		if s.TraceID != "4bf92f3577b34da6a3ce929d0e0e4736" || want.parent != "" && s.ParentSpanID != want.parent || s.Status.Code != want.code || s.StartTimeUnixNano > s.EndTimeUnixNano {
			t.Errorf("%s: %+v, want %+v", name, s, want)
		}
	}
	if child, a := c.spans["job child"], c.spans["step child.a"]; len(child) == 1 && len(a) == 1 && a[0].ParentSpanID != child[0].SpanID {
		t.Errorf("the step of the child is under %s, want %s", a[0].ParentSpanID, child[0].SpanID)
	}
	for name, got := range map[string]string{"shell": shellOf(job), "request": <-passed} {
		if spans := c.spans["step traced."+name]; len(spans) == 1 && got != "00-"+spans[0].TraceID+"-"+spans[0].SpanID+"-01" {
			t.Errorf("%s got %q, want %+v", name, got, spans[0])
		}
	}
}

// shellOf returns the output of the step shell.
func shellOf(v pawl.JobView) string {
	for _, s := range v.Steps {
		if s.Key == "shell" {
			var out string
			_ = json.Unmarshal(s.Output, &out)
			return out
		}
	}
	return ""
}
