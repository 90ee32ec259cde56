package tracing

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

const given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// TestParse: the form of W3C Trace Context, and nothing else.
func TestParse(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		given: true,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00":      true,
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":      true, // of a later version
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more": true,
		"":        false,
		"00":      false,
		"00---01": false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more":    false,
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":         false,
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01":         false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":         false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01":         false,
		"00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01":          false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1":          false,
		"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01":         false,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\nX: y": false,
	} {
		c, got := Parse(text)
		if got != ok {
			t.Errorf("%q: %v, want %v", text, got, ok)
		}
		if ok && strings.HasPrefix(text, "00") && c.String() != text {
			t.Errorf("%q becomes %q", text, c)
		}
	}
}

// TestPlaces: a job is in the trace that it was submitted with, or in one of its own; its span
// and those of its attempts follow from ids.
func TestPlaces(t *testing.T) {
	t.Parallel()
	id := pawl.MakeID(time.Unix(1_800_000_000, 0), 1, 2)
	own, none := OfJob(id, "nonsense")
	if own.Trace != id || !own.Sampled || none != (Context{}) {
		t.Errorf("of its own: %+v under %+v", own, none)
	}
	with, parent := OfJob(id, given)
	if parent.String() != given || with.Trace != parent.Trace || with.Span != own.Span || !with.Sampled {
		t.Errorf("submitted with one: %+v under %+v", with, parent)
	}
	if unsampled, _ := OfJob(id, given[:len(given)-1]+"0"); unsampled.Sampled {
		t.Error("a trace that is not kept is exported")
	}
	seen := map[SpanID]bool{own.Span: true}
	for _, step := range []pawl.ID{id.Step(1), id.Step(2)} {
		for claim := 1; claim < 4; claim++ {
			a := OfAttempt(with, step, claim)
			if seen[a.Span] || a.Trace != with.Trace || a != OfAttempt(with, step, claim) {
				t.Errorf("step %v, claim %d: %+v", step, claim, a)
			}
			seen[a.Span] = true
		}
	}
}

func environment(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

// TestFromEnv: what is not set exports nothing, and what cannot be is refused.
func TestFromEnv(t *testing.T) {
	t.Parallel()
	const endpoint, here = "OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"
	for _, env := range [][]string{{}, {endpoint, ""}, {endpoint, here, "OTEL_SDK_DISABLED", "true"}, {endpoint, here, "OTEL_TRACES_EXPORTER", "none"}} {
		if e, err := FromEnv(environment(env...), "1", slog.Default()); e != nil || err != nil {
			t.Errorf("%v: %v, %v", env, e, err)
		}
	}
	for want, env := range map[string][]string{
		"ENDPOINT: want a URL":                     {endpoint, "collector:4318"},
		`PROTOCOL "grpc": want http/json`:          {endpoint, here, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
		`OTEL_TRACES_EXPORTER "zipkin": want otlp`: {endpoint, here, "OTEL_TRACES_EXPORTER", "zipkin"},
		"HEADERS: want NAME=VALUE":                 {endpoint, here, "OTEL_EXPORTER_OTLP_HEADERS", "s3cret"},
	} {
		e, err := FromEnv(environment(env...), "1", slog.Default())
		if e != nil || pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v: %v", env, err)
		}
	}
	var none *Exporter
	none.Export(func(context.Context) *Span { t.Error("it is made"); return nil })
	none.Close()
}

// TestExport: spans arrive in batches, with the headers; a collector that fails delays nobody.
func TestExport(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var names, headers []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ResourceSpans []struct {
				ScopeSpans []struct {
					Spans []struct{ Name string }
				}
			}
		}
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &m); err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("%s: %v", r.URL, err)
		}
		mu.Lock()
		defer mu.Unlock()
		headers = append(headers, r.Header.Get("Api-Key"))
		if len(headers) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		for _, span := range m.ResourceSpans[0].ScopeSpans[0].Spans {
			names = append(names, span.Name)
		}
	}))
	defer s.Close()
	e, err := FromEnv(environment("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL+"/", "OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b"), "1", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	span := func(name string) func(context.Context) *Span {
		return func(context.Context) *Span { return &Span{Name: name, Begin: time.Now(), End: time.Now()} }
	}
	for range batchSize { // they are dropped
		e.Export(span("first"))
	}
	e.Export(func(context.Context) *Span { return nil })
	e.Export(span("second"))
	e.Close()
	e.Close()
	if len(names) != 1 || names[0] != "second" || headers[0] != "a b" {
		t.Errorf("%v with %v", names, headers)
	}
	if got, want := e.Stats(), (Stats{Sent: 1, Dropped: batchSize}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}

// TestFullQueue: what does not fit is dropped and counted, and nobody waits.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	e := &Exporter{queue: make(chan func(context.Context) *Span, 1)} // 1: the second one does not fit
	e.Export(func(context.Context) *Span { return nil })
	e.Export(func(context.Context) *Span { return nil })
	if len(e.queue) != 1 || e.Stats().Dropped != 1 {
		t.Errorf("the queue has %d, and %d were dropped, want 1 and 1", len(e.queue), e.Stats().Dropped)
	}
}
