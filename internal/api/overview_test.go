package api_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestOverview: what needs a person is there, and what it is about (J4).
func TestOverview(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	defer s.work()()
	d := driveOf(t, s)
	job := d.submit(order, nil)
	ship := d.step(job, "ship", "in_progress")
	failed := d.submit("name: failing\nsteps: [{id: a, handler: work, with: {fail: no}, retry: {max_attempts: 1}}]\n", nil)
	s.want(200, "GET", "/api/jobs/"+failed+"?wait=ended", "")
	o := s.want(200, "GET", "/api/overview", "")
	if o.field(t, "approvals.count") != 1.0 || o.field(t, "failed.count") != 1.0 || o.field(t, "failed_jobs.0.id") != failed {
		t.Errorf("%s", o.body)
	}
	c := s.want(200, "GET", "/api/steps/"+ship+"/context", "")
	if c.field(t, "needs.0.step") != "work" || c.field(t, "needs.0.output") != "done" || c.field(t, "inputs.fail") != "" {
		t.Errorf("%s", c.body)
	}
	for _, q := range []string{job[:12], job[len(job)-5:], job} {
		if found := s.want(200, "GET", "/api/search?q="+q, ""); !strings.Contains(string(found.body), job) {
			t.Errorf("search %s: %s", q, found.body)
		}
	}
	if found := s.want(200, "GET", "/api/search?q=CLE", ""); found.field(t, "items.0.kind") != "worker" {
		t.Errorf("%s", found.body)
	}
}

// TestCalendar: the times of a week are those of each schedule, in order.
func TestCalendar(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.waits(0)
	for name, cron := range map[string]string{"nightly": "0 3 * * *", "hourly": "0 * * * *"} {
		s.want(201, "POST", "/api/schedules", fmt.Sprintf(`{"name":%q,"workflow":"waits","cron":%q}`, name, cron))
	}
	c := s.want(200, "GET", "/api/calendar?from=2026-03-01T12:00:00Z&to=2026-03-02T12:00:00Z", "")
	if n := len(c.field(t, "items").([]any)); n != 24 || c.field(t, "more") != false { // 23 hours and one night: noon itself is left out
		t.Errorf("%d times: %s", n, c.body)
	}
	if year := s.want(200, "GET", "/api/calendar?from=2026-03-01T12:00:00Z&to=2027-03-01T12:00:00Z", ""); len(year.field(t, "items").([]any)) != 1000 || year.field(t, "more") != true {
		t.Errorf("a year has %d times", len(year.field(t, "items").([]any)))
	}
}

// TestStepLog: a stream is read from an offset, or its end, compressed if that is asked for, and
// followed to its end (J4).
func TestStepLog(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workers", `{"handlers":["far"],"capacity":1}`)
	worker := s.want(200, "GET", "/api/workers", "").field(t, "items.0.id").(string)
	s.want(201, "POST", "/api/jobs", text(map[string]any{"source": "name: far\nsteps: [{id: a, handler: far}]\n"}))
	step := s.want(200, "POST", "/api/workers/"+worker+"/exchange", `{"turn":1,"free":1}`).field(t, "steps.0.step_id").(string)
	lines := strings.Repeat("a line of a log\n", 1000)
	path := "/api/steps/" + step + "/log"
	s.want(200, "POST", path+"?claim=1&offset=0", lines)
	if got := s.want(200, "GET", path+"?offset=15990", ""); string(got.body) != strings.TrimSpace(lines[15990:]) {
		t.Errorf("from 15990: %q", got.body)
	}
	got := s.want(200, "GET", path+"?tail=16&download=true", "")
	if string(got.body) != "a line of a log" || got.header.Get("Pawl-Offset") != "15984" || !strings.Contains(got.header.Get("Content-Disposition"), "a.1.stdout.log") {
		t.Errorf("the tail: %q %v", got.body, got.header)
	}
	zipped := s.want(200, "GET", path, "", "Accept-Encoding", "gzip")
	if zipped.header.Get("Content-Encoding") != "gzip" || len(zipped.body) > 1000 {
		t.Errorf("compressed: %d bytes, %v", len(zipped.body), zipped.header)
	}

	job := s.want(200, "GET", "/api/steps/"+step, "").field(t, "job_id").(string)
	s.want(200, "POST", path+"?claim=1&stream=stderr&offset=0", "first\nsplit nee")
	s.want(200, "POST", path+"?claim=1&stream=stderr&offset=15", "dle here\n")
	hits := s.want(200, "GET", "/api/jobs/"+job+"/logs/search?q=needle", "")
	if n := len(hits.field(t, "items").([]any)); n != 1 || hits.field(t, "items.0.offset") != 12.0 || hits.field(t, "items.0.stream") != "stderr" {
		t.Errorf("a text that stands in two pieces: %s", hits.body)
	}
	many := s.want(200, "GET", "/api/jobs/"+job+"/logs/search?q=line", "")
	if n := len(many.field(t, "items").([]any)); n != 100 {
		t.Errorf("a text of 1,000 lines of one piece is found %d times", n)
	}
	followed := make(chan string, 1)
	go func() { followed <- string(s.do("GET", path+"/follow", "", "Last-Event-ID", "1.stdout.15000").body) }()
	s.want(200, "POST", path+"?claim=1&offset=16000", "the last line\n")
	s.want(200, "POST", "/api/steps/"+step+"/complete", fmt.Sprintf(`{"worker_id":%q,"claim":1}`, worker))
	events := <-followed
	if !strings.Contains(events, "id: 1.stdout.16014") || !strings.Contains(events, "the last line") || !strings.Contains(events, `{"claims":1,"status":"complete"}`) || strings.Count(events, "a line of a log") > 63 {
		t.Errorf("followed: %s", events)
	}
}

// TestFollowLargeLog: what a step prints at once reaches who follows its log at once, however much it is (J4).
func TestFollowLargeLog(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.want(201, "POST", "/api/workers", `{"handlers":["far"],"capacity":1}`)
	worker := s.want(200, "GET", "/api/workers", "").field(t, "items.0.id").(string)
	s.want(201, "POST", "/api/jobs", text(map[string]any{"source": "name: far\nsteps: [{id: a, handler: far}]\n"}))
	path := "/api/steps/" + s.want(200, "POST", "/api/workers/"+worker+"/exchange", `{"turn":1,"free":1}`).field(t, "steps.0.step_id").(string) + "/log"
	s.want(200, "POST", path+"?claim=1&offset=0", strings.Repeat("a line of a log\n", 2000))
	begun := time.Now()
	e, _ := s.followed(t, path+"/follow?claim=1", "").next()
	if took := time.Since(begun); e.id != "1.stdout.32000" || took > 10*time.Second {
		t.Errorf("event %s with id %s after %v; want the whole log at once", e.name, e.id, took)
	}
}
