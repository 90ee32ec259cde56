package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

func TestKinds(t *testing.T) {
	t.Parallel()
	var slugs []Slug
	for _, k := range Kinds() {
		slugs = append(slugs, k.Slug)
		if k.Title == "" || !strings.HasSuffix(k.Text, ".") || http.StatusText(k.Status) == "" {
			t.Errorf("%s: %+v lacks a status, a title or a sentence", k.Slug, k)
		}
		if p := Problemf(k.Slug, "no %s", "luck"); p.Type != "/problems/"+string(k.Slug) || p.Status != k.Status || p.Error() != "no luck" {
			t.Errorf("%s: problem %+v", k.Slug, p)
		}
	}
	byStatus := func(a, b Kind) int { return a.Status - b.Status }
	if !slices.IsSortedFunc(kinds, byStatus) || len(slices.Compact(slices.Sorted(slices.Values(slugs)))) != len(slugs) {
		t.Errorf("kinds %v: want each once, by status", slugs)
	}
	if p := Problemf("bogus", ""); p.Status != 500 || p.Code != "INTERNAL" || p.Error() != "Internal error" {
		t.Errorf("of an unknown slug: %+v", p)
	}
}

// TestOf: each error of Pawl has its problem; a refused transition names the state, the event
// and what is allowed (K3, J3).
func TestOf(t *testing.T) {
	t.Parallel()
	_, refusal := lifecycle.Job.Next(lifecycle.JobCompleted, lifecycle.JobCancel)
	_, open := lifecycle.Job.Next(lifecycle.JobRunning, lifecycle.JobReject)
	var r, o *machine.Refusal
	if !errors.As(refusal, &r) || !errors.As(open, &o) {
		t.Fatalf("errors %v, %v: want refusals", refusal, open)
	}
	r.Entity = "j_1"
	var allowed []string
	for _, e := range o.Allowed {
		allowed = append(allowed, string(e))
	}
	for _, tt := range []struct {
		name string
		err  error
		want *Problem
	}{
		{"none", nil, nil},
		{"invalid", &pawl.Error{Kind: pawl.Invalid, Message: "limit 0", Hint: "give 1 or more"},
			&Problem{Type: "/problems/invalid", Title: "Invalid request", Status: 422, Code: "INVALID", Detail: "limit 0", Hint: "give 1 or more"}},
		{"wrapped", fmt.Errorf("load: %w", pawl.Errorf(pawl.NotFound, "job j_1 does not exist")),
			&Problem{Type: "/problems/not-found", Title: "Not found", Status: 404, Code: "NOT_FOUND", Detail: "load: job j_1 does not exist"}},
		{"conflict", pawl.Errorf(pawl.Conflict, "it exists"),
			&Problem{Type: "/problems/conflict", Title: "Conflict", Status: 409, Code: "CONFLICT", Detail: "it exists"}},
		{"refused transition", fmt.Errorf("cancel: %w", r),
			&Problem{Type: "/problems/invalid-state-transition", Title: "Invalid state transition", Status: 409, Code: "INVALID_STATE_TRANSITION",
				Detail: "cancel: " + r.Error(), Entity: "j_1", From: "COMPLETED", Event: "cancel", Allowed: []string{"redact"}}},
		{"refused transition with a hint", &pawl.Error{Kind: pawl.Conflict, Message: "start", Hint: "wait", Err: o},
			&Problem{Type: "/problems/invalid-state-transition", Title: "Invalid state transition", Status: 409, Code: "INVALID_STATE_TRANSITION",
				Detail: "start: " + o.Error(), Hint: "wait", From: "RUNNING", Event: "reject", Allowed: allowed}},
		{"refused", pawl.Errorf(pawl.Refused, "not yours"),
			&Problem{Type: "/problems/not-allowed", Title: "Not allowed", Status: 403, Code: "NOT_ALLOWED", Detail: "not yours"}},
		{"request id of another request", fmt.Errorf("submit: %w", link.KeyReused("r1")),
			&Problem{Type: "/problems/key-reused", Title: "Idempotency key reused", Status: 422, Code: "KEY_REUSED", Detail: "submit: " + link.KeyReused("r1").Error()}},
		{"request id in use", link.KeyHeld("r1"),
			&Problem{Type: "/problems/request-in-progress", Title: "Request in progress", Status: 409, Code: "REQUEST_IN_PROGRESS", Detail: link.KeyHeld("r1").Error(),
				Hint: "give the same request again when that transaction has ended"}},
		{"worker that has ended", fmt.Errorf("visit: %w", link.ErrWorkerEnded),
			&Problem{Type: "/problems/worker-ended", Title: "Worker has ended", Status: 410, Code: "WORKER_ENDED", Detail: "visit: this worker has been ended"}},
		{"unavailable", pawl.Errorf(pawl.Unavailable, "busy"),
			&Problem{Type: "/problems/unavailable", Title: "Unavailable", Status: 503, Code: "UNAVAILABLE", Detail: "busy"}},
		{"unavailable, with a cause", fmt.Errorf("list: %w", &pawl.Error{Kind: pawl.Unavailable, Message: "look for jobs: the database is out of reach", Err: errors.New("dial tcp 10.0.0.7:5432")}),
			&Problem{Type: "/problems/unavailable", Title: "Unavailable", Status: 503, Code: "UNAVAILABLE", Detail: "look for jobs: the database is out of reach"}},
		{"internal", &pawl.Error{Kind: pawl.Internal, Message: "secret", Hint: "secret"},
			&Problem{Type: "/problems/internal", Title: "Internal error", Status: 500, Code: "INTERNAL", Detail: "the server has a fault; its log has the reason"}},
		{"unknown kind", &pawl.Error{Kind: 99, Message: "odd"},
			&Problem{Type: "/problems/internal", Title: "Internal error", Status: 500, Code: "INTERNAL", Detail: "the server has a fault; its log has the reason"}},
		{"unknown", errors.New("secret"),
			&Problem{Type: "/problems/internal", Title: "Internal error", Status: 500, Code: "INTERNAL", Detail: "the server has a fault; its log has the reason"}},
		{"large body", fmt.Errorf("read: %w", &http.MaxBytesError{Limit: 5}),
			&Problem{Type: "/problems/too-large", Title: "Too large", Status: 413, Code: "TOO_LARGE", Detail: "the body is larger than 5 bytes"}},
		{"canceled", fmt.Errorf("claim: %w", context.Canceled),
			&Problem{Type: "/problems/unavailable", Title: "Unavailable", Status: 503, Code: "UNAVAILABLE",
				Detail: "the request was ended before its response was there: it took too long, its caller left, or the server stops"}},
		{"late, with a kind", &pawl.Error{Kind: pawl.Conflict, Message: "locked", Err: context.DeadlineExceeded},
			&Problem{Type: "/problems/conflict", Title: "Conflict", Status: 409, Code: "CONFLICT", Detail: "locked: context deadline exceeded"}},
		{"problem", fmt.Errorf("call: %w", Problemf(SlugQuota, "4 of 4")),
			&Problem{Type: "/problems/quota", Title: "Quota reached", Status: 409, Code: "QUOTA", Detail: "4 of 4"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, Of(tt.err)); diff != "" {
				t.Errorf("problem (-want +got):\n%s", diff)
			}
		})
	}
}

