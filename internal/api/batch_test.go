package api_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

// TestBatchOnce: a batch with a key has one effect; its response, refusals of single jobs included, is
// replayed byte for byte, whatever has changed since, and for nobody else (J8).
func TestBatchOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	jobs := func() int { return len(s.want(200, "GET", "/api/jobs?limit=100", "").field(t, "items").([]any)) }
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	const batch = `"jobs":[{"workflow":"order"},{"workflow":"later"},{"workflow":"order","inputs":{"nope":1}},{"workflow":"order","request_id":"own","traceparent":"TRACE"}]}`
	of := func(trace string) string { return strings.ReplaceAll(batch, "TRACE", trace) }
	first := s.want(200, "POST", "/api/jobs/batch", `{"request_id":"b-1",`+of("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	if first.field(t, "items.1.problem.code") != "NOT_FOUND" || first.field(t, "items.2.problem.code") != "INVALID" || first.header.Get("Idempotency-Replayed") != "" {
		t.Errorf("%s", first.body)
	}
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": "name: later\nsteps: [{id: a, run: x}]\n"}))
	s.close() // the response is lost, and the server restarts
	s.open()
	again := s.want(200, "POST", "/api/jobs/batch", "{"+of(""), "Idempotency-Key", "b-1")
	if string(again.body) != string(first.body) || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("repeated:\n%s\nwas\n%s", again.body, first.body)
	}
	if one := s.want(201, "POST", "/api/jobs", `{"workflow":"order","request_id":"own"}`); one.field(t, "id") != first.field(t, "items.3.receipt.id") {
		t.Errorf("the job with a key of its own: %s, in %s", one.body, first.body)
	}
	for _, body := range []string{`{"request_id":"b-1","jobs":[{"workflow":"order"}]}`, `{"request_id":"b-1","jobs":[{"workflow":"order"},{"workflow":"later"}]}`} {
		if a := s.want(422, "POST", "/api/jobs/batch", body); a.field(t, "code") != "KEY_REUSED" {
			t.Errorf("%s", a.body)
		}
	}
	if a := s.want(422, "POST", "/api/jobs", `{"workflow":"order","request_id":"b-1"}`); a.field(t, "code") != "KEY_REUSED" {
		t.Errorf("%s", a.body)
	}
	if n := jobs(); n != 2 {
		t.Errorf("there are %d jobs, want 2", n)
	}
	for range 2 { // without a key
		s.want(200, "POST", "/api/jobs/batch", `{"jobs":[{"workflow":"order"}]}`)
	}
	if n := jobs(); n != 4 {
		t.Errorf("there are %d jobs, want 4", n)
	}
}

// TestBatchKeysInWorkspaces: a key belongs to the workspace of the first job, and to who used it (J4).
func TestBatchKeysInWorkspaces(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	admin, _ := g.token("admin", nil, "admin")
	ci, _ := g.token("ci", []string{"builds"}, "operator")
	made := map[any]bool{}
	const source = `"source":"name: waits\nsteps: [{id: a, event: {name: go}}]\n"`
	for _, c := range []struct {
		who    string
		status int
		body   string
	}{
		{ci, 404, `{"request_id":"k","jobs":[{` + source + `}]}`},
		{ci, 200, `{"request_id":"k","jobs":[{"workspace_id":"builds",` + source + `}]}`},
		{admin, 200, `{"request_id":"k","jobs":[{` + source + `}]}`},
		{admin, 422, `{"request_id":"k","jobs":[{"workspace_id":"builds",` + source + `}]}`},
		// The second jobs of these have the same workspace, and the batches have not.
		{admin, 200, `{"request_id":"two","jobs":[{` + source + `},{"workspace_id":"builds",` + source + `}]}`},
		{admin, 200, `{"request_id":"two","jobs":[{"workspace_id":"builds",` + source + `},{"workspace_id":"builds",` + source + `}]}`},
	} {
		a := g.as(c.who, "POST", "/api/jobs/batch", c.body)
		if a.status != c.status {
			t.Errorf("%s: %d %s, want %d", c.body, a.status, a.body, c.status)
		}
		if a.status != 200 {
			continue
		}
		for _, item := range a.field(t, "items").([]any) {
			receipt, _ := item.(map[string]any)["receipt"].(map[string]any)
			if receipt == nil || made[receipt["id"]] {
				t.Errorf("%s: %v, want a job of its own", c.body, item)
				continue
			}
			made[receipt["id"]] = true
		}
	}
}

// TestBatchOutlivesItsKey: the response to a batch expires a moment after its key; another batch under
// the key does not get it (J8).
func TestBatchOutlivesItsKey(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, pgtest.URL(t))
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	s.want(200, "POST", "/api/jobs/batch", `{"request_id":"b","jobs":[{"workflow":"order"}]}`)
	conn, err := pgx.Connect(t.Context(), s.where)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if done, err := conn.Exec(t.Context(), "delete from idempotency where key = 'b'"); err != nil || done.RowsAffected() != 1 {
		t.Fatalf("%v %v", done, err)
	}
	if a := s.want(422, "POST", "/api/jobs/batch", `{"request_id":"b","jobs":[{"workflow":"order"},{"workflow":"order"}]}`); a.field(t, "code") != "KEY_REUSED" || !strings.Contains(string(a.body), `\"b\"`) {
		t.Errorf("%s", a.body)
	}
}

// TestIdenticalBatchesAtOnce: 40 identical batches at the same time make their jobs once, and get the
// same response (J8).
func TestIdenticalBatchesAtOnce(t *testing.T) {
	t.Parallel()
	for kind, s := range map[string]*site{"sqlite": newSite(t), "postgres": newSiteOn(t, pgtest.URL(t))} {
		s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
		batch := text(map[string]any{"request_id": "same", "jobs": slices.Repeat([]any{map[string]any{"workflow": "order"}}, 20)})
		responses := make([]string, 40)
		var all sync.WaitGroup
		for i := range responses {
			all.Go(func() {
				a := s.do("POST", "/api/jobs/batch", batch)
				responses[i] = fmt.Sprintf("%d %s", a.status, a.body)
			})
		}
		all.Wait()
		slices.Sort(responses)
		if different := slices.Compact(responses); len(different) != 1 || different[0][:4] != "200 " {
			t.Errorf("%s: there are %d responses, want one: %.2000q", kind, len(different), different)
		}
		if n := len(s.want(200, "GET", "/api/jobs?limit=100", "").field(t, "items").([]any)); n != 20 {
			t.Errorf("%s: there are %d jobs, want 20", kind, n)
		}
	}
}
