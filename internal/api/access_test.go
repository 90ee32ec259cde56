package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/worker"
)

// A guarded is a site that requires tokens.
type guarded struct {
	*site
	operations []guardedOperation
}

// A guardedOperation is an operation as the document has it.
type guardedOperation struct {
	ID         string `json:"operationId"`
	Role       pawl.Role
	Everywhere bool `json:"x-pawl-all-workspaces"`
	Parameters []struct {
		Name, In string
		Required bool
	}

	method, path string
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{site: &site{t: t, where: filepath.Join(t.TempDir(), "pawl.db"), seen: make(chan string, 100), required: true, sockets: openShop(t), crews: []*crew.Crew{openCrew(t)}, loads: openLoads(t)}}
	g.examine = func() []health.Finding { return nil }
	g.open()
	t.Cleanup(func() { g.close() })
	var d struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(g.site.want(200, "GET", "/openapi.json", "").body, &d); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(d.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(d.Paths[path])) {
			o := guardedOperation{method: strings.ToUpper(method), path: path}
			var role struct {
				Role pawl.Role `json:"x-pawl-role"`
			}
			if err := json.Unmarshal(d.Paths[path][method], &o); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(d.Paths[path][method], &role); err != nil {
				t.Fatal(err)
			}
			o.Role = role.Role
			g.operations = append(g.operations, o)
		}
	}
	return g
}

// token makes a token, as "pawl token create" does, and returns its secret and its id.
func (g *guarded) token(name string, workspaces []string, roles ...pawl.Role) (secret, id string) {
	g.t.Helper()
	made, err := g.engine.CreateToken(g.t.Context(), pawl.TokenPlan{Name: name, Roles: roles, Workspaces: workspaces}, pawl.Change{Actor: "test"})
	if err != nil {
		g.t.Fatal(err)
	}
	return made.Secret, made.ID
}

// as sends a request with the secret of a token.
func (g *guarded) as(secret, method, path, body string, headers ...string) *answer {
	g.t.Helper()
	if secret != "" {
		headers = append(headers, "Authorization", "Bearer "+secret)
	}
	return g.do(method, path, body, headers...)
}

