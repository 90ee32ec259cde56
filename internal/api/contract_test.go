package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/lab/pgtest"
)

// A contract is the document of the API, against which answers are checked.
type contract struct {
	paths   map[string]map[string]operation // by path, and by method in lower case
	schemas *jsonschema.Compiler
	driven  map[string]map[int]bool // the statuses that were answered, by operation
}

type operation struct {
	ID        string `json:"operationId"`
	Responses map[string]struct {
		Content map[string]json.RawMessage `json:"content"`
	} `json:"responses"`
}

func contractOf(t testing.TB, document []byte) *contract {
	t.Helper()
	var d struct {
		Paths map[string]map[string]operation `json:"paths"`
	}
	if err := json.Unmarshal(document, &d); err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return &contract{d.Paths, c, map[string]map[int]bool{}}
}

var inBraces = regexp.MustCompile(`\{[^}]*\}`)

// of returns the operation of a request, and its path in the document.
func (c *contract) of(t testing.TB, method, path string) (operation, string) {
	t.Helper()
	path, _, _ = strings.Cut(path, "?")
	best := ""
	for p := range c.paths {
		pattern := "^" + inBraces.ReplaceAllString(p, "[^/]+") + "$"
		if regexp.MustCompile(pattern).MatchString(path) && c.paths[p][strings.ToLower(method)].ID != "" &&
			(best == "" || strings.Count(p, "{") < strings.Count(best, "{")) {
			best = p
		}
	}
	if best == "" {
		t.Fatalf("%s %s is not in the document", method, path)
	}
	return c.paths[best][strings.ToLower(method)], best
}