// TestWrite: a problem is a document of RFC 9457, and nothing is left of another response.
func TestWrite(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	for name, value := range map[string]string{"Content-Length": "3", "Etag": `"1"`, "Content-Encoding": "gzip", "Request-Id": "r1"} {
		w.Header().Set(name, value)
	}
	p := Problemf(SlugMethodNotAllowed, "no <PUT>")
	p.Methods = []string{"GET", "HEAD"}
	p.Write(w)
	want := http.Header{"Content-Type": {"application/problem+json"}, "Cache-Control": {"no-store"}, "X-Content-Type-Options": {"nosniff"},
		"Allow": {"GET, HEAD"}, "Request-Id": {"r1"}}
	if diff := cmp.Diff(want, w.Header()); diff != "" || w.Code != 405 {
		t.Errorf("status %d, header (-want +got):\n%s", w.Code, diff)
	}
	text := `{"type":"/problems/method-not-allowed","title":"Method not allowed","status":405,"detail":"no <PUT>","code":"METHOD_NOT_ALLOWED","request_id":"r1"}` + "\n"
	if diff := cmp.Diff(text, w.Body.String()); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if p.RequestID != "" {
		t.Error("writing a problem changes it")
	}
	var back Problem
	if err := json.Unmarshal(w.Body.Bytes(), &back); err != nil || back.GetStatus() != 405 || back.ContentType("text/html") != "application/problem+json" {
		t.Errorf("read back: %+v, %v", back, err)
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /problems/{slug}", Explain)
	for _, k := range Kinds() {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("GET", "/problems/"+string(k.Slug), nil))
		if w.Code != 200 || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || !strings.HasSuffix(w.Body.String(), "\n\n"+k.Text+"\n") {
			t.Errorf("%s: %d %v %s", k.Slug, w.Code, w.Header(), w.Body)
		}
	}
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest("GET", "/problems/none", nil))
	if w.Code != 404 || !strings.Contains(w.Body.String(), "NOT_FOUND") {
		t.Errorf("an unknown kind: %d %s", w.Code, w.Body)
	}
}
