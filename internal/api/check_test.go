package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// offers returns why each verb does not work, or "" if it does.
func (g *guarded) offers(secret, path string) map[string]string {
	g.t.Helper()
	a := g.as(secret, "GET", path, "")
	var p struct {
		Items []struct {
			Verb   string
			OK     bool
			WhyNot string `json:"why_not"`
		}
	}
	if err := json.Unmarshal(a.body, &p); err != nil || a.status != 200 {
		g.t.Fatalf("%d %s", a.status, a.body)
	}
	all := map[string]string{}
	for _, v := range p.Items {
		if v.OK != (v.WhyNot == "") {
			g.t.Errorf("%s of %s: ok is %v, and why_not %q", v.Verb, path, v.OK, v.WhyNot)
		}
		all[v.Verb] = v.WhyNot
	}
	return all
}

// TestActions: what is offered is what the verbs do: each that is not offered is refused with
// that reason, and asking changes nothing (J3).
func TestActions(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	defer g.work()()
	admin, _ := g.token("admin", nil, "admin")
	viewer, _ := g.token("viewer", nil, "viewer")
	job := g.as(admin, "POST", "/api/jobs", text(map[string]any{"source": order})).field(t, "id").(string)
	path := "/api/jobs/" + job
	refused := func(offered map[string]string, at, body string, verbs ...string) {
		t.Helper()
		for _, verb := range verbs {
			if offered[verb] == "" {
				continue
			}
			a := g.as(admin, "POST", at+"/"+verb, body)
			if detail, _ := a.field(t, "detail").(string); a.status != 409 || detail != offered[verb] {
				t.Errorf("%s of %s is not offered: %q; it answers %d %q", verb, at, offered[verb], a.status, detail)
			}
		}
	}
	var ship string
	for range 1000 {
		a := g.as(admin, "GET", path+"/steps?key=ship&status=in_progress", "")
		if items := a.field(t, "items").([]any); len(items) > 0 {
			ship = items[0].(map[string]any)["id"].(string)
			break
		}
		etag := g.as(admin, "GET", path, "").header.Get("ETag")
		g.as(admin, "GET", path+"?wait=changed", "", "If-None-Match", etag)
	}
	work := g.as(admin, "GET", path+"/steps?key=work", "").field(t, "items.0.id").(string)
	version := g.as(admin, "GET", path, "").header.Get("ETag")

	offered := g.offers(admin, path+"/actions")
	if offered["cancel"] != "" || offered["pause"] != "" || offered["resume"] == "" || offered["retry"] == "" || offered["signal"] != "" || offered["redact"] == "" {
		t.Errorf("of a running job: %v", offered)
	}
	refused(offered, path, "", "resume", "retry")
	step := g.offers(admin, "/api/steps/"+ship+"/actions")
	if step["approve"] != "" || step["reject"] != "" || step["retry"] == "" || step["skip"] == "" || step["resolve"] == "" {
		t.Errorf("of an approval: %v", step)
	}
	refused(step, "/api/steps/"+ship, "", "retry", "skip")
	refused(step, "/api/steps/"+ship, `{"output":null}`, "resolve")
	refused(g.offers(admin, "/api/steps/"+work+"/actions"), "/api/steps/"+work, "", "retry", "skip", "approve", "reject")
	for verb, why := range g.offers(viewer, path+"/actions") {
		if !strings.HasPrefix(why, "it needs the role ") {
			t.Errorf("to a viewer %s is %q", verb, why)
		}
	}
	if now := g.as(admin, "GET", path, "").header.Get("ETag"); now != version {
		t.Errorf("asking has changed the job: %s, was %s", now, version)
	}

	g.as(admin, "POST", path+"/pause", "")
	refused(g.offers(admin, path+"/actions"), path, "", "cancel", "pause", "resume", "retry")
	g.as(admin, "POST", path+"/cancel", "")
	g.as(admin, "GET", path+"?wait=ended", "")
	ended := g.offers(admin, path+"/actions")
	if ended["retry"] != "" || ended["redact"] != "" || ended["signal"] == "" {
		t.Errorf("of a job that has ended: %v", ended)
	}
	refused(ended, path, "", "cancel", "pause", "resume")

	g.as(admin, "POST", "/api/workflows", text(map[string]any{"source": order}))
	g.as(admin, "POST", "/api/schedules", `{"name":"nightly","workflow":"order","cron":"@daily"}`)
	at := "/api/schedules/nightly"
	refused(g.offers(admin, at+"/actions"), at, "", "pause", "resume", "trigger")
	if jobs := g.as(admin, "GET", "/api/jobs?schedule=nightly", "").field(t, "items").([]any); len(jobs) != 0 {
		t.Errorf("a trigger that was only tried has made %d jobs", len(jobs))
	}
	clerk := g.as(admin, "GET", "/api/workers", "").field(t, "items.0.id").(string)
	refused(g.offers(admin, "/api/workers/"+clerk+"/actions"), "/api/supervisor/workers/"+clerk, "", "pause", "resume")
}

