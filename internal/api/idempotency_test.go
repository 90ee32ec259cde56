package api_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

// TestReplay: a command with a key has one effect, and its answer is replayed byte for
// byte, also after a restart, and also if it was a refusal (J8).
func TestReplay(t *testing.T) {
	t.Parallel()
	testReplay(t, newSite(t))
}

func TestReplayPostgres(t *testing.T) {
	t.Parallel()
	testReplay(t, newSiteOn(t, pgtest.URL(t)))
}

func testReplay(t *testing.T, s *site) {
	stop := s.work()
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	job := s.want(201, "POST", "/api/jobs", `{"workflow":"order"}`).field(t, "id").(string)
	for _, c := range []struct {
		status     int
		path, body string
	}{
		{201, "/api/jobs", `{"workflow":"order","request_id":"KEY"}`},
		{200, "/api/jobs/" + job + "/pause", `{"request_id":"KEY","reason":"wait"}`},
		{409, "/api/jobs/" + job + "/pause", `{"request_id":"KEY"}`},
		{200, "/api/jobs/" + job + "/resume", `{"request_id":"KEY"}`},
		{409, "/api/jobs/" + job + "/resume", `{"request_id":"KEY"}`},
		{201, "/api/schedules", `{"name":"nightly","workflow":"order","cron":"0 3 * * *","request_id":"KEY"}`},
		{409, "/api/schedules", `{"name":"nightly","workflow":"order","cron":"0 3 * * *","request_id":"KEY"}`},
		{201, "/api/schedules/nightly/trigger", `{"request_id":"KEY"}`},
		{200, "/api/schedules/nightly/pause", `{"request_id":"KEY"}`},
		{200, "/api/jobs/" + job + "/cancel", `{"request_id":"KEY","reason":"enough"}`},
		{201, "/api/jobs/" + job + "/retry", `{"request_id":"KEY"}`},
	} {
		if c.path == "/api/jobs/"+job+"/retry" {
			s.want(200, "GET", "/api/jobs/"+job+"?wait=ended", "")
		}
		key := fmt.Sprintf("key-%d-%s", c.status, c.path)
		withKey := keyed(c.body, key)
		first := s.want(c.status, "POST", c.path, withKey)
		if first.header.Get("Idempotency-Replayed") != "" {
			t.Errorf("%s: the first answer says that it is a replay", c.path)
		}
		for _, when := range []string{"at once", "after a restart"} {
			if when == "after a restart" {
				stop()
				s.close()
				s.open()
				stop = s.work()
			}
			again := s.want(c.status, "POST", c.path, withKey)
			if string(again.body) != string(first.body) {
				t.Errorf("%s %s: the answer is %s, and was %s", c.path, when, again.body, first.body)
			}
			if c.status < 300 && again.header.Get("Idempotency-Replayed") != "true" {
				t.Errorf("%s %s: the answer does not say that it is a replay", c.path, when)
			}
			if got, want := again.header.Get("Location"), first.header.Get("Location"); got != want {
				t.Errorf("%s %s: Location is %q, and was %q", c.path, when, got, want)
			}
		}
	}
	stop()
	if n := len(s.want(200, "GET", "/api/jobs?limit=100", "").field(t, "items").([]any)); n != 4 {
		t.Errorf("there are %d jobs, want 4: that of the test, one submitted, one triggered, one that continues", n)
	}
}

// keyed replaces the key of a body.
func keyed(body, key string) string {
	out := ""
	for i := 0; i < len(body); i++ {
		if i+3 <= len(body) && body[i:i+3] == "KEY" {
			return out + key + body[i+3:]
		}
		out += body[i : i+1]
	}
	return out
}

