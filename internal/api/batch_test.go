package api_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
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

// TestBatchAndItsResponseAreOne: the jobs of a batch and the response to it are stored together, in one
// row: who has lost that has lost nothing that another request could get (J8).
func TestBatchAndItsResponseAreOne(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, pgtest.URL(t))
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	s.want(200, "POST", "/api/jobs/batch", `{"request_id":"b","jobs":[{"workflow":"order"},{"workflow":"order"}]}`)
	conn, err := pgx.Connect(t.Context(), s.where)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	if done, err := conn.Exec(t.Context(), "delete from idempotency where expires_at > 0"); err != nil || done.RowsAffected() != 1 {
		t.Fatalf("%v %v", done, err)
	}
	s.want(200, "POST", "/api/jobs/batch", `{"request_id":"b","jobs":[{"workflow":"order"}]}`)
}

// TestJobKeysInBatches: a job with a key of its own is made once, whatever the batches that it is in, and
// by itself (J8).
func TestJobKeysInBatches(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	const job = `{"workflow":"order","request_id":"%s"}`
	ids := map[string]any{}
	for _, batch := range []string{"a b c", "c a", "b", "d b"} {
		for _, head := range []string{"{", `{"request_id":"of ` + batch + `",`} {
			keys := strings.Fields(batch)
			var list []string
			for _, key := range keys {
				list = append(list, fmt.Sprintf(job, key))
			}
			a := s.want(200, "POST", "/api/jobs/batch", strings.ReplaceAll(head, " ", "-")+`"jobs":[`+strings.Join(list, ",")+"]}")
			for i, key := range keys {
				id := a.field(t, fmt.Sprintf("items.%d.receipt.id", i))
				if before := ids[key]; before != nil && id != before {
					t.Errorf("%s in %q: %v, was %v", key, batch, id, before)
				}
				ids[key] = id
			}
		}
	}
	own := s.want(200, "POST", "/api/jobs/batch", `{"request_id":"k","jobs":[{"workflow":"order","request_id":"k"},{"workflow":"order","request_id":"a"}]}`)
	if own.field(t, "items.0.problem.code") != "KEY_REUSED" || own.field(t, "items.1.receipt.id") != ids["a"] {
		t.Errorf("a job with the key of its batch: %s", own.body)
	}
	for key, id := range ids {
		if one := s.want(201, "POST", "/api/jobs", fmt.Sprintf(job, key)); one.field(t, "id") != id {
			t.Errorf("%s by itself: %s, was %v", key, one.body, id)
		}
	}
	if n := len(s.want(200, "GET", "/api/jobs?limit=100", "").field(t, "items").([]any)); n != 4 {
		t.Errorf("there are %d jobs, want 4", n)
	}
}

// TestBatchOfAnEarlierServer: a batch that a server of an earlier version has begun, which stores a key for
// the request and one for each job, is completed by the same request, with the jobs that are there (J8).
func TestBatchOfAnEarlierServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	const jobs = `[{"workflow":"order","inputs":{"fail":"<"}},{"workflow":"order"}]`
	asked := json.RawMessage(jobs)
	if _, _, err := s.engine.Remember(t.Context(), "", "POST /api/jobs/batch", pawl.Change{RequestID: "b"}, asked, func() (json.RawMessage, error) { return json.RawMessage("{}"), nil }); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("default b 1"))
	made := s.want(201, "POST", "/api/jobs", `{"workflow":"order","request_id":"batch-`+hex.EncodeToString(sum[:16])+`"}`).field(t, "id")
	var first *answer
	for i := range 2 {
		a := s.want(200, "POST", "/api/jobs/batch", `{"request_id":"b","jobs":`+jobs+`}`)
		if first == nil {
			first = a
		}
		if a.field(t, "items.1.receipt.id") != made || string(a.body) != string(first.body) || (a.header.Get("Idempotency-Replayed") == "true") != (i > 0) {
			t.Errorf("%s, was %s", a.body, first.body)
		}
	}
	if a := s.want(422, "POST", "/api/jobs/batch", `{"request_id":"b","jobs":[{"workflow":"order"}]}`); a.field(t, "code") != "KEY_REUSED" {
		t.Errorf("%s", a.body)
	}
	if n := len(s.want(200, "GET", "/api/jobs?limit=100", "").field(t, "items").([]any)); n != 2 {
		t.Errorf("there are %d jobs, want 2", n)
	}
}

// TestBatchOfManyCommits: a batch whose jobs are too many for one commit has one effect, too, and gets the
// same response again (J8).
func TestBatchOfManyCommits(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	source := "name: wide\nsteps:\n"
	for i := range 1000 {
		source += fmt.Sprintf("- {id: s%d, event: {name: go}}\n", i)
	}
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": source}))
	jobs := append(slices.Repeat([]any{map[string]any{"workflow": "wide"}}, 20), map[string]any{"workflow": "nope"}, map[string]any{"workflow": "wide", "inputs": map[string]any{"x": 1}})
	batch := text(map[string]any{"request_id": "b", "jobs": jobs})
	first := s.want(200, "POST", "/api/jobs/batch", batch)
	s.close()
	s.open()
	again := s.want(200, "POST", "/api/jobs/batch", batch)
	if string(again.body) != string(first.body) || first.header.Get("Idempotency-Replayed") != "" || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("repeated:\n%s\nwas\n%s", again.body, first.body)
	}
	if first.field(t, "items.20.problem.code") != "NOT_FOUND" || first.field(t, "items.21.problem.code") != "INVALID" {
		t.Errorf("%s", first.body)
	}
	if n := len(s.want(200, "GET", "/api/jobs?limit=100", "").field(t, "items").([]any)); n != 20 {
		t.Errorf("there are %d jobs, want 20", n)
	}
}

