package api_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/api"
)

// An examiner is an engine whose verification lasts until it is told how it ends.
type examiner struct {
	access.Source
	begun   chan func(entries int64)
	verdict chan *pawl.Verdict // nil: it fails
	fault   chan string        // with which it panics
}

func (e *examiner) VerifyTrail(ctx context.Context, _ pawl.ID, each func(entries int64)) (*pawl.Verdict, error) {
	e.begun <- each
	select {
	case v := <-e.fault:
		panic(v)
	case v := <-e.verdict:
		if v == nil {
			return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "the database is gone"}
		}
		return v, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A stand is how a verification stands.
type stand struct {
	ID, Status, Error string
	Entries           int64
	EndedAt           string `json:"ended_at"`
	Verdict           *pawl.Verdict
}

func standAt(t *testing.T, method, url string, want int) (s stand) {
	t.Helper()
	r, err := http.NewRequest(method, url+"/api/audit/verify-all", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode < 300 {
		err = json.Unmarshal(text, &s)
	}
	if err != nil || resp.StatusCode != want {
		t.Fatalf("%s: %d %s %v, want %d", method, resp.StatusCode, text, err, want)
	}
	return s
}

// TestVerificationBesideRequests: a verification outlives its request, runs once at a time, tells
// its progress, and keeps its last result; the end of the service ends it (K6).
func TestVerificationBesideRequests(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	e := &examiner{begun: make(chan func(int64)), verdict: make(chan *pawl.Verdict), fault: make(chan string)}
	service := api.New(api.Config{Engine: e, Program: "test", Now: time.Now, Log: log})
	server := httptest.NewServer(api.Guard(service, api.GuardConfig{Log: log}))
	t.Cleanup(server.Close)
	ended := func() (s stand) {
		t.Helper()
		for s = standAt(t, "GET", server.URL, 200); s.Status == "running"; s = standAt(t, "GET", server.URL, 200) {
			if t.Context().Err() != nil {
				t.Fatal("it does not end")
			}
		}
		return s
	}

	standAt(t, "GET", server.URL, 404)
	first := standAt(t, "POST", server.URL, 202)
	each := <-e.begun
	each(7)
	if again := standAt(t, "POST", server.URL, 202); again.ID != first.ID || again.Entries != 7 || again.Status != "running" || first.Status != "running" || again.EndedAt != "" {
		t.Errorf("while it runs: %+v, want %s with 7 entries", again, first.ID)
	}
	e.verdict <- &pawl.Verdict{OK: true, Entries: 9}
	if s := ended(); s.ID != first.ID || s.Status != "ended" || s.Entries != 9 || s.Verdict == nil || !s.Verdict.OK || s.EndedAt == "" {
		t.Errorf("at its end: %+v", s)
	}

	second := standAt(t, "POST", server.URL, 202)
	if <-e.begun; second.ID == first.ID || second.Verdict != nil || second.Entries != 0 {
		t.Errorf("another: %+v after %s", second, first.ID)
	}
	e.verdict <- nil
	if s := ended(); s.ID != second.ID || s.Status != "failed" || s.Verdict != nil || s.Error != "the database is gone" {
		t.Errorf("a failure: %+v", s)
	}

	third := standAt(t, "POST", server.URL, 202)
	<-e.begun
	e.fault <- "the trail is longer than it is"
	if s := ended(); s.ID != third.ID || s.Status != "failed" || s.Verdict != nil || s.Error == "" || strings.Contains(s.Error, "longer") {
		t.Errorf("a panic: %+v", s)
	}

	standAt(t, "POST", server.URL, 202)
	<-e.begun
	service.Close()
	service.Close()
	if s := standAt(t, "GET", server.URL, 200); s.Status != "failed" {
		t.Errorf("after the end of the service: %+v", s)
	}
	standAt(t, "POST", server.URL, 503)
}