// TestAKeyNamesOneRequest: a key with another request is refused, as are two keys and a
// key that is none (J8).
func TestAKeyNamesOneRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	s.want(201, "POST", "/api/jobs", `{"workflow":"order"}`, "Idempotency-Key", "one")
	s.want(201, "POST", "/api/jobs", `{"workflow":"order","request_id":"one"}`, "Idempotency-Key", "one")
	if code := s.want(422, "POST", "/api/jobs", `{"workflow":"order","priority":1}`, "Idempotency-Key", "one").field(t, "code"); code != "KEY_REUSED" {
		t.Errorf("another request with the key: code %v, want KEY_REUSED", code)
	}
	s.want(422, "POST", "/api/jobs", `{"workflow":"order","request_id":"two"}`, "Idempotency-Key", "one")
	s.want(422, "POST", "/api/jobs", `{"workflow":"order","request_id":"with a blank"}`)
	s.want(422, "POST", "/api/jobs", `{"workflow":"order","request_id":"`+string(slices.Repeat([]byte("k"), 256))+`"}`)
	s.want(201, "POST", "/api/jobs", `{"workflow":"order","request_id":"`+string(slices.Repeat([]byte("k"), 255))+`"}`)
	if n := len(s.want(200, "GET", "/api/jobs", "").field(t, "items").([]any)); n != 2 {
		t.Errorf("there are %d jobs, want 2", n)
	}
}

// TestIdenticalRequestsAtOnce: 200 identical requests at the same time make one job, and
// get the same answer (J8).
func TestIdenticalRequestsAtOnce(t *testing.T) {
	t.Parallel()
	testIdenticalRequests(t, newSite(t))
}

func TestIdenticalRequestsAtOncePostgres(t *testing.T) {
	t.Parallel()
	testIdenticalRequests(t, newSiteOn(t, pgtest.URL(t)))
}

func testIdenticalRequests(t *testing.T, s *site) {
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	bodies := make([]string, 200)
	var all sync.WaitGroup
	for i := range bodies {
		all.Go(func() {
			a := s.do("POST", "/api/jobs", `{"workflow":"order","request_id":"same"}`)
			bodies[i] = fmt.Sprintf("%d %s", a.status, a.body)
		})
	}
	all.Wait()
	slices.Sort(bodies)
	if different := slices.Compact(bodies); len(different) != 1 || different[0][:4] != "201 " {
		t.Errorf("there are %d answers, want one: %q", len(different), different)
	}
	if n := len(s.want(200, "GET", "/api/jobs", "").field(t, "items").([]any)); n != 1 {
		t.Errorf("there are %d jobs, want 1", n)
	}
}

// TestRequestsAreObserved: an observer is told of each request to an operation, how it was
// answered, and whether the answer was stored before (K7).
func TestRequestsAreObserved(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	for range 2 {
		s.want(201, "POST", "/api/jobs", `{"workflow":"order","request_id":"one"}`)
	}
	s.want(404, "GET", "/api/jobs/j_1", "")
	s.want(422, "GET", "/api/jobs?limit=0", "")
	for _, want := range []string{"register-workflow 201 false", "submit-job 201 false", "submit-job 201 true", "get-job 404 false", "list-jobs 422 false"} {
		if got := <-s.seen; got != want {
			t.Errorf("told %q, want %q", got, want)
		}
	}
}

// TestAKeyOutlivesAVersion: a request that names a workflow without its version is the same
// request after another version was registered (J8).
func TestAKeyOutlivesAVersion(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order}))
	first := s.want(201, "POST", "/api/jobs", `{"workflow":"order","inputs":{"fail":"no"},"request_id":"one"}`)
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": order + "description: the second\n"}))
	if again := s.want(201, "POST", "/api/jobs", `{"workflow":"order","inputs":{ "fail": "no" },"request_id":"one"}`); string(again.body) != string(first.body) {
		t.Errorf("the answer is %s, and was %s", again.body, first.body)
	}
	s.want(422, "POST", "/api/jobs", `{"workflow":"order","inputs":{"fail":"yes"},"request_id":"one"}`)
	s.want(422, "POST", "/api/jobs", `{"workflow":"order@2","inputs":{"fail":"no"},"request_id":"one"}`)
}
