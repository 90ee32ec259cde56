package api_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestBadInput: what is wrong is refused with the status that says so, in time, and in an
// answer of a size that does not follow from the request's (J3, J4).
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	job := s.want(201, "POST", "/api/jobs", `{"workflow":"order"}`).field(t, "id").(string)
	for _, c := range []struct {
		name               string
		status             int
		method, path, body string
		headers            []string
	}{
		{"a key in another case", 422, "POST", "/api/jobs", `{"Workflow":"order"}`, nil},
		{"a key in two cases", 422, "POST", "/api/jobs", `{"workflow":"order","Workflow":"other"}`, nil},
		{"a key twice", 400, "POST", "/api/jobs", `{"workflow":"order","workflow":"order"}`, nil},
		{"a key twice in an input", 400, "POST", "/api/jobs", `{"workflow":"order","inputs":{"a":{"b":1,"b":2}}}`, nil},
		{"two values", 400, "POST", "/api/jobs", `{"workflow":"order"} {}`, nil},
		{"no UTF-8", 400, "POST", "/api/jobs", "{\"workflow\":\"\xff\"}", nil},
		{"an unknown key", 422, "POST", "/api/jobs", `{"workflow":"order","when":"now"}`, nil},
		{"a reason where there is none", 422, "POST", "/api/jobs", `{"workflow":"order","reason":"r"}`, nil},
		{"too many values", 400, "POST", "/api/jobs/batch", `{"jobs":[` + strings.Repeat("1,", 200_000) + `1]}`, nil},
		{"many faults", 422, "POST", "/api/jobs/batch", `{"jobs":[` + strings.Repeat("1,", 50_000) + `1]}`, nil},
		{"two keys for many", 422, "POST", "/api/jobs/batch", `{"request_id":"l","jobs":[{"workflow":"order"}]}`, []string{"Idempotency-Key", "k"}},
		{"a parameter twice", 422, "GET", "/api/jobs?status=RUNNING&status=FAILED", "", nil},
		{"an unknown parameter", 422, "GET", "/api/jobs?state=RUNNING", "", nil},
		{"a path that is no id", 404, "GET", "/api/jobs/" + strings.Repeat("j", 200), "", nil},
		{"a version that is none", 404, "GET", "/api/workflows/order/versions/0", "", nil},
		{"a version that is no number", 404, "GET", "/api/workflows/order/versions/new", "", nil},
		{"a reference as a name", 404, "GET", "/api/workflows/order@1", "", nil},
		{"an actor of Pawl", 422, "POST", "/api/jobs/" + job + "/pause", "", []string{"Pawl-Actor", "engine"}},
		{"a worker as actor", 422, "POST", "/api/jobs/" + job + "/pause", "", []string{"Pawl-Actor", "w_019ac1f0a3c47d5e8f00112233445566"}},
		{"a page of another site", 403, "GET", "/api/jobs", "", []string{"Sec-Fetch-Site", "cross-site"}},
	} {
		a := s.do(c.method, c.path, c.body, c.headers...)
		if a.status != c.status || len(a.body) > 64<<10 {
			t.Errorf("%s: %d with %d bytes, want %d\n%.300s", c.name, a.status, len(a.body), c.status, a.body)
		}
	}
	if created := s.want(200, "GET", "/api/jobs?created_before=1970-01-01T00:00:00Z", "").field(t, "items"); len(created.([]any)) != 0 {
		t.Errorf("created before 1970: %v", created)
	}
}

// TestConditionalReads: a tag that a proxy has made weak, or one of several, is known.
func TestConditionalReads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	path := "/api/jobs/" + s.want(201, "POST", "/api/jobs", `{"workflow":"order"}`).field(t, "id").(string)
	tag := s.want(200, "GET", path, "").header.Get("ETag")
	for header, status := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200} {
		s.want(status, "GET", path, "", "If-None-Match", header)
	}
}

// TestCursors: the cursor of one list is none of another.
func TestCursors(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"a", "b", "c"} {
		s.want(201, "POST", "/api/workflows", text(map[string]any{"source": strings.Replace(order, "name: order", "name: "+name, 1)}))
		s.want(201, "POST", "/api/schedules", fmt.Sprintf(`{"name":%q,"workflow":%q,"cron":"@daily"}`, name, name))
	}
	next := s.want(200, "GET", "/api/workflows?limit=2", "").field(t, "next").(string)
	if last := s.want(200, "GET", "/api/workflows?limit=2&cursor="+next, ""); last.field(t, "items.0.name") != "c" || last.field(t, "next") != nil {
		t.Errorf("the second page: %s", last.body)
	}
	s.want(422, "GET", "/api/schedules?limit=2&cursor="+next, "")
	s.want(422, "GET", "/api/workflows?limit=2&workspace_id=other&cursor="+next, "")
}

// TestLocations: the path in a Location leads to what was made, whatever its workspace.
func TestLocations(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, workspace := range []string{"default", "shop"} {
		w := s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order, "workspace_id": workspace}))
		s.want(200, "GET", w.header.Get("Location"), "")
		made := s.want(201, "POST", "/api/schedules", text(map[string]any{"name": "nightly", "workflow": "order", "cron": "@daily", "workspace_id": workspace}))
		s.want(200, "GET", made.header.Get("Location"), "")
	}
}

// TestExactNumbers: a number beyond the precision of doubles is not rounded in a form.
func TestExactNumbers(t *testing.T) {
	t.Parallel()
	d := newDrive(t)
	job := d.submit("name: ask\nsteps:\n  - {id: ask, approval: {prompt: \"n?\", form: {n: {type: integer}}}}\noutput: ${{ steps.ask.output.n }}\n", nil)
	d.want(200, "POST", "/api/steps/"+d.step(job, "ask", "in_progress")+"/approve", `{"form":{"n":9007199254740993}}`)
	if a := d.want(200, "GET", "/api/jobs/"+job+"?wait=ended", ""); !strings.Contains(string(a.body), `"output":9007199254740993`) {
		t.Errorf("the output is rounded: %s", a.body)
	}
}

// TestSlowBodies: a body that does not come is not waited for.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.close()
	s.bodyTime = 50 * time.Millisecond
	s.open()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := fmt.Fprintf(c, "POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusBadRequest || r.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %v, want 400 and a problem", r.StatusCode, r.Header)
	}
}

// TestWaitsAreLimited: one request more than may wait at once is told when to come back, and
// reads that do not wait are answered.
func TestWaitsAreLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.close()
	s.maxWaits = 1
	s.open()
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	path := "/api/jobs/" + s.want(201, "POST", "/api/jobs", `{"workflow":"order"}`).field(t, "id").(string)
	ended := make(chan *answer)
	go func() {
		a := s.do("GET", path+"?wait=ended", "")
		for a.status == 429 { // the other has the one place
			a = s.do("GET", path+"?wait=ended", "")
		}
		ended <- a
	}()
	for {
		a := s.do("GET", path+"?wait=changed", "", "If-None-Match", `"0"`) // answers at once
		if a.status == 429 {
			if a.header.Get("Retry-After") != "5" || a.field(t, "code") != "RATE_LIMITED" {
				t.Errorf("%v %s", a.header, a.body)
			}
			break
		}
	}
	s.want(200, "GET", path, "")
	s.want(200, "POST", path+"/cancel", "")
	if a := <-ended; a.status != 200 {
		t.Errorf("the one that waited: %d %s", a.status, a.body)
	}
}
