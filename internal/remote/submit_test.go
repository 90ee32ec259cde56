package remote_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl"
)

// TestLostBatches: a batch whose response did not arrive, or was cut off in its middle, is sent again, and
// makes its jobs once (J8).
func TestLostBatches(t *testing.T) {
	t.Parallel()
	for name, spoil := range losses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			e, p := through(t, s, spoil)
			subs := make([]pawl.Submission, 100)
			for i := range subs {
				subs[i] = pawl.Submission{Definition: canonical(t, []string{many, order}[i%2])}
			}
			subs[7].Definition = []byte("{}")
			subs[8].RequestID = "own"
			done, err := e.Submit(t.Context(), subs...)
			must(t, err)
			ids := map[pawl.ID]bool{}
			for i := range done {
				if ids[done[i].ID] = true; (done[i].Err != nil) != (i == 7) {
					t.Errorf("%d: %v", i, done[i].Err)
				}
			}
			again, err := e.Submit(t.Context(), subs[8])
			must(t, err)
			jobs, err := s.local.Jobs(t.Context(), pawl.JobQuery{Limit: 1000})
			must(t, err)
			if len(jobs) != 99 || len(ids) != 100 || again[0].ID != done[8].ID || p.most() != 2 {
				t.Errorf("%d jobs of %d ids, each request was sent up to %d times; the job with a request id is %v, was %v", len(jobs), len(ids), p.most(), again[0], done[8])
			}
		})
	}
}

// TestLostHeavyBatch: the same of a batch whose jobs are too many for one commit.
func TestLostHeavyBatch(t *testing.T) {
	t.Parallel()
	wide := "name: wide\nsteps:\n"
	for i := range 1000 {
		wide += fmt.Sprintf("- {id: s%d, event: {name: go}}\n", i)
	}
	for _, name := range []string{"the answer is lost", "half of the answer is lost"} {
		s := newSite(t)
		e, p := through(t, s, losses[name])
		done, err := e.Submit(t.Context(), slices.Repeat([]pawl.Submission{{Definition: canonical(t, wide)}}, 20)...)
		must(t, err)
		ids := map[pawl.ID]bool{}
		for i := range done {
			must(t, done[i].Err)
			ids[done[i].ID] = true
		}
		if jobs, err := s.local.Jobs(t.Context(), pawl.JobQuery{Limit: 1000}); err != nil || len(jobs) != 20 || len(ids) != 20 || p.most() != 2 {
			t.Errorf("%s: %d jobs of %d ids, %v; each request was sent up to %d times", name, len(jobs), len(ids), err, p.most())
		}
	}
}

// TestOtherBatchServers: a server of an earlier version, which knows no other members than these, gets
// nothing else; and a response is read whatever its form.
func TestOtherBatchServers(t *testing.T) {
	t.Parallel()
	keys := []string{}
	e := fake(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			RequestID string `json:"request_id"`
			Jobs      []struct {
				RequestID   string          `json:"request_id"`
				Workspace   string          `json:"workspace_id"`
				Workflow    string          `json:"workflow"`
				Definition  json.RawMessage `json:"definition"`
				Inputs      json.RawMessage `json:"inputs"`
				Description string          `json:"task_description"`
				Priority    int             `json:"priority"`
				Parent      string          `json:"parent_job_id"`
				Depth       *int            `json:"depth"`
				WorkerCount int             `json:"worker_count"`
				Metadata    json.RawMessage `json:"metadata"`
				Traceparent string          `json:"traceparent"`
			} `json:"jobs"`
		}
		d := json.NewDecoder(r.Body)
		d.DisallowUnknownFields()
		if err := d.Decode(&body); err != nil || r.Header.Get("Idempotency-Key") == "" || len(body.Jobs) != 2 {
			problem(w, 422, fmt.Sprintf(`"code":"INVALID","detail":%q`, fmt.Sprint(err)))
			return
		}
		keys = append(keys, body.Jobs[0].RequestID, body.Jobs[1].RequestID)
		if body.Jobs[0].Workspace == "secret" {
			problem(w, 404, `"code":"NOT_FOUND","detail":"there is no workspace \"secret\""`)
			return
		}
		_, _ = fmt.Fprintf(w, "{\n \"later\": 1, \"items\": [ {\"receipt\": {\"later\": [], \"id\": \"j_019ac1f0a3c47d5e8f00112233445566\", \"status\": \"PENDING\", \"actor\": %q}},\n {\"problem\": {\"status\": 409, \"code\": \"CONFLICT\", \"detail\": \"busy\"}} ] }\n", body.Jobs[0].Description)
	})
	depth := 1
	full := pawl.Submission{Definition: []byte(`{"a": 1}`), Inputs: []byte(`{"b": "<"}`), Metadata: []byte(`{}`), Description: "ä <\u2028>", Priority: -7, Depth: &depth, WorkerCount: 2, Traceparent: "00", RequestID: "own"}
	other := full
	other.Workspace, other.RequestID = "secret", ""
	done, err := e.Submit(t.Context(), full, full)
	must(t, err)
	if done[0].Err != nil || done[0].Receipt.Actor != full.Description || done[0].ID.Public(pawl.JobPrefix) != "j_019ac1f0a3c47d5e8f00112233445566" || pawl.KindOf(done[1].Err) != pawl.Conflict {
		t.Errorf("%+v", done[:2])
	}
	done, err = e.Submit(t.Context(), other, other)
	must(t, err)
	for _, d := range done {
		if d.Err == nil || pawl.KindOf(d.Err) != pawl.NotFound {
			t.Errorf("of another workspace: %+v", d)
		}
	}
	if want := []string{"own", "own", "", ""}; !slices.Equal(keys, want) {
		t.Errorf("the keys of jobs are %q, want %q: that of the request is enough for the others", keys, want)
	}
	bad := full
	bad.Inputs = bytes.Repeat([]byte("{"), 3)
	if _, err := e.Submit(t.Context(), full, bad); err == nil || pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("inputs that are no JSON: %v", err)
	}
}