// check fails the test unless an answer is one that the document declares.
func (c *contract) check(t testing.TB, method, path string, a *answer) {
	t.Helper()
	o, p := c.of(t, method, path)
	if c.driven[o.ID] == nil {
		c.driven[o.ID] = map[int]bool{}
	}
	c.driven[o.ID][a.status] = true
	r, declared := o.Responses[fmt.Sprint(a.status)]
	if !declared {
		t.Errorf("%s answers %d, which it does not declare: %s", o.ID, a.status, a.body)
		return
	}
	if a.status == http.StatusNotModified || a.status == http.StatusNoContent {
		return
	}
	media := a.header.Get("Content-Type")
	if _, is := r.Content[media]; !is {
		t.Errorf("%s answers %d as %q: it declares %q", o.ID, a.status, media, slices.Collect(maps.Keys(r.Content)))
		return
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	at := fmt.Sprintf("openapi.json#/paths/%s/%s/responses/%d/content/%s/schema", escape.Replace(p), strings.ToLower(method), a.status, escape.Replace(media))
	schema, err := c.schemas.Compile(at)
	if err != nil {
		t.Fatal(err)
	}
	if media == "application/octet-stream" || media == "text/event-stream" || media == "text/html" {
		return
	}
	values := [][]byte{a.body}
	if media == "application/x-ndjson" {
		values = bytes.Split(bytes.TrimSuffix(a.body, []byte("\n")), []byte("\n"))
	}
	for _, value := range values {
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
		if err == nil {
			err = schema.Validate(v)
		}
		if err != nil {
			t.Errorf("%s answers what it does not declare: %v\n%s", o.ID, err, value)
		}
	}
}

// A drive sends requests and holds each answer against the contract.
type drive struct {
	*site
	*contract
}

func newDrive(t testing.TB) *drive {
	t.Helper()
	return driveOf(t, newWholeSite(t, filepath.Join(t.TempDir(), "pawl.db")))
}

func driveOf(t testing.TB, s *site) *drive {
	t.Helper()
	return &drive{s, contractOf(t, s.want(200, "GET", "/openapi.json", "").body)}
}

func (d *drive) want(status int, method, path, body string, headers ...string) *answer {
	d.t.Helper()
	a := d.site.want(status, method, path, body, headers...)
	d.check(d.t, method, path, a)
	return a
}

// submit submits a job of the text of a workflow and returns its id.
func (d *drive) submit(source string, inputs map[string]any) string {
	d.t.Helper()
	a := d.want(201, "POST", "/api/jobs", text(map[string]any{"source": source, "inputs": inputs}))
	return a.field(d.t, "id").(string)
}

// step returns the id of a step of a job, once it is in a state.
func (d *drive) step(job, key, state string) string {
	d.t.Helper()
	return d.stepWith(job, key, "status", state)
}

// backoff returns the id of a step of a job, once it waits for its next attempt.
func (d *drive) backoff(job, key string) string {
	d.t.Helper()
	return d.stepWith(job, key, "not_before", "")
}

// stepWith returns the id of a step of a job, once a field has a value, or any if that is
// empty.
func (d *drive) stepWith(job, key, field, value string) string {
	d.t.Helper()
	path := "/api/jobs/" + job
	for etag := d.want(200, "GET", path, "").header.Get("ETag"); ; {
		steps := d.want(200, "GET", path+"/steps?key="+key, "")
		if got, is := steps.field(d.t, "items.0."+field).(string); is && (value == "" || got == value) {
			return steps.field(d.t, "items.0.id").(string)
		}
		etag = d.want(200, "GET", path+"?wait=changed", "", "If-None-Match", etag).header.Get("ETag")
	}
}

// TestContract drives every operation, and holds each answer against the document
// (J3, J4, J5, J11).
func TestContract(t *testing.T) {
	t.Parallel()
	testContract(t, newDrive(t))
}

func TestContractPostgres(t *testing.T) {
	t.Parallel()
	testContract(t, driveOf(t, newWholeSite(t, pgtest.URL(t))))
}

func testContract(t *testing.T, d *drive) {
	defer d.work()()

	d.want(200, "GET", "/api/version", "")
	d.want(200, "GET", "/api/whoami", "", "Pawl-Actor", "ada")

	// Workflows.
	registration := text(map[string]any{"source": order, "reason": "first"})
	d.want(201, "POST", "/api/workflows", registration)
	d.want(200, "POST", "/api/workflows", registration)
	d.want(422, "POST", "/api/workflows", `{"source":"name: 7"}`)
	d.want(200, "GET", "/api/workflows", "")
	checked := d.want(200, "POST", "/api/workflows/validate", text(map[string]any{"source": order}))
	d.want(422, "POST", "/api/workflows/validate", `{}`)
	d.want(200, "POST", "/api/workflows/verify", text(map[string]any{"source": order, "inputs": map[string]any{"fail": "no"}}))
	d.want(422, "POST", "/api/workflows/verify", text(map[string]any{"source": order, "inputs": map[string]any{"fial": "no"}}))
	d.want(200, "POST", "/api/workflows/simulate", text(map[string]any{"source": order, "seed": 7, "faults": []string{"kill"}}))
	d.want(200, "POST", "/api/workflows/simulate", text(map[string]any{"source": order, "runs": 3}))
	d.want(422, "POST", "/api/workflows/simulate", text(map[string]any{"source": order, "faults": []string{"fire"}}))
	d.want(200, "GET", "/api/workflows/order", "")
	d.want(404, "GET", "/api/workflows/none", "")
	d.want(200, "GET", "/api/workflows/order/versions", "")
	d.want(200, "GET", "/api/workflows/order/versions/1", "")
	d.want(404, "GET", "/api/workflows/order/versions/2", "")

	// A job, from its submission to its end.
	job := d.want(201, "POST", "/api/jobs", `{"workflow":"order","task_description":"one"}`).field(t, "id").(string)
	d.want(404, "POST", "/api/jobs", `{"workflow":"none"}`)
	d.want(422, "POST", "/api/jobs", `{"workflow":"order","priority":1001}`)
	d.want(422, "POST", "/api/jobs", `{"workflow":"order","inputs":{"size":1}}`)
	d.want(400, "POST", "/api/jobs", `{"workflow":"order"`)
	d.want(400, "POST", "/api/jobs", `{"workflow":"order","workflow":"other"}`)
	ship := d.step(job, "ship", "in_progress")
	d.want(200, "GET", "/api/approvals", "")
	d.want(200, "POST", "/api/workflows/plan", text(map[string]any{"definition": json.RawMessage(text(checked.field(t, "definition")))}))
	d.want(200, "GET", "/api/jobs?status=RUNNING,PENDING&workflow=order&depth=0", "")
	d.want(200, "GET", "/api/jobs?status=RUNNING&timed_out=true&before="+job, "")
	d.want(422, "GET", "/api/jobs?status=GOING", "")
	d.want(422, "GET", "/api/jobs?before=x", "")
	d.want(422, "GET", "/api/jobs?cursor=x", "")
	etag := d.want(200, "GET", "/api/jobs/"+job, "").header.Get("ETag")
	d.want(304, "GET", "/api/jobs/"+job, "", "If-None-Match", etag)
	d.want(404, "GET", "/api/jobs/j_1", "")
	d.want(200, "GET", "/api/jobs/"+job+"/steps?status=in_progress,complete", "")
	d.want(200, "GET", "/api/jobs/"+job+"/steps?fields=summary&status=in_progress", "")
	d.want(200, "GET", "/api/jobs/"+job+"/steps?seq=1", "")
	d.want(422, "GET", "/api/jobs/"+job+"/steps?seq=1&at=2026-03-01T12:00:00Z", "")
	d.want(404, "GET", "/api/jobs/"+job+"/steps?at=2020-03-01T12:00:00Z", "")
	graph := "/api/jobs/" + job + "/graph"
	d.want(304, "GET", graph, "", "If-None-Match", d.want(200, "GET", graph, "").header.Get("ETag"))
	d.want(200, "GET", "/api/jobs/"+job+"/steps/ship/states", "")
	d.want(404, "GET", "/api/jobs/"+job+"/steps/none/states", "")
	d.want(200, "GET", "/api/jobs/"+job+"/timeline?step=work", "")
	d.want(200, "GET", "/api/jobs/"+job+"/timeline?seq=2", "")
	d.want(200, "GET", "/api/jobs/"+job+"/moments", "")
	d.want(200, "GET", "/api/steps/"+ship+"/attempts", "")
	d.want(200, "GET", "/api/overview", "")
	d.want(200, "POST", "/api/jobs/check", `{"workflow":"order"}`)
	d.want(404, "POST", "/api/jobs/check", `{"workflow":"none"}`)
	d.want(422, "POST", "/api/jobs/check", `{"workflow":"order","inputs":{"fail":1,"size":2}}`)
	d.want(409, "POST", "/api/jobs/"+job+"/retry/check", "")
	d.want(200, "GET", "/api/jobs/"+job+"/cancel/check", "")
	d.want(200, "GET", "/api/workflows/order/inputs", "")
	d.want(200, "GET", "/api/jobs/"+job+"/actions", "")
	d.want(200, "GET", "/api/steps/"+ship+"/actions", "")
	d.want(200, "GET", "/api/audit?entity="+job+"&actor=api", "")
	d.want(200, "GET", "/api/audit?limit=1&entity="+ship, "")
	d.want(404, "GET", "/api/audit?entity=st_019ac1f0a3c47d5e8f00112233445566", "")
	d.want(200, "GET", "/api/audit?machine=job,step&actor=api&from=2026-01-01T00:00:00Z", "")
	d.want(422, "GET", "/api/audit?machine=member", "")
	d.want(200, "GET", "/api/processes", "")
	d.want(200, "GET", "/api/queues/default", "")
	d.want(404, "GET", "/api/queues/none", "")
	d.want(200, "GET", "/api/machines/step/counts", "")
	d.want(404, "GET", "/api/machines/token/counts", "")
	d.want(404, "GET", "/api/steps/"+job+"/context", "")
	d.want(200, "GET", "/api/steps/"+ship+"/context", "")
	d.want(200, "GET", "/api/approvals/count", "")
	d.want(200, "GET", "/api/search?q="+job[len(job)-6:], "")
	d.want(200, "GET", "/api/search?q="+job, "")
	d.want(422, "GET", "/api/search?q=", "")
	d.want(200, "GET", "/api/jobs/"+job+"/why", "")
	d.want(200, "GET", "/api/jobs/"+job+"/definition", "")
	d.want(200, "GET", "/api/jobs/"+job+"/logs", "")
	d.want(200, "GET", "/api/jobs/"+job+"/history?step=work", "")
	d.want(200, "GET", "/api/steps/"+ship, "")
	d.want(404, "GET", "/api/steps/"+job, "")
	d.want(200, "POST", "/api/jobs/"+job+"/pause", `{"reason":"wait"}`)
	d.want(409, "POST", "/api/jobs/"+job+"/pause", "")
	d.want(200, "POST", "/api/jobs/"+job+"/resume", "")
	d.want(201, "POST", "/api/workflows", text(map[string]any{"source": order + "description: the second\n"}))
	d.want(200, "POST", "/api/jobs/"+job+"/move", `{"version":2,"dry_run":true}`)
	d.want(422, "POST", "/api/steps/"+ship+"/approve", `{"form":{"size":1}}`)
	d.want(200, "POST", "/api/steps/"+ship+"/approve", `{"form":{"note":"ok"},"reason":"fine"}`)
	d.want(409, "POST", "/api/steps/"+ship+"/reject", `{"reason":"late"}`)
	d.want(422, "POST", "/api/jobs/"+job+"/signals", `{"name":"other"}`)
	d.want(200, "POST", "/api/jobs/"+job+"/signals", `{"name":"paid","data":{"cents":1}}`)
	d.want(200, "GET", "/api/jobs/"+job+"?wait=ended", "")
	d.want(409, "POST", "/api/jobs/"+job+"/cancel", `{"reason":"late"}`)
	if past := d.want(200, "GET", "/api/jobs/"+job+"?seq=1", "").field(t, "status"); past != "SUBMITTED" {
		t.Errorf("at its first move the job was %v, want SUBMITTED", past)
	}
	d.want(422, "GET", "/api/jobs/"+job+"?seq=1&wait=ended", "")
	d.want(422, "POST", "/api/jobs/"+job+"/redact", `{}`)
	d.want(200, "POST", "/api/jobs/"+job+"/redact", `{"reason":"a secret"}`)

	// Steps that fail, and what an operator does about it.
	again := d.submit(order, map[string]any{"fail": "no money"})
	d.want(200, "POST", "/api/steps/"+d.backoff(again, "work")+"/retry", "")
	work := d.step(again, "work", "permanent_error")
	d.want(200, "GET", "/api/jobs/"+again+"?wait=ended", "")
	d.want(409, "POST", "/api/steps/"+work+"/skip", "")
	d.want(409, "POST", "/api/steps/"+work+"/resolve", `{"output":1}`)
	d.want(200, "POST", "/api/jobs/"+again+"/retry/check", `{"results":{"work":"by hand"}}`)
	d.want(201, "POST", "/api/jobs/"+again+"/retry", `{"results":{"work":"by hand"}}`)
	drained := d.submit(draining, nil)
	d.want(200, "POST", "/api/steps/"+d.step(drained, "work", "permanent_error")+"/resolve", `{"output":"by hand"}`)
	d.want(200, "POST", "/api/jobs/"+drained+"/cancel", "")
	third := d.submit(order, nil)
	d.want(200, "POST", "/api/steps/"+d.step(third, "ship", "in_progress")+"/reject", `{"reason":"no"}`)
	fourth := d.submit(order, map[string]any{"fail": "later"})
	d.want(200, "POST", "/api/steps/"+d.backoff(fourth, "work")+"/skip", "")
	d.want(200, "POST", "/api/jobs/batch", text(map[string]any{"jobs": []any{
		map[string]any{"workflow": "order"}, map[string]any{"workflow": "none"}, map[string]any{"source": order, "inputs": map[string]any{"fail": 1}}}}))
	d.want(422, "POST", "/api/jobs/batch", `{"jobs":[]}`)
	d.want(200, "POST", "/api/jobs/batch", `{"request_id":"batch","jobs":[{"workflow":"order"}]}`)
	d.want(200, "POST", "/api/jobs/batch", `{"request_id":"batch","jobs":[{"workflow":"order"}]}`)
	d.want(422, "POST", "/api/jobs/batch", `{"request_id":"batch","jobs":[{"workflow":"none"}]}`)
	d.want(200, "GET", "/api/stuck?for=0s&status=RUNNING&workflow=order", "")

	d.want(200, "POST", "/api/bulk/pause", `{"filter":{"workflow":"order","status":["RUNNING"]},"dry_run":true}`)
	d.want(200, "POST", "/api/bulk/cancel", `{"jobs":["`+again+`"]}`)
	d.want(409, "POST", "/api/bulk/cancel", `{"filter":{"workflow":"none"},"expect":1}`)
	d.want(422, "POST", "/api/bulk/cancel", `{}`)
	d.want(200, "GET", "/api/jobs?q=RDE&fields=summary", "")
	d.want(404, "GET", "/api/jobs?schedule=none", "")
	d.want(200, "GET", "/api/jobs?stuck=1us&metadata=team%3Dbilling&metadata=n%3D3", "")
	for _, wrong := range []string{"stuck=soon", "stuck=0s", "stuck=1m&status=FAILED", "stuck=1m&timed_out=true", "metadata=team", "metadata=%3Dbilling", "metadata=a%3D1&metadata=a%3D2"} {
		d.want(422, "GET", "/api/jobs?"+wrong, "")
	}
	d.want(200, "GET", "/api/rates?minutes=5&workspace_id=default", "")
	d.want(422, "GET", "/api/rates?minutes=0", "")
	d.want(200, "GET", "/api/stuck?attention=true&for=0s&metadata=team%3Dbilling", "")
	d.want(200, "POST", "/api/bulk/pause", `{"filter":{"metadata":{"team":"billing"}},"dry_run":true}`)
	d.want(200, "GET", "/api/diff?a="+again+"&b="+third, "")
	d.want(404, "GET", "/api/diff?a="+again+"&b=j_1", "")

	driveCrew(t, d)
	driveLoads(t, d)

	// Services.
	d.want(200, "GET", "/api/hosts", "")
	d.want(200, "GET", "/api/services?limit=1", "")
	d.want(200, "GET", "/api/hosts/shop/services", "")
	d.want(404, "GET", "/api/hosts/none/services", "")
	web := "/api/hosts/shop/services/web"
	d.want(200, "GET", web, "")
	d.want(404, "GET", "/api/hosts/shop/services/none", "")
	d.want(200, "GET", web+"/actions", "")
	d.want(200, "GET", web+"/why", "")
	d.want(200, "GET", web+"/history?limit=1", "")
	if log := d.want(200, "GET", web+"/logs", "").body; string(log) != "printed" {
		t.Errorf("the log of a service: %q", log)
	}
	d.want(200, "POST", web+"/start", `{"reason":"now"}`)
	d.want(409, "POST", web+"/stop", "")
	d.want(200, "POST", web+"/stop", `{"reason":"later"}`)
	d.want(200, "POST", web+"/restart", "")
	d.want(200, "POST", "/api/hosts/shop/reload", "")

	// Schedules.
	d.want(201, "POST", "/api/schedules", `{"name":"nightly","workflow":"order","cron":"0 3 * * *","catch_up":"1h"}`)
	d.want(409, "POST", "/api/schedules", `{"name":"nightly","workflow":"order","cron":"0 3 * * *"}`)
	d.want(422, "POST", "/api/schedules", `{"name":"other","workflow":"order","cron":"99 3 * * *"}`)
	d.want(200, "GET", "/api/schedules", "")
	d.want(200, "GET", "/api/schedules/nightly", "")
	d.want(404, "GET", "/api/schedules/none", "")
	read := d.want(200, "GET", "/api/schedules/nightly", "").header.Get("ETag")
	d.want(200, "PUT", "/api/schedules/nightly", `{"workflow":"order","cron":"0 4 * * *"}`, "If-Match", read)
	d.want(412, "PUT", "/api/schedules/nightly", `{"workflow":"order","cron":"0 5 * * *"}`, "If-Match", read)
	d.want(412, "DELETE", "/api/schedules/nightly", "", "If-Match", read)
	d.want(422, "DELETE", "/api/schedules/nightly", "", "If-Match", "*")
	d.want(200, "POST", "/api/schedules/nightly/pause", `{"reason":"holidays"}`)
	d.want(409, "POST", "/api/schedules/nightly/pause", "")
	d.want(200, "POST", "/api/schedules/nightly/resume", "")
	d.want(201, "POST", "/api/schedules/nightly/trigger", "")
	d.want(200, "GET", "/api/schedules/nightly/history", "")
	d.want(200, "GET", "/api/jobs?schedule=nightly", "")
	d.want(200, "GET", "/api/schedules/nightly/actions", "")
	d.want(200, "GET", "/api/calendar?from=2026-03-01T12:00:00Z&to=2026-03-08T12:00:00Z", "")
	d.want(422, "GET", "/api/calendar?from=2026-03-01T12:00:00Z&to=2036-03-08T12:00:00Z", "")
	d.want(200, "POST", "/api/schedules/preview", `{"cron":"0 3 * * *","from":"2026-03-01T12:00:00Z","count":2}`)
	d.want(200, "DELETE", "/api/schedules/nightly?reason=over", "")

	// Resources.
	d.want(200, "PUT", "/api/resources/quotas/queue/billing", `{"slots":3,"reason":"slow"}`)
	d.want(422, "PUT", "/api/resources/quotas/queue/billing", `{"slots":-3}`)
	read = d.want(200, "GET", "/api/resources/quotas/queue/billing", "").header.Get("ETag")
	d.want(200, "PUT", "/api/resources/quotas/queue/billing", `{"slots":4}`, "If-Match", read)
	d.want(412, "PUT", "/api/resources/quotas/queue/billing", `{"slots":5}`, "If-Match", read)
	d.want(412, "DELETE", "/api/resources/quotas/queue/billing", "", "If-Match", read)
	d.want(404, "GET", "/api/resources/quotas/queue/parcels", "")
	d.want(200, "GET", "/api/resources/quotas", "")
	d.want(200, "GET", "/api/resources/usage", "")
	d.want(200, "DELETE", "/api/resources/quotas/queue/billing", "")
	d.want(200, "POST", "/api/resources/quotas", `{"quotas":[{"name":"queue/a","slots":2},{"name":"depth/0","slots":3}],"reason":"slow"}`)
	d.want(200, "POST", "/api/resources/quotas", `{"quotas":[{"name":"queue/a","slots":-1}]}`)
	d.want(422, "POST", "/api/resources/quotas", `{"quotas":[{"name":"shelf/a","slots":2}]}`)
	d.want(200, "POST", "/api/resources/quotas/preset", `{"preset":"hierarchy"}`)
	d.want(200, "GET", "/api/queues", "")
	reserved := d.want(201, "POST", "/api/resources/allocate", `{"depth":5,"worker_count":1,"ttl_s":60,"reason":"a backup"}`).field(t, "reservation_id").(string)
	d.want(409, "POST", "/api/resources/allocate", `{"depth":5,"worker_count":1,"ttl_s":60}`)
	d.want(422, "POST", "/api/resources/allocate", `{"depth":6,"worker_count":1,"ttl_s":60}`)
	d.want(200, "POST", "/api/resources/release", `{"reservation_id":"`+reserved+`"}`)
	d.want(404, "POST", "/api/resources/release", `{"reservation_id":"`+reserved+`"}`)

	// Workers.
	clerk := d.want(200, "GET", "/api/workers", "").field(t, "items.0.id").(string)
	d.want(200, "GET", "/api/workers/"+clerk, "")
	d.want(200, "GET", "/api/workers/"+clerk+"/history", "")
	d.want(200, "GET", "/api/workers/"+clerk+"/actions", "")
	d.want(200, "GET", "/api/supervisor/workers", "")
	d.want(200, "GET", "/api/supervisor/workers/"+clerk, "")
	d.want(404, "GET", "/api/supervisor/workers/w_1", "")
	d.want(200, "GET", "/api/supervisor/metrics", "")
	d.want(200, "POST", "/api/supervisor/workers/"+clerk+"/pause", "")
	d.want(409, "POST", "/api/supervisor/workers/"+clerk+"/pause", "")
	d.want(200, "POST", "/api/supervisor/workers/"+clerk+"/resume", "")
	d.want(422, "POST", "/api/supervisor/workers/"+clerk+"/terminate", `{}`)

	// A worker over HTTP.
	registration = `{"name":"far","handlers":["far"],"capacity":2,"silence_ms":60000}`
	far := d.want(201, "POST", "/api/workers", registration, "Idempotency-Key", "far").field(t, "id").(string)
	if again := d.want(201, "POST", "/api/workers", registration, "Idempotency-Key", "far").field(t, "id"); again != far {
		t.Errorf("registered again with the same key it is %v, want %s", again, far)
	}
	d.want(422, "POST", "/api/workers", `{"silence_ms":1}`)
	d.want(422, "POST", "/api/workers", `{"predecessor":{"worker_id":"w_1"}}`)
	at := "/api/workers/" + far
	away := d.submit("name: away\nsteps: [{id: one, handler: far}, {id: two, handler: far}, {id: three, handler: far, needs: [one]}]\n", nil)
	got := d.want(200, "POST", at+"/exchange", `{"turn":1,"free":2}`)
	one, two := got.field(t, "steps.0.step_id").(string), got.field(t, "steps.1.step_id").(string)
	if again := d.want(200, "POST", at+"/exchange", `{"turn":1,"free":2}`); again.field(t, "steps.1.redelivered") != true {
		t.Errorf("the same exchange again: %s", again.body)
	}
	d.want(200, "POST", at+"/heartbeat", "")
	if gone := d.want(200, "POST", at+"/heartbeat", text(map[string]any{"holding": []any{map[string]any{"step_id": one, "claim": 7}}})); gone.field(t, "gone.0.claim") != 7.0 {
		t.Errorf("a claim that it never had: %s", gone.body)
	}
	log := "/api/steps/" + one + "/log?claim=1&stream=stdout&offset="
	d.want(200, "POST", log+"0", "first\n")
	d.want(200, "POST", log+"0", "first\n")
	if wrong := d.want(409, "POST", log+"8", "later\n"); wrong.field(t, "current") != 6.0 || wrong.field(t, "code") != "OFFSET" {
		t.Errorf("a wrong offset: %s", wrong.body)
	}
	d.want(200, "POST", log+"600000&cut=true", "tail\n")
	d.want(422, "POST", "/api/steps/"+one+"/log?claim=2&offset=0", "x")
	kept := d.want(200, "GET", "/api/steps/"+one+"/log?claim=1", "")
	if string(kept.body) != "first\ntail" || kept.header.Get("Pawl-Cut") != "6" { // the harness trims
		t.Errorf("the log: %q, cut at %s", kept.body, kept.header.Get("Pawl-Cut"))
	}
	d.want(304, "GET", "/api/steps/"+one+"/log?claim=1", "", "If-None-Match", kept.header.Get("ETag"))
	d.want(404, "GET", "/api/steps/"+one+"/log?claim=7", "")
	d.want(404, "POST", "/api/steps/st_1/log?claim=1&offset=0", "x")
	by := func(claim int, more string) string {
		return fmt.Sprintf(`{"worker_id":%q,"claim":%d%s}`, far, claim, more)
	}
	d.want(200, "POST", "/api/steps/"+two+"/release", by(1, ""))
	if stale := d.want(409, "POST", "/api/steps/"+two+"/fail", by(1, `,"error":{"message":"late"}`)); stale.field(t, "code") != "STALE_CLAIM" || stale.field(t, "claim") != 1.0 || stale.field(t, "current") != 1.0 {
		t.Errorf("a stale claim: %s", stale.body)
	}
	d.want(200, "POST", "/api/steps/"+one+"/complete", by(1, `,"output":{"ok":true}`))
	if again := d.want(200, "POST", "/api/steps/"+one+"/complete", by(1, `,"output":{"ok":true}`)).field(t, "result"); again != "duplicate" {
		t.Errorf("the same report again is %v", again)
	}
	d.want(422, "POST", "/api/steps/"+one+"/complete", by(1, fmt.Sprintf(`,"output":%q`, strings.Repeat("x", 1<<20))))
	d.want(404, "POST", "/api/steps/st_1/complete", by(1, ""))
	got = d.want(200, "POST", at+"/claim", `{"turn":2,"free":2,"holding":[]}`)
	if over := d.want(409, "POST", at+"/exchange", `{"turn":1,"free":2}`); over.field(t, "code") != "TURN" || over.field(t, "current") != 2.0 {
		t.Errorf("a turn that is over: %s", over.body)
	}
	var reports []any
	for i := range 2 {
		reports = append(reports, map[string]any{"step_id": got.field(t, fmt.Sprintf("steps.%d.step_id", i)), "claim": got.field(t, fmt.Sprintf("steps.%d.claim", i)), "outcome": "complete"})
	}
	d.want(200, "POST", at+"/exchange", text(map[string]any{"turn": 3, "reports": reports}))
	d.want(422, "POST", at+"/exchange", text(map[string]any{"turn": 4, "reports": []any{map[string]any{"step_id": "st_1", "claim": 1, "outcome": "complete"}}}))
	if status := d.want(200, "GET", "/api/jobs/"+away+"?wait=ended", "").field(t, "status"); status != "COMPLETED" {
		t.Errorf("the job is %v", status)
	}
	if over := d.want(200, "POST", "/api/jobs/ended", text(map[string]any{"jobs": []any{away, job}})).field(t, "items.0"); over != away {
		t.Errorf("of the jobs that have ended the first is %v, want %s", over, away)
	}
	failing := d.submit("name: failing\nsteps: [{id: one, handler: far, retry: {max_attempts: 1}}]\n", nil)
	one = d.want(200, "POST", at+"/claim", `{"turn":4,"free":1}`).field(t, "steps.0.step_id").(string)
	d.want(200, "POST", "/api/steps/"+one+"/fail", by(1, `,"error":{"class":"broken","message":"it broke","metadata":{"code":1}}`))
	if status := d.want(200, "GET", "/api/jobs/"+failing+"?wait=ended", "").field(t, "status"); status != "FAILED" {
		t.Errorf("a job whose step a worker has failed is %v", status)
	}
	d.want(200, "POST", at+"/pause", "")
	d.want(200, "POST", at+"/resume", "")
	d.want(409, "POST", at+"/start", "")
	d.want(200, "POST", at+"/complete", `{"reason":"drained"}`)
	d.want(410, "POST", at+"/heartbeat", "")
	if end := d.want(200, "GET", at+"/end", ""); end.field(t, "reason") != "drained" || end.field(t, "operator") != false {
		t.Errorf("the end of the worker: %s", end.body)
	}
	d.want(404, "GET", "/api/workers/w_1/end", "")
	d.want(410, "POST", at+"/exchange", `{"turn":5,"free":1}`)
	d.want(409, "POST", "/api/workers/"+clerk+"/exchange", `{"turn":1}`)
	d.want(404, "POST", "/api/workers/w_1/exchange", `{"turn":1}`)
	idle := d.want(201, "POST", "/api/workers", "").field(t, "id").(string)
	if ended := d.want(200, "POST", "/api/workers/"+idle+"/complete", "").field(t, "status"); ended != "TERMINATED" {
		t.Errorf("a worker that never had a task ends as %v", ended)
	}
	broken := d.want(201, "POST", "/api/workers", "").field(t, "id").(string)
	d.want(200, "POST", "/api/workers/"+broken+"/start", "")
	d.want(200, "POST", "/api/workers/"+broken+"/fail", `{"reason":"no disk"}`)
	// Tokens.
	token := d.want(201, "POST", "/api/tokens", `{"name":"ci","roles":["operator","worker"],"workspaces":["builds"],"expires_at":"2100-01-01T00:00:00Z","request_id":"t-1"}`).field(t, "id").(string)
	if code := d.want(409, "POST", "/api/tokens", `{"name":"ci","roles":["operator","worker"],"workspaces":["builds"],"expires_at":"2100-01-01T00:00:00Z","request_id":"t-1"}`).field(t, "code"); code != "SECRET_SHOWN" {
		t.Errorf("the same request again: %v, want SECRET_SHOWN", code)
	}
	d.want(422, "POST", "/api/tokens", `{"name":"other","roles":["operator"],"request_id":"t-1"}`)
	d.want(422, "POST", "/api/tokens", `{"name":"other","roles":["boss"]}`)
	d.want(422, "POST", "/api/tokens", `{"name":"other","roles":["viewer"],"expires_at":"2020-01-01T00:00:00Z"}`)
	d.want(409, "POST", "/api/tokens", `{"name":"ci","roles":["viewer"]}`)
	d.want(200, "GET", "/api/tokens?ended=true&limit=1", "")
	d.want(200, "GET", "/api/tokens/"+token, "")
	d.want(404, "GET", "/api/tokens/"+clerk, "")
	d.want(200, "POST", "/api/tokens/"+token+"/revoke", `{"reason":"it leaked"}`)
	d.want(409, "POST", "/api/tokens/"+token+"/revoke", "")
	d.want(200, "GET", "/api/tokens/"+token+"/history", "")

	// Sessions.
	visitor := d.want(201, "POST", "/api/tokens", `{"name":"visitor","roles":["viewer"]}`).field(t, "secret").(string)
	d.want(200, "GET", "/api/session", "")
	d.want(409, "POST", "/api/session/codes", "")
	d.want(201, "POST", "/api/session/codes", "", "Authorization", "Bearer "+visitor)
	d.want(401, "POST", "/api/session", `{"token":"nonsense"}`)
	d.want(201, "POST", "/api/session", text(map[string]any{"token": visitor}))
	d.want(204, "DELETE", "/api/session", "")
	// Families.
	above := d.submit(holding, nil)
	child := d.want(201, "POST", "/api/jobs", text(map[string]any{"source": order, "parent_job_id": above, "depth": 1, "worker_count": 2, "metadata": map[string]any{"ticket": 7}})).field(t, "id").(string)
	if a := d.want(200, "GET", "/api/jobs/"+child, ""); a.field(t, "parent_job_id") != above || a.field(t, "depth") != 1.0 || a.field(t, "worker_count") != 2.0 || a.field(t, "metadata.ticket") != 7.0 {
		t.Errorf("the child: %s", a.body)
	}
	for field, v := range map[string]any{"depth": 2, "worker_count": 11, "parent_job_id": "j_1", "metadata": []int{1}} {
		sub := map[string]any{"source": order, "parent_job_id": above}
		sub[field] = v
		if a := d.want(422, "POST", "/api/jobs", text(sub)); !strings.Contains(string(a.body), field) {
			t.Errorf("%s: %s", field, a.body)
		}
	}
	d.want(404, "POST", "/api/jobs", text(map[string]any{"source": order, "parent_job_id": "j_019ac1f0a3c47d5e8f00112233445566"}))
	d.want(200, "POST", "/api/jobs/"+above+"/cancel", "")
	d.want(200, "GET", "/api/jobs/"+above+"?wait=ended", "")
	if a := d.want(200, "GET", "/api/jobs/"+child+"?wait=ended", ""); a.field(t, "status") != "CANCELED" && a.field(t, "status") != "COMPLETED" {
		t.Errorf("the child of a job that was canceled: %s", a.body)
	}
	d.want(409, "POST", "/api/jobs", text(map[string]any{"source": order, "parent_job_id": above}))

	// Queues.
	d.want(404, "GET", "/api/queues/parcels", "")
	paused := d.want(201, "POST", "/api/queues/parcels/pause", `{"reason":"no vans","request_id":"pq-1"}`)
	if again := d.want(201, "POST", "/api/queues/parcels/pause", `{"reason":"no vans","request_id":"pq-1"}`); string(again.body) != string(paused.body) {
		t.Errorf("%s, then %s", paused.body, again.body)
	}
	d.want(409, "POST", "/api/queues/parcels/pause", "")
	d.want(422, "POST", "/api/queues/No%20Queue/pause", "")
	queue := d.want(200, "GET", "/api/queues/parcels", "")
	if got := queue.field(t, "paused.reason"); got != "no vans" {
		t.Errorf("the queue: %s", queue.body)
	}
	d.want(412, "POST", "/api/queues/parcels/resume", "", "If-Match", `"7"`)
	d.want(200, "POST", "/api/queues/parcels/resume", `{"reason":"vans"}`, "If-Match", queue.header.Get("ETag"))
	d.want(409, "POST", "/api/queues/parcels/resume", "")
	d.want(200, "GET", "/api/queues/parcels/history", "")

	hook := `{"name":"alerts","url":"http://127.0.0.1:1/x?token=q","machines":["job"],"events":["success"],"request_id":"wh-1"}`
	webhook := "/api/webhooks/" + d.want(201, "POST", "/api/webhooks", hook).field(t, "id").(string)
	if code := d.want(409, "POST", "/api/webhooks", hook).field(t, "code"); code != "SECRET_SHOWN" {
		t.Errorf("a repeated creation is %v", code)
	}
	d.want(422, "POST", "/api/webhooks", `{"name":"other","url":"https://example.com/","request_id":"wh-1"}`)
	d.want(422, "POST", "/api/webhooks", `{"name":"other","url":"http://example.com/"}`)
	d.want(422, "POST", "/api/webhooks", `{"name":"other","url":"https://example.com/","events":["nonsense"]}`)
	d.want(404, "POST", "/api/webhooks", `{"name":"other","url":"https://example.com/","job_id":"j_019ac1f0a3c47d5e8f00112233445566"}`)
	d.want(409, "POST", "/api/webhooks", `{"name":"alerts","url":"https://example.com/"}`)
	d.want(200, "GET", "/api/webhooks?ended=true&limit=1", "")
	was := d.want(200, "GET", webhook, "").header.Get("ETag")
	moved := d.want(200, "PUT", webhook, `{"url":"http://127.0.0.1:1/y","machines":["job"],"request_id":"wh-3"}`, "If-Match", was)
	if again := d.want(200, "PUT", webhook, `{"url":"http://127.0.0.1:1/y","machines":["job"],"request_id":"wh-3"}`, "If-Match", was); string(again.body) != string(moved.body) {
		t.Errorf("%s, then %s", moved.body, again.body)
	}
	d.want(412, "PUT", webhook, `{"url":"http://127.0.0.1:1/z"}`, "If-Match", was)
	d.want(422, "PUT", webhook, `{"url":"http://example.com/"}`)
	d.want(422, "PUT", webhook, `{"url":"https://example.com/","name":"other"}`)
	d.want(404, "PUT", "/api/webhooks/wh_019ac1f0a3c47d5e8f00112233445566", `{"url":"https://example.com/"}`)
	if now := d.want(200, "GET", webhook, ""); now.field(t, "url") != "http://127.0.0.1:1/y" || now.header.Get("ETag") == was {
		t.Errorf("the webhook is %s", now.body)
	}
	d.want(404, "GET", "/api/webhooks/"+token, "")
	if tried := d.want(200, "POST", webhook+"/test", ""); tried.field(t, "delivered") != false || tried.field(t, "status") != 0.0 {
		t.Errorf("a test without a receiver is %s", tried.body)
	}
	delivery := d.want(200, "GET", webhook+"/deliveries?limit=1", "").field(t, "items.0.id").(string)
	d.want(200, "POST", webhook+"/deliveries/"+delivery+"/redeliver", "")
	d.want(404, "POST", webhook+"/deliveries/0/redeliver", "")
	d.want(200, "POST", webhook+"/pause", `{"reason":"it moves"}`)
	d.want(409, "POST", webhook+"/pause", "")
	d.want(200, "POST", webhook+"/resume", "")
	d.want(200, "POST", webhook+"/rotate", `{"request_id":"wh-2"}`)
	d.want(409, "POST", webhook+"/rotate", `{"request_id":"wh-2"}`)
	d.want(200, "POST", webhook+"/delete", "")
	d.want(409, "POST", webhook+"/test", "")
	d.want(409, "PUT", webhook, `{"url":"https://example.com/"}`)
	d.want(200, "GET", webhook+"/history", "")

	// Records.
	d.want(200, "GET", "/api/machines", "")
	d.want(200, "GET", "/api/machines/job?as=mermaid", "")
	d.want(404, "GET", "/api/machines/none", "")
	d.want(200, "GET", "/api/retention/prospects?older_than=720h", "")

	if ok := d.want(200, "GET", "/api/audit/verify?job_id="+job, "").field(t, "ok"); ok != true {
		t.Errorf("the trail of the job: ok is %v", ok)
	}
	d.want(404, "GET", "/api/audit/verify?job_id=j_1", "")
	d.want(404, "GET", "/api/audit/verify-all", "")
	d.want(202, "POST", "/api/audit/verify-all", "")
	v := d.want(200, "GET", "/api/audit/verify-all", "")
	for v.field(t, "status") == "running" {
		v = d.want(200, "GET", "/api/audit/verify-all", "")
	}
	if ok := v.field(t, "verdict.ok"); ok != true {
		t.Errorf("all trails: %s", v.body)
	}
	rows := d.want(200, "GET", "/api/jobs/"+job+"/trail", "").body
	if _, err := audit.VerifyLines(bytes.NewReader(rows)); err != nil {
		t.Errorf("the export of a job: %v\n%s", err, rows)
	}
	d.want(404, "GET", "/api/jobs/j_1/trail", "")
	d.want(200, "GET", "/api/audit/export", "")
	d.want(200, "GET", "/api/audit/checkpoint", "")
	if more := d.want(200, "POST", "/api/retention/prune", `{"older_than":"720h","reason":"as agreed"}`).field(t, "more"); more != false {
		t.Errorf("prune: more is %v", more)
	}
	d.want(422, "POST", "/api/retention/prune", `{"older_than":"1m"}`)
	d.want(200, "GET", "/api/doctor", "")
	d.stream("")
	d.want(422, "GET", "/api/events?event=explode", "")
	d.want(404, "GET", "/api/events?job_id=j_1", "")
	d.want(404, "GET", "/api/steps/st_1/log/follow", "")
	d.want(200, "GET", "/api/jobs/"+away+"/logs/search?q=tail", "")
	if followed := d.want(200, "GET", "/api/steps/"+one+"/log/follow?claim=1", "", "Last-Event-ID", "1.stdout.3").body; !bytes.Contains(followed, []byte("event: end")) {
		t.Errorf("the log of an attempt that has ended: %s", followed)
	}
	d.want(404, "GET", "/api/events?job_id=j_019ac1f0a3c47d5e8f00112233445566", "")

	lost := d.submit(holding, nil)
	d.step(lost, "hold", "in_progress")
	d.want(200, "POST", "/api/jobs/"+lost+"/cancel", "")

	for _, methods := range d.paths {
		for _, o := range methods {
			if good := slices.ContainsFunc(slices.Collect(maps.Keys(d.driven[o.ID])), func(status int) bool { return status < 300 }); !good && o.ID != "terminate-worker" {
				t.Errorf("%s was never driven to an end that is good", o.ID)
			}
		}
	}
}

// TestOneExaminationAtATime: a second one is refused while the first runs.
func TestOneExaminationAtATime(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	begun, end := make(chan struct{}), make(chan struct{})
	s.examine = func() []health.Finding {
		close(begun)
		<-end
		return nil
	}
	first := make(chan *answer)
	go func() { first <- s.do("GET", "/api/doctor", "") }()
	<-begun
	s.want(503, "GET", "/api/doctor", "")
	close(end)
	if a := <-first; a.status != 200 {
		t.Errorf("the first: %d %s", a.status, a.body)
	}
}
