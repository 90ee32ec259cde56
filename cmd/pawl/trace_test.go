package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/tracing"
)

// A tracedSpan is a span as OTLP has it in JSON.
type tracedSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	StartTimeUnixNano, EndTimeUnixNano  string
	Status                              struct {
		Code    int
		Message string
	}
	Attributes []struct {
		Key   string
		Value struct{ StringValue string }
	}
}

// attribute returns the text of an attribute.
func (s *tracedSpan) attribute(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.StringValue
		}
	}
	return ""
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
on_error: drain
steps:
  - {id: shell, run: 'printf "%s" "$TRACEPARENT"', output: text}
  - {id: request, needs: [shell], http: {url: "URL"}, output: text}
  - {id: nap, sleep: 20ms}
  - {id: go, needs: [nap], event: {name: go}}
  - {id: each, foreach: [1, 2], sleep: 1ms}
  - {id: ask, approval: {prompt: "Go on?", expires: 1ms}}
  - {id: child, needs: [request], workflow: {file: child.yaml}}
output: {shell: "${{ steps.shell.output }}"}
`

// TestTraces: a job, its attempts and its waits are spans of the trace that it was submitted with,
// whoever runs them, without what a signal brings; commands, requests and child jobs get their place in it (K7).
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
	submit := exec.Command(f.bin, "--database", f.url, "submit", filepath.Join(f.dir, "traced.yaml"))
	submit.Env = append(os.Environ(), "TRACEPARENT="+caller)
	out, err := submit.Output()
	if err != nil {
		t.Fatal(err)
	}
	var job pawl.JobView
	f.until("a step waits for the signal", func() bool { return strings.Contains(f.say("job", "why", strings.TrimSpace(string(out))), "go") })
	f.say("job", "signal", strings.TrimSpace(string(out)), "go", "--data", `"hidden"`)
	f.until("the job has ended", func() bool { // the child fails, and so does the job
		f.parse(&job, "job", "show", strings.TrimSpace(string(out)), "-o", "json")
		return job.CompletedAt != 0
	})
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
	below := hex.EncodeToString(span.Span[:])
	for name, want := range map[string]struct {
		parent string
		code   int
		wait   string
	}{
		"job traced":          {"00f067aa0ba902b7", 2, ""},
		"step traced.shell":   {below, 0, ""},
		"step traced.request": {below, 0, ""},
		"step traced.nap":     {below, 0, "sleep"},
		"step traced.go":      {below, 0, "event"},
		"step traced.each[0]": {below, 0, "sleep"},
		"step traced.each[1]": {below, 0, "sleep"},
		"step traced.ask":     {below, 2, "approval"},
		"job child":           {below, 2, ""},
		"step child.a":        {"", 2, ""},
	} {
		got := c.spans[name]
		if len(got) != 1 {
			t.Errorf("%d spans %q, want 1 of %v", len(got), name, c.spans)
			continue
		}
		s := got[0]
		if strings.Contains(fmt.Sprint(s), "hidden") || s.attribute("pawl.wait.kind") != want.wait {
			t.Errorf("%s: %+v", name, s)
		}
		if s.TraceID != "4bf92f3577b34da6a3ce929d0e0e4736" || want.parent != "" && s.ParentSpanID != want.parent || s.Status.Code != want.code || s.StartTimeUnixNano > s.EndTimeUnixNano {
			t.Errorf("%s: %+v, want %+v", name, s, want)
		}
	}
	for _, name := range []string{"step traced.each", "step traced.child"} {
		if got := c.spans[name]; len(got) != 0 {
			t.Errorf("%s has a span: %+v", name, got)
		}
	}
	if nap := c.spans["step traced.nap"]; len(nap) == 1 {
		begin, _ := strconv.ParseInt(nap[0].StartTimeUnixNano, 10, 64)
		end, _ := strconv.ParseInt(nap[0].EndTimeUnixNano, 10, 64)
		if end-begin < int64(20*time.Millisecond) {
			t.Errorf("a sleep of 20 ms took %d ns", end-begin)
		}
	}
	if ask := c.spans["step traced.ask"]; len(ask) == 1 && ask[0].Status.Message != "expired" {
		t.Errorf("the approval: %+v", ask)
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