// TestMixedBatches: jobs of several workspaces go in one request, in whatever order, and are made once if
// its response is lost (J8).
func TestMixedBatches(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	e, p := through(t, s, losses["the answer is lost"])
	subs := make([]pawl.Submission, 100)
	for i := range subs {
		subs[i] = pawl.Submission{Workspace: []string{"default", "other"}[i%2], Definition: canonical(t, order)}
	}
	subs[3].RequestID = "own"
	done, err := e.Submit(t.Context(), subs...)
	must(t, err)
	for i := range done {
		must(t, done[i].Err)
		v, err := s.local.Job(t.Context(), done[i].ID)
		must(t, err)
		if v.Workspace != subs[i].Workspace {
			t.Errorf("%d is in workspace %s", i, v.Workspace)
		}
	}
	for _, w := range []string{"default", "other"} {
		if jobs, err := s.local.Jobs(t.Context(), pawl.JobQuery{Workspace: w, Limit: 1000}); err != nil || len(jobs) != 50 {
			t.Errorf("there are %d jobs in %s, %v; want 50", len(jobs), w, err)
		}
	}
	if p.seen["POST /api/jobs/batch "] != 2 || p.most() != 2 {
		t.Errorf("the requests are %v, want one that is sent twice", p.seen)
	}
}

// TestFailedPart: what is known of jobs that went in several requests is returned if a later one fails; if
// the first one does, nothing is known.
func TestFailedPart(t *testing.T) {
	t.Parallel()
	requests, failing := 0, 2
	e := fake(t, func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Jobs []json.RawMessage `json:"jobs"`
		}
		if requests++; requests == failing || json.NewDecoder(r.Body).Decode(&body) != nil {
			problem(w, 500, `"code":"INTERNAL","detail":"broken"`)
			return
		}
		item := `,{"receipt":{"id":"j_019ac1f0a3c47d5e8f00112233445566","status":"PENDING"}}`
		_, _ = fmt.Fprintf(w, `{"items":[{}%s]}`, strings.Repeat(item, len(body.Jobs)-1))
	})
	subs := make([]pawl.Submission, 1300)
	for i := range subs {
		subs[i].Definition = []byte("{}")
	}
	subs[600].Private = true
	done, err := e.Submit(t.Context(), subs...)
	must(t, err)
	for i, d := range done {
		switch kind := pawl.KindOf(d.Err); {
		case i == 600 && (d.Err == nil || kind == pawl.Internal), i != 600 && (i == 0 || i >= 500) && (d.Err == nil || kind != pawl.Internal), i > 0 && i < 500 && d.Err != nil:
			t.Fatalf("%d: %+v", i, d)
		}
	}
	if requests != 2 {
		t.Errorf("there were %d requests, want 2", requests)
	}
	requests, failing = 0, 1
	if done, err := e.Submit(t.Context(), subs...); pawl.KindOf(err) != pawl.Internal || done != nil {
		t.Errorf("%v %v", done, err)
	}
}

// TestLargeBatches: no request is larger than a server takes, whatever makes it large.
func TestLargeBatches(t *testing.T) {
	t.Parallel()
	var largest atomic.Int64
	e := fake(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		largest.Store(max(largest.Load(), int64(len(text))))
		problem(w, 404, `"code":"NOT_FOUND","detail":"no"`)
	})
	large := bytes.Repeat([]byte("a"), 16<<10)
	for _, sub := range []pawl.Submission{{Metadata: slices.Concat([]byte(`{"a":"`), large, []byte(`"}`))}, {Description: string(large)}} {
		sub.Definition = []byte("{}")
		if _, err := e.Submit(t.Context(), slices.Repeat([]pawl.Submission{sub}, 500)...); err != nil || largest.Load() > 5<<20 {
			t.Errorf("%v, and a request has %d bytes", err, largest.Load())
		}
	}
}
