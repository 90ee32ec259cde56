package api_test

import (
	"fmt"
	"strings"
	"testing"
)

// waits submits jobs of a workflow that waits, and returns their ids.
func (s *site) waits(n int) (ids []string) {
	s.t.Helper()
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": "name: waits\nsteps: [{id: a, event: {name: go}}]\n"}))
	for i := range n {
		ids = append(ids, s.want(201, "POST", "/api/jobs", fmt.Sprintf(`{"workflow":"waits","task_description":"Batch %d"}`, i)).field(s.t, "id").(string))
	}
	return ids
}

// TestBulk: a bulk request changes what its filter selected when it came first, however often it
// is repeated, and nothing if another number is expected (J8).
func TestBulk(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ids := s.waits(12)
	const where = `"filter":{"workflow":"waits","q":"bATch","status":["PENDING","RUNNING"]}`
	count := func(body string) any { return s.want(200, "POST", "/api/bulk/cancel", body).field(t, "count") }
	if n := count(`{"dry_run":true,` + where + `}`); n != 12.0 {
		t.Fatalf("a dry run selects %v", n)
	}
	s.want(409, "POST", "/api/bulk/cancel", `{"expect":13,`+where+`}`)
	if status := s.want(200, "GET", "/api/jobs/"+ids[3], "").field(t, "status"); status == "CANCELED" {
		t.Fatal("a refused request has canceled a job")
	}
	s.want(200, "POST", "/api/jobs/"+ids[3]+"/cancel", "") // meanwhile
	s.want(409, "POST", "/api/bulk/cancel", `{"expect":12,"request_id":"b-0",`+where+`}`)

	request := `{"expect":11,"request_id":"b-1","reason":"enough",` + where + `}`
	first := s.want(200, "POST", "/api/bulk/cancel", request)
	if strings.Contains(string(first.body), "problem") || first.field(t, "count") != 11.0 {
		t.Errorf("%s", first.body)
	}
	later := s.want(201, "POST", "/api/jobs", `{"workflow":"waits","task_description":"batch, later"}`).field(t, "id").(string)
	s.close() // the response is lost, and the server restarts
	s.open()
	again := s.want(200, "POST", "/api/bulk/cancel", request)
	if string(again.body) != string(first.body) {
		t.Errorf("repeated:\n%s\nwas\n%s", again.body, first.body)
	}
	if status := s.want(200, "GET", "/api/jobs/"+later, "").field(t, "status"); status == "CANCELED" {
		t.Error("a repeated request has canceled a job that came later")
	}
	for _, id := range ids {
		history := string(s.want(200, "GET", "/api/jobs/"+id+"/history?step=", "").body)
		if n := strings.Count(history, `"to":"CANCELED"`); n != 1 {
			t.Errorf("job %s was canceled %d times", id, n)
		}
	}
	s.want(422, "POST", "/api/bulk/cancel", `{"request_id":"b-1","jobs":["`+ids[0]+`"]}`)

	one := s.want(200, "POST", "/api/bulk/pause", `{"jobs":["`+later+`","`+ids[0]+`","`+later+`"]}`)
	if one.field(t, "count") != 2.0 || one.field(t, "items.0.receipt.status") == nil || one.field(t, "items.1.problem.code") != "INVALID_STATE_TRANSITION" {
		t.Errorf("%s", one.body)
	}
	s.want(404, "POST", "/api/bulk/explode", `{"jobs":["`+later+`"]}`)
}

// TestBulkInWorkspaces: a request selects nothing of another workspace, by a filter or by ids (J4).
func TestBulkInWorkspaces(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	admin, _ := g.token("admin", nil, "admin")
	ci, _ := g.token("ci", []string{"builds"}, "operator")
	job := g.as(admin, "POST", "/api/jobs", text(map[string]any{"source": "name: waits\nsteps: [{id: a, event: {name: go}}]\n"})).field(t, "id").(string)
	if a := g.as(ci, "POST", "/api/bulk/cancel", `{"filter":{}}`); a.status != 404 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := g.as(ci, "POST", "/api/bulk/cancel", `{"workspace_id":"builds","filter":{}}`); a.field(t, "count") != 0.0 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if a := g.as(ci, "POST", "/api/bulk/cancel", `{"workspace_id":"builds","jobs":["`+job+`"]}`); a.field(t, "items.0.problem.code") != "NOT_FOUND" {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// TestBulkGoesOn: a selection that was cut off goes on at its cursor, which is of its filter alone, and a
// repeated request gets the same cursor (J8).
func TestBulkGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": "name: waits\nsteps: [{id: a, event: {name: go}}]\n"}))
	for range 5 { // 2,500 jobs
		var jobs []map[string]any
		for range 500 {
			jobs = append(jobs, map[string]any{"workflow": "waits"})
		}
		s.want(200, "POST", "/api/jobs/batch", text(map[string]any{"jobs": jobs}))
	}
	const where = `"dry_run":true,"filter":{"workflow":"waits"}`
	first := s.want(200, "POST", "/api/bulk/pause", `{`+where+`}`)
	next, _ := first.field(t, "next").(string)
	if first.field(t, "count") != 2000.0 || first.field(t, "more") != true || next == "" {
		t.Fatalf("%v of them, more %v, next %q", first.field(t, "count"), first.field(t, "more"), next)
	}
	rest := s.want(200, "POST", "/api/bulk/pause", `{"cursor":"`+next+`",`+where+`}`)
	if rest.field(t, "count") != 500.0 || rest.field(t, "more") != false || strings.Contains(string(rest.body), `"next"`) {
		t.Errorf("%v of them, more %v", rest.field(t, "count"), rest.field(t, "more"))
	}
	for body, says := range map[string]string{
		`{"cursor":"` + next + `","dry_run":true,"filter":{"workflow":"other"}}`:  "other parameters",
		`{"cursor":"` + next + `","jobs":["j_019ac1f0a3c47d5e8f00112233445566"]}`: "cursor",
		`{"cursor":"x",` + where + `}`:                                            "cursor",
	} {
		if a := s.want(422, "POST", "/api/bulk/pause", body); !strings.Contains(string(a.body), says) {
			t.Errorf("%s: %s", body, a.body)
		}
	}
	const request = `{"request_id":"b-2","filter":{"workflow":"waits"}}`
	done := s.want(200, "POST", "/api/bulk/pause", request)
	s.want(201, "POST", "/api/jobs", `{"workflow":"waits"}`) // by now another choice has another cursor
	if again := s.want(200, "POST", "/api/bulk/pause", request); done.field(t, "next") != next || again.field(t, "next") != next || string(again.body) != string(done.body) {
		t.Errorf("next %v, and repeated %v; want %s", done.field(t, "next"), again.field(t, "next"), next)
	}
}