// ask sends a request of an operation. Of a stream that does not end only the status is read.
func (g *guarded) ask(secret string, o *guardedOperation, path, body string) *answer {
	g.t.Helper()
	if o.ID != "stream-events" && o.ID != "follow-step-log" && o.ID != "follow-load-run" {
		return g.as(secret, o.method, path, body)
	}
	r, err := http.NewRequestWithContext(g.t.Context(), o.method, g.url+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // nobody reads on
	b := []byte("{}")
	if resp.StatusCode != http.StatusOK {
		if b, err = io.ReadAll(resp.Body); err != nil {
			g.t.Fatal(err)
		}
	}
	return &answer{resp.StatusCode, resp.Header, bytes.TrimSpace(b)}
}

// bodies are what makes a request of an operation valid; other operations need none, or {}.
// WORKSPACE, WORKER, JOB and SECRET stand for those of the request.
var bodies = map[string]string{
	"submit-job":        `{"workflow":"order","workspace_id":"WORKSPACE"}`,
	"submit-jobs":       `{"jobs":[{"workflow":"order","workspace_id":"WORKSPACE"}]}`,
	"retry-job":         `{}`,
	"check-submission":  `{"workflow":"order","workspace_id":"WORKSPACE"}`,
	"move-job":          `{"version":1}`,
	"signal-job":        `{"name":"paid"}`,
	"redact-job":        `{"reason":"r"}`,
	"resolve-step":      `{"output":1}`,
	"register-workflow": `{"source":"name: other\nsteps: [{id: a, run: x}]\n","workspace_id":"WORKSPACE"}`,
	"plan-workflow":     `{"source":"name: order\nsteps: [{id: a, run: x}]\n","workspace_id":"WORKSPACE"}`,
	"verify-workflow":   `{"source":"name: other\nsteps: [{id: a, run: x}]\n"}`,
	"simulate-workflow": `{"source":"name: other\nsteps: [{id: a, run: x}]\n"}`,
	"validate-workflow": `{"source":"name: other\nsteps: [{id: a, run: x}]\n"}`,
	"create-schedule":   `{"name":"again","workflow":"order","cron":"@daily","workspace_id":"WORKSPACE"}`,
	"replace-schedule":  `{"workflow":"order","cron":"@hourly"}`,
	"preview-schedule":  `{"cron":"@daily"}`,
	"change-jobs":       `{"jobs":["JOB"],"workspace_id":"WORKSPACE"}`,
	"set-quota":         `{"slots":3}`,

	"assign-crew-member":          `{"task":"t2"}`,
	"request-changes-crew-member": `{"reason":"no"}`,

	"set-quotas":       `{"quotas":[{"name":"queue/a","slots":2}]}`,
	"preset-quotas":    `{"preset":"hierarchy"}`,
	"terminate-worker": `{"reason":"r"}`,
	"create-token":     `{"name":"another","roles":["viewer"]}`,
	"sign-in":          `{"token":"SECRET"}`,
	"create-webhook":   `{"name":"another","url":"https://example.com/","workspace_id":"WORKSPACE"}`,
	"replace-webhook":  `{"url":"https://example.com/"}`,

	"allocate-resources": `{"worker_count":1,"ttl_s":1,"workspace_id":"WORKSPACE"}`,
	"release-resources":  `{"reservation_id":"r_019ac1f0a3c47d5e8f00112233445566","workspace_id":"WORKSPACE"}`,
	"prune":              `{"older_than":"720h"}`,
	"register-worker":    `{"name":"far","workspace_id":"WORKSPACE"}`,
	"exchange":           `{"turn":1}`,
	"claim-steps":        `{"turn":2}`,
	"complete-step":      `{"worker_id":"WORKER","claim":1}`,
	"fail-step":          `{"worker_id":"WORKER","claim":1,"error":{"message":"no"}}`,
	"release-step":       `{"worker_id":"WORKER","claim":1}`,
	"find-ended-jobs":    `{"jobs":["JOB"]}`,
}

// A target is what requests name.
type target struct {
	workspace string
	byPath    map[string]string // what stands for {id} of a path, by the segment before it
	byQuery   map[string]string // values of required parameters
	secret    string            // of a token
}

// request returns the path and the body of a request of an operation to a target.
func (to *target) request(o *guardedOperation) (path, body string) {
	segments := strings.Split(o.path, "/")
	for i, s := range segments {
		if !strings.HasPrefix(s, "{") {
			continue
		}
		segments[i] = map[string]string{"{kind}": "queue", "{version}": "1"}[s]
		if segments[i] == "" {
			segments[i] = to.byPath[segments[i-1]]
		}
	}
	var query []string
	for _, p := range o.Parameters {
		switch {
		case p.In != "query":
		case p.Name == "workspace_id":
			query = append(query, "workspace_id="+to.workspace)
		case p.Required:
			query = append(query, p.Name+"="+to.byQuery[p.Name])
		}
	}
	body = bodies[o.ID]
	if body == "" && o.method == "POST" {
		body = "{}"
	}
	return strings.Join(segments, "/") + "?" + strings.Join(query, "&"), strings.NewReplacer("WORKSPACE", to.workspace, "WORKER", to.byPath["workers"], "JOB", to.byPath["jobs"], "SECRET", to.secret).Replace(body)
}

// records makes a record of each kind in the workspace default.
func (g *guarded) records(admin string) *target {
	g.t.Helper()
	ok := func(a *answer) *answer {
		g.t.Helper()
		if a.status >= 300 {
			g.t.Fatalf("%d %s", a.status, a.body)
		}
		return a
	}
	id := func(a *answer) string { return ok(a).field(g.t, "id").(string) }
	ok(g.as(admin, "POST", "/api/workflows", text(map[string]any{"source": order})))
	job := id(g.as(admin, "POST", "/api/jobs", `{"workflow":"order"}`))
	ok(g.as(admin, "POST", "/api/schedules", `{"name":"nightly","workflow":"order","cron":"@daily"}`))
	ok(g.as(admin, "PUT", "/api/resources/quotas/queue/billing", `{"slots":3}`))
	step := ok(g.as(admin, "GET", "/api/jobs/"+job+"/steps", "")).field(g.t, "items.0.id").(string)
	worker := ok(g.as(admin, "GET", "/api/workers", "")).field(g.t, "items.0.id").(string)
	_, token := g.token("victim", nil, pawl.RoleViewer)
	secret, _ := g.token("visitor", nil, pawl.RoleViewer)
	webhook := id(g.as(admin, "POST", "/api/webhooks", `{"name":"clerk","url":"http://127.0.0.1:1/","workspace_id":"default"}`))
	return &target{secret: secret, workspace: "default", byQuery: map[string]string{"entity": job, "q": "nothing", "job_id": job, "a": job, "b": job, "older_than": "720h", "claim": "1", "offset": "0"},
		byPath: map[string]string{"jobs": job, "steps": step, "workers": worker, "tokens": token, "webhooks": webhook, "deliveries": "1", "workflows": "order", "schedules": "nightly", "machines": "job", "hosts": "shop", "bulk": "pause", "queues": "billing", "services": "web", "queue": "billing", "members": "auth", "runs": "now"}}
}

// missing is a target that does not exist, of the same form.
func (to *target) missing() *target {
	m := &target{secret: to.secret, workspace: "nowhere", byPath: maps.Clone(to.byPath), byQuery: maps.Clone(to.byQuery)}
	for _, in := range []map[string]string{m.byPath, m.byQuery} {
		for name, v := range in {
			if strings.Contains(v, "_") {
				in[name] = v[:len(v)-14] + "76543210fedcba"
			}
		}
	}
	return m
}

// TestOtherWorkspaces: to a token of another workspace, and for every operation, what exists
// is like what does not (J4).
func TestOtherWorkspaces(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	defer g.work()()
	admin, _ := g.token("admin", nil, pawl.RoleAdmin)
	to := g.records(admin)
	none := to.missing()
	for _, workspaces := range [][]string{{"elsewhere"}, {"elsewhere", "further"}} {
		foreign, _ := g.token(strings.Join(workspaces, "."), workspaces, pawl.RoleAdmin)
		for i := range g.operations {
			o := &g.operations[i]
			path, body := to.request(o)
			a := g.ask(foreign, o, path, body)
			named := strings.Contains(path, "workspace_id=") || strings.Contains(body, "workspace_id") ||
				strings.Contains(o.path, "{") && !strings.HasPrefix(o.path, "/api/machines") || strings.Contains(path, "job_id=") || strings.HasPrefix(path, "/api/diff") || strings.Contains(path, "entity=")
			switch {
			case o.Everywhere:
				if a.status != http.StatusForbidden {
					t.Errorf("%s: %d %s, want 403", o.ID, a.status, a.body)
				}
				continue
			case o.ID == "submit-jobs":
				if code := a.field(t, "items.0.problem.code"); code != "NOT_FOUND" {
					t.Errorf("%s: %s, want an item that is not found", o.ID, a.body)
				}
			case named && a.status != http.StatusNotFound:
				t.Errorf("%s %s: %d %s, want 404", o.method, path, a.status, a.body)
			case !named && a.status >= 300:
				t.Errorf("%s %s: %d %s, want a success", o.method, path, a.status, a.body)
			case strings.HasPrefix(o.path, "/api/session"):
				continue // it is about the caller, and has the time in it
			}
			path, body = none.request(o)
			if diff := cmp.Diff(to.neutral(g.ask(foreign, o, path, body), none), to.neutral(a, to)); diff != "" {
				t.Errorf("%s: what is elsewhere differs from what is nowhere (-nowhere +elsewhere):\n%s", o.ID, diff)
			}
			// Lists that name no workspace.
			if bare, _, _ := strings.Cut(path, "?"); named && o.method == "GET" && !strings.Contains(o.path, "{") && !strings.Contains(path, "job_id") && o.ID != "compare-jobs" && o.ID != "search" && o.ID != "list-quotas" && o.ID != "get-usage" {
				all := g.ask(foreign, o, bare, "")
				mine := all.status == http.StatusOK || all.status == http.StatusNotFound && strings.Contains(string(all.body), "workspace") // of "default"
				if !mine || strings.Contains(string(all.body), "order") || strings.Contains(string(all.body), "clerk") || strings.Contains(string(all.body), `"PENDING":1`) || strings.Contains(string(all.body), `"RUNNING":1`) {
					t.Errorf("%s %s shows what is elsewhere: %d %s", o.method, bare, all.status, all.body)
				}
			}
		}
	}
	if j := g.as(admin, "GET", "/api/jobs/"+to.byPath["jobs"], ""); j.status != 200 || j.field(t, "status") == "CANCELED" {
		t.Errorf("the job is not as it was: %s", j.body)
	}
}

// neutral returns an answer without the names of its target, and what differs by itself.
func (to *target) neutral(a *answer, of *target) string {
	s := string(a.body)
	for _, in := range []map[string]string{of.byPath, of.byQuery} {
		for name, v := range in {
			if strings.Contains(v, "_") {
				s = strings.ReplaceAll(s, v, "ID-"+strings.TrimSuffix(name, "_id"))
			}
		}
	}
	s = strings.NewReplacer(`"`+of.workspace+`"`, "WORKSPACE", `\"`+of.workspace+`\"`, "WORKSPACE", a.header.Get("Request-Id"), "REQUEST").Replace(s)
	return fmt.Sprint(a.status, s)
}

// TestRoles: each operation is done for who has its role, and for nobody else (J4).
func TestRoles(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	defer g.work()()
	admin, _ := g.token("admin", nil, pawl.RoleAdmin)
	to := g.records(admin)
	included := map[pawl.Role][]pawl.Role{
		"viewer": {"viewer"}, "operator": {"viewer", "operator"}, "worker": {"worker"}, "admin": {"viewer", "operator", "worker", "admin"},
	}
	for i := range g.operations {
		o := &g.operations[i]
		path, body := to.request(o)
		if a := g.ask("", o, path, body); (a.status == http.StatusUnauthorized) != (o.Role != "anybody") || a.status == http.StatusForbidden {
			t.Errorf("%s without a token: %d %s", o.ID, a.status, a.body)
		}
	}
	for role, includes := range included {
		secret, _ := g.token("only-"+string(role), nil, role)
		for i := range g.operations {
			o := &g.operations[i]
			path, body := to.request(o)
			a := g.ask(secret, o, path, body)
			may := o.Role == "anybody" || slices.Contains(includes, o.Role)
			if a.status == http.StatusUnauthorized || (a.status != http.StatusForbidden) != may || a.status >= 500 {
				t.Errorf("%s as %s: %d %s; may is %v", o.ID, role, a.status, a.body, may)
			}
			if may {
				continue // the answer may be anything
			}
			if detail, _ := a.field(t, "detail").(string); !strings.Contains(detail, " "+string(o.Role)) || !strings.HasSuffix(detail, " has "+string(role)) {
				t.Errorf("%s as %s: %q, want the role that it needs and those of the caller", o.ID, role, detail)
			}
		}
	}
}

// TestSignIn: who the server takes a caller for, and whom it does not let in.
func TestSignIn(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	admin, _ := g.token("admin", nil, pawl.RoleAdmin)
	ci, id := g.token("ci", []string{"builds"}, pawl.RoleOperator)

	who := g.as(ci, "GET", "/api/whoami", "")
	want := map[string]any{"actor": "token:ci", "roles": []any{"viewer", "operator"}, "workspaces": []any{"builds"}, "token_id": id, "expires_at": nil}
	var got map[string]any
	if err := json.Unmarshal(who.body, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("whoami (-want +got):\n%s", diff)
	}

	// The actor is the principal.
	made := g.as(ci, "POST", "/api/jobs", text(map[string]any{"source": order, "workspace_id": "builds"}))
	if made.status != 201 || made.field(t, "actor") != "token:ci" {
		t.Errorf("%d %s", made.status, made.body)
	}
	for actor, status := range map[string]int{"token:ci": 200, "ada": 422, "token:admin": 422} {
		if a := g.as(ci, "GET", "/api/whoami", "", "Pawl-Actor", actor); a.status != status {
			t.Errorf("as %s: %d, want %d", actor, a.status, status)
		}
	}

	// A key belongs to who used it first.
	keyed := text(map[string]any{"source": order, "workspace_id": "builds", "request_id": "k-1"})
	first, again := g.as(ci, "POST", "/api/jobs", keyed), g.as(ci, "POST", "/api/jobs", keyed)
	if first.status != 201 || string(first.body) != string(again.body) || again.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	if other := g.as(admin, "POST", "/api/jobs", keyed); other.status != 422 || other.field(t, "code") != "KEY_REUSED" {
		t.Errorf("another's key: %d %s", other.status, other.body)
	}

	// Revocation takes effect at once here.
	if a := g.as(admin, "POST", "/api/tokens/"+id+"/revoke", `{"reason":"it leaked"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	refused := g.as(ci, "GET", "/api/whoami", "")
	if refused.status != 401 || refused.header.Get("WWW-Authenticate") != "Bearer" || refused.field(t, "code") != "UNAUTHENTICATED" {
		t.Errorf("revoked: %d %v %s", refused.status, refused.header, refused.body)
	}

	// Bad ones are counted, and do not lock out the good ones.
	statuses := map[int]int{}
	for range 12 {
		a := g.as(admin[:len(admin)-1]+"x", "GET", "/api/whoami", "")
		statuses[a.status]++
		if a.status == 429 && a.header.Get("Retry-After") == "" {
			t.Error("429 without Retry-After")
		}
	}
	if statuses[401] < 9 || statuses[429] == 0 { // and the revoked one
		t.Errorf("12 bad tokens: %v", statuses)
	}
	if a := g.as(admin, "GET", "/api/whoami", ""); a.status != 200 {
		t.Errorf("a good one meanwhile: %d %s", a.status, a.body)
	}
	for _, header := range []string{"Basic " + admin, "Bearer", admin, "Bearer  " + admin} {
		if a := g.do("GET", "/api/whoami", "", "Authorization", header); a.status != 401 && a.status != 429 {
			t.Errorf("Authorization: %s: %d", header, a.status)
		}
	}
}

// TestLoopbackWithoutTokens: without a token a caller has all roles, unless tokens are
// required; a bad token is refused in any case.
func TestLoopbackWithoutTokens(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	who := s.want(200, "GET", "/api/whoami", "", "Pawl-Actor", "ada")
	if len(who.field(t, "roles").([]any)) != 4 || who.field(t, "actor") != "ada" {
		t.Errorf("%s", who.body)
	}
	s.want(401, "GET", "/api/whoami", "", "Authorization", "Bearer nonsense")
	s.want(422, "GET", "/api/whoami", "", "Pawl-Actor", "token:ada")
}

// TestOwnWorkers: a token with the role worker acts for the workers that it has registered, and
// for no others; an admin acts for all.
func TestOwnWorkers(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	admin, _ := g.token("admin", nil, pawl.RoleAdmin)
	one, _ := g.token("one", nil, pawl.RoleWorker)
	other, _ := g.token("other", nil, pawl.RoleWorker)
	ok := func(a *answer) *answer {
		t.Helper()
		if a.status >= 300 {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return a
	}
	worker := ok(g.as(one, "POST", "/api/workers", `{"handlers":["far"],"capacity":1}`)).field(t, "id").(string)
	at := "/api/workers/" + worker
	ok(g.as(admin, "POST", "/api/jobs", text(map[string]any{"source": "name: far\nsteps: [{id: a, handler: far}]\n"})))
	step := ok(g.as(one, "POST", at+"/exchange", `{"turn":1,"free":1}`)).field(t, "steps.0.step_id").(string)
	report := fmt.Sprintf(`{"worker_id":%q,"claim":1}`, worker)
	for path, body := range map[string]string{
		at + "/exchange": `{"turn":2,"free":1}`, at + "/claim": `{"turn":2}`, at + "/heartbeat": `{}`, at + "/pause": `{}`, at + "/complete": `{}`,
		"/api/steps/" + step + "/complete": report, "/api/steps/" + step + "/release": report,
	} {
		if a := g.as(other, "POST", path, body); a.status != http.StatusNotFound {
			t.Errorf("%s of another token: %d %s, want 404", path, a.status, a.body)
		}
	}
	own := ok(g.as(other, "POST", "/api/workers", `{}`)).field(t, "id").(string)
	foreign := fmt.Sprintf(`{"turn":1,"reports":[{"step_id":%q,"claim":1,"outcome":"complete"}]}`, step)
	if result := ok(g.as(other, "POST", "/api/workers/"+own+"/exchange", foreign)).field(t, "results.0"); result != "stale" {
		t.Errorf("a report on the step of another worker is %v, want stale", result)
	}
	ok(g.as(one, "POST", at+"/heartbeat", `{}`))
	ok(g.as(one, "POST", "/api/steps/"+step+"/complete", report))
	ok(g.as(admin, "POST", at+"/heartbeat", `{}`))
}

// TestAWorkerNeedsItsRoleAlone: a worker over HTTP lives with a token of the role worker, its
// end included.
func TestAWorkerNeedsItsRoleAlone(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	admin, _ := g.token("admin", nil, pawl.RoleAdmin)
	secret, _ := g.token("far", nil, pawl.RoleWorker)
	c, err := client.Open(t.Context(), g.url, client.Config{Token: secret})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := worker.New(c, worker.Config{Name: "far", Poll: 20 * time.Millisecond, Beat: 100 * time.Millisecond, Silence: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	worker.Handle(w, "far", func(context.Context, any) (string, error) { return "done", nil })
	over := make(chan error, 1)
	go func() { over <- w.Run(t.Context()) }()
	job := g.as(admin, "POST", "/api/jobs", text(map[string]any{"source": "name: far\nsteps: [{id: a, handler: far}]\n"})).field(t, "id").(string)
	if status := g.as(admin, "GET", "/api/jobs/"+job+"?wait=ended", "").field(t, "status"); status != "COMPLETED" {
		t.Errorf("the job is %v", status)
	}
	id := g.as(admin, "GET", "/api/workers", "").field(t, "items.0.id").(string)
	if a := g.as(admin, "POST", "/api/supervisor/workers/"+id+"/terminate", `{"reason":"enough"}`); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	var ended *worker.TerminatedError
	if err := <-over; !errors.As(err, &ended) || ended.Reason != "enough" || ended.Actor != "token:admin" {
		t.Errorf("the worker ends with %v, want that token:admin has ended it: enough", err)
	}
}

// browser is how a browser uses a session.
func (g *guarded) browser(cookie, method, path, body string, headers ...string) *answer {
	g.t.Helper()
	name, value, _ := strings.Cut(cookie, "=")
	value, _, _ = strings.Cut(value, ";")
	return g.do(method, path, body, append(headers, "Cookie", name+"="+value)...)
}

// TestSessions: a browser signs in with a token, and acts as that token until it signs out or
// the token ends. A page of another site cannot use the session.
func TestSessions(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	admin, _ := g.token("admin", nil, pawl.RoleAdmin)
	ci, id := g.token("ci", nil, pawl.RoleOperator)
	signIn := func(secret string) (cookie string) {
		t.Helper()
		a := g.do("POST", "/api/session", text(map[string]any{"token": secret}))
		if a.status != 201 || a.field(t, "actor") != "token:ci" || a.field(t, "token_id") != id {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return a.header.Get("Set-Cookie")
	}
	if nobody := g.do("GET", "/api/session", ""); nobody.status != 200 || len(nobody.field(t, "roles").([]any)) != 0 {
		t.Errorf("nobody: %d %s", nobody.status, nobody.body)
	}
	cookie := signIn(ci)
	if !strings.HasPrefix(cookie, "pawl_session=pawl_") || !strings.HasSuffix(cookie, "; HttpOnly; SameSite=Strict") || strings.Contains(cookie, ci) {
		t.Errorf("the cookie is %s", cookie)
	}
	made := g.browser(cookie, "POST", "/api/jobs", text(map[string]any{"source": order}), "Sec-Fetch-Site", "same-origin")
	if made.status != 201 || made.field(t, "actor") != "token:ci" {
		t.Errorf("a job of the session: %d %s", made.status, made.body)
	}
	for _, site := range []string{"cross-site", "same-site"} {
		if a := g.browser(cookie, "POST", "/api/jobs", text(map[string]any{"source": order}), "Sec-Fetch-Site", site); a.status != 403 {
			t.Errorf("a write of a %s page: %d %s", site, a.status, a.body)
		}
	}
	if a := g.browser(cookie, "GET", "/api/tokens", ""); a.status != 403 {
		t.Errorf("what the token may not: %d %s", a.status, a.body)
	}
	secret, _, _ := strings.Cut(strings.TrimPrefix(cookie, "pawl_session="), ";")
	if a := g.as(secret, "GET", "/api/whoami", ""); a.status != 401 {
		t.Errorf("the session as a token: %d %s", a.status, a.body)
	}

	// A code signs in, too.
	code := g.as(ci, "POST", "/api/session/codes", "")
	if code.status != 201 {
		t.Fatalf("%d %s", code.status, code.body)
	}
	other := signIn(code.field(t, "code").(string))
	if a := g.browser(other, "POST", "/api/session/codes", ""); a.status != 409 {
		t.Errorf("a code for a session: %d %s", a.status, a.body)
	}

	out := g.browser(cookie, "DELETE", "/api/session", "")
	if out.status != 204 || !strings.Contains(out.header.Get("Set-Cookie"), "Max-Age=0") {
		t.Errorf("signed out: %d %v", out.status, out.header)
	}
	if a := g.browser(cookie, "GET", "/api/whoami", ""); a.status != 401 {
		t.Errorf("after that: %d %s", a.status, a.body)
	}
	if a := g.browser(other, "GET", "/api/whoami", ""); a.status != 200 {
		t.Errorf("the other session: %d %s", a.status, a.body)
	}
	if a := g.as(admin, "POST", "/api/tokens/"+id+"/revoke", "{}"); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := g.browser(other, "GET", "/api/whoami", ""); a.status != 401 {
		t.Errorf("after its token was revoked: %d %s", a.status, a.body)
	}
}

// TestScopedWebhooks: who is of some workspaces makes webhooks of these, and none that reach the
// programs of the server's machine (J4).
func TestScopedWebhooks(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	scoped, _ := g.token("scoped", []string{"builds"}, pawl.RoleAdmin)
	admin, _ := g.token("admin", nil, pawl.RoleAdmin)
	for body, status := range map[string]int{
		`{"name":"a","url":"https://example.com/","workspace_id":"builds"}`:   201,
		`{"name":"b","url":"https://example.com/"}`:                           403,
		`{"name":"c","url":"https://example.com/","workspace_id":"default"}`:  404,
		`{"name":"d","url":"http://127.0.0.1:7295/","workspace_id":"builds"}`: 403,
		`{"name":"e","url":"https://LocalHost/","workspace_id":"builds"}`:     403,
	} {
		if a := g.as(scoped, "POST", "/api/webhooks", body); a.status != status {
			t.Errorf("%s: %d %s, want %d", body, a.status, a.body, status)
		}
	}
	own := g.as(scoped, "GET", "/api/webhooks", "").field(t, "items.0.id").(string)
	for body, status := range map[string]int{
		`{"url":"https://example.com/new"}`:                                            200,
		`{"url":"https://127.0.0.1/"}`:                                                 403,
		`{"url":"https://example.com/","job_id":"j_019ac1f0a3c47d5e8f00112233445566"}`: 404,
	} {
		if a := g.as(scoped, "PUT", "/api/webhooks/"+own, body); a.status != status {
			t.Errorf("replaced by %s: %d %s, want %d", body, a.status, a.body, status)
		}
	}
	everywhere := g.as(admin, "POST", "/api/webhooks", `{"name":"all","url":"http://127.0.0.1:1/"}`)
	if everywhere.status != 201 {
		t.Fatalf("%d %s", everywhere.status, everywhere.body)
	}
	id := everywhere.field(t, "id").(string)
	if a := g.as(scoped, "GET", "/api/webhooks/"+id, ""); a.status != 404 {
		t.Errorf("one of all workspaces: %d %s, want 404", a.status, a.body)
	}
	if a := g.as(scoped, "PUT", "/api/webhooks/"+id, `{"url":"https://example.com/"}`); a.status != 404 {
		t.Errorf("one of all workspaces is replaced: %d %s, want 404", a.status, a.body)
	}
	if list := g.as(scoped, "GET", "/api/webhooks", ""); list.status != 200 || strings.Contains(string(list.body), id) || !strings.Contains(string(list.body), `"name":"a"`) {
		t.Errorf("the list: %d %s", list.status, list.body)
	}
}
