package api

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
)

// TestGuardWithTokens: where tokens are required, the header Host is anything, a page of
// another origin still writes nothing, and a handler beside the table has a role, too.
func TestGuardWithTokens(t *testing.T) {
	t.Parallel()
	find := func(context.Context, pawl.ID) (*pawl.Token, error) { return nil, pawl.Errorf(pawl.NotFound, "none") }
	mux := http.NewServeMux()
	mux.HandleFunc("/any", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, len(access.Of(r.Context()).Roles)) })
	mux.Handle("/metrics", Allow(Viewer, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "metrics") })))
	for _, tt := range []struct {
		name     string
		required bool
		method   string
		url      string
		origin   string
		status   int
	}{
		{"foreign host", true, "GET", "https://pawl.example.com/any", "", 200},
		{"foreign host without tokens", false, "GET", "http://pawl.example.com/any", "", 403},
		{"another origin", true, "POST", "https://pawl.example.com/any", "https://evil.example", 403},
		{"its own origin", true, "POST", "https://pawl.example.com/any", "https://pawl.example.com", 200},
		{"metrics for nobody", true, "GET", "https://pawl.example.com/metrics", "", 401},
		{"metrics here", false, "GET", "http://127.0.0.1/metrics", "", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			guard := Guard(mux, GuardConfig{Gate: access.New(access.Config{Required: tt.required, Find: find})})
			r, w := httptest.NewRequest(tt.method, tt.url, nil), httptest.NewRecorder()
			if tt.origin != "" {
				r.Header.Set("Origin", tt.origin)
			}
			guard.ServeHTTP(w, r)
			if w.Code != tt.status || (w.Code == 401) != (w.Header().Get("WWW-Authenticate") == "Bearer") {
				t.Errorf("%d %s, want %d", w.Code, w.Body, tt.status)
			}
		})
	}
}

// TestAPatternWithoutARowIsNotServed: a handler that somebody adds beside the table is a fault.
func TestAPatternWithoutARowIsNotServed(t *testing.T) {
	t.Parallel()
	s := described()
	s.mux.HandleFunc("GET /api/secret", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") })
	w := httptest.NewRecorder()
	Guard(s, GuardConfig{}).ServeHTTP(w, httptest.NewRequest("GET", "http://127.0.0.1/api/secret", nil))
	if w.Code != http.StatusInternalServerError {
		t.Errorf("%d %s, want 500", w.Code, w.Body)
	}
}