// TestDryRuns: a check of a submission names each wrong input, and a check of a retry the steps
// that run again (J2).
func TestDryRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	defer s.work()()
	s.want(201, "POST", "/api/workflows", text(map[string]any{"source": `name: checked
inputs:
  day: {type: string, required: true, pattern: '^\d+$'}
  size: {type: integer, default: 3}
  mode: {type: string, enum: [a, b]}
steps:
  - {id: one, handler: work}
  - {id: two, needs: [one], handler: work, with: {fail: "no"}, retry: {max_attempts: 1}}
  - {id: three, needs: [two], handler: work}
`}))
	wrong := s.want(422, "POST", "/api/jobs/check", `{"workflow":"checked","inputs":{"size":"x","mode":"c"}}`)
	var at []string
	for _, f := range wrong.field(t, "errors").([]any) {
		at = append(at, f.(map[string]any)["location"].(string))
	}
	if diff := cmp.Diff([]string{"body.inputs.day", "body.inputs.mode", "body.inputs.size"}, at); diff != "" {
		t.Errorf("the faults (-want +got):\n%s", diff)
	}
	if in := s.want(200, "POST", "/api/jobs/check", `{"workflow":"checked","inputs":{"day":"7"}}`).field(t, "inputs.size"); in != 3.0 {
		t.Errorf("the default of size is %v", in)
	}
	schema := s.want(200, "GET", "/api/workflows/checked/inputs", "")
	if schema.field(t, "required.0") != "day" || schema.field(t, "properties.day.pattern") != `^\d+$` || schema.field(t, "properties.mode.enum.1") != "b" || schema.field(t, "properties.size.type") != "integer" {
		t.Errorf("%s", schema.body)
	}
	job := s.want(201, "POST", "/api/jobs", `{"workflow":"checked","inputs":{"day":"7"}}`).field(t, "id").(string)
	s.want(200, "GET", "/api/jobs/"+job+"?wait=ended", "")
	plan := s.want(200, "POST", "/api/jobs/"+job+"/retry/check", `{"results":{"two":1}}`)
	for i, want := range []string{"kept", "given", "again"} {
		if got := plan.field(t, "steps").([]any)[i].(map[string]any)["does"]; got != want {
			t.Errorf("step %d: %v, want %s", i, got, want)
		}
	}
	if n := len(s.want(200, "GET", "/api/jobs?continues="+job, "").field(t, "items").([]any)); n != 0 {
		t.Errorf("a check has made %d jobs", n)
	}
	moves := s.want(200, "GET", "/api/audit?limit=2&entity="+job, "")
	if next, _ := moves.field(t, "next").(string); next == "" || moves.field(t, "items.1.sequence") != 2.0 {
		t.Errorf("%s", moves.body)
	} else if more := s.want(200, "GET", "/api/audit?limit=2&entity="+job+"&cursor="+next, ""); more.field(t, "items.0.sequence") != 3.0 {
		t.Errorf("%s", more.body)
	}
}