// TestUnsettledBatch: what a batch could not settle, since a transaction of a user has the key of a job,
// the same request makes later, and nothing else again (J8).
func TestUnsettledBatch(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, pgtest.URL(t))
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	conn, err := pgx.Connect(t.Context(), s.where)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Over(s.engine, client.Config{Actor: "api"}, nil).Jobs.SubmitTx(t.Context(), tx, client.Submission{Name: "order", RequestID: "own"})
	if err != nil {
		t.Fatal(err)
	}
	const batch = `{"request_id":"b","jobs":[{"workflow":"order"},{"workflow":"order","request_id":"own"}]}`
	first := s.want(200, "POST", "/api/jobs/batch", batch)
	if first.field(t, "items.1.problem.code") != "REQUEST_IN_PROGRESS" {
		t.Errorf("while the transaction is open: %s", first.body)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again := s.want(200, "POST", "/api/jobs/batch", batch)
		if again.field(t, "items.0.receipt.id") != first.field(t, "items.0.receipt.id") || again.field(t, "items.1.receipt.id") == nil {
			t.Errorf("after it: %s, was %s", again.body, first.body)
		}
	}
	if n := len(s.want(200, "GET", "/api/jobs?limit=100", "").field(t, "items").([]any)); n != 2 {
		t.Errorf("there are %d jobs, want 2", n)
	}
}

// TestRepeatedTexts: what is submitted as text or as a definition, once or many times, in whatever form,
// makes the job of that text.
func TestRepeatedTexts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	const one, two = `"source":"name: one\nsteps: [{id: a, event: {name: go}}]\n"`, `"source":"name: two\nsteps: [{id: a, event: {name: go}}]\n"`
	for range 2 {
		a := s.want(200, "POST", "/api/jobs/batch", `{"jobs":[{`+one+`},{`+one+`},{`+two+`},{`+one+`},{"source":"name: [","workspace_id":"default"},{"source":"name: ["}]}`)
		for i, want := range []string{"one", "one", "two", "one"} {
			id := a.field(t, fmt.Sprintf("items.%d.receipt.id", i)).(string)
			if got := s.want(200, "GET", "/api/jobs/"+id, "").field(t, "workflow"); got != want {
				t.Errorf("%d is a job of %v, want %s", i, got, want)
			}
		}
		for i := 4; i < 6; i++ {
			if a.field(t, fmt.Sprintf("items.%d.problem.code", i)) != "INVALID" {
				t.Errorf("%s", a.body)
			}
		}
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

// TestRunningCopiesAtOnce: copies of a request whose jobs a waiting worker gets with the commit make them
// once, and each gets the same response, whichever of them has the key first (J8).
func TestRunningCopiesAtOnce(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, pgtest.URL(t))
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	worker := s.register(`{"handlers":["work"]}`)
	bodies := map[string]string{"/api/jobs": `{"workflow":"order"}`, "/api/jobs/batch": `{"jobs":[{"workflow":"order"},{"workflow":"order"},{"workflow":"order"}]}`}
	given, turn, made := map[any]bool{}, 0, 0
	take := func(wait int) int {
		turn++
		items := s.want(200, "POST", s.of(worker, "exchange"), fmt.Sprintf(`{"turn":%d,"free":10,"wait_ms":%d}`, turn, wait)).field(t, "steps").([]any)
		for _, item := range items {
			id := item.(map[string]any)["step_id"]
			if given[id] {
				t.Errorf("the worker got %v twice", id)
			}
			given[id] = true
		}
		return len(items)
	}
	for round := range 5 {
		for path, body := range bodies {
			made += strings.Count(body, "order")
			var all sync.WaitGroup
			all.Go(func() { take(2000) })
			responses := make([]string, 4)
			for i := range responses {
				all.Go(func() {
					a := s.do("POST", path, body, "Idempotency-Key", fmt.Sprintf("k%d", round)+strings.ReplaceAll(path, "/", "-"))
					responses[i] = fmt.Sprintf("%d %s", a.status, a.body)
				})
			}
			all.Wait()
			slices.Sort(responses)
			if different := slices.Compact(responses); len(different) != 1 || different[0][:2] != "20" {
				t.Errorf("%s: %q", path, different)
			}
			for len(given) < made && take(2000) > 0 {
			}
		}
	}
	if n := len(s.want(200, "GET", "/api/jobs?limit=100", "").field(t, "items").([]any)); n != made || len(given) != made {
		t.Errorf("there are %d jobs, and the worker got steps of %d; want %d", n, len(given), made)
	}
}
