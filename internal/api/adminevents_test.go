package api_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
)

// TestEventsOfAdmins: moves of webhooks are in the streams of admins who see their workspace, and
// moves of tokens in those of admins of all workspaces; nobody else sees either, and who asks for
// them by name is refused (J4, J11).
func TestEventsOfAdmins(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	defer g.work()()
	admin, _ := g.token("admin", nil, pawl.RoleAdmin)
	post := func(secret, path, body string) {
		t.Helper()
		if a := g.as(secret, "POST", path, body); a.status >= 300 {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
	}
	post(admin, "/api/workflows", text(map[string]any{"source": order}))
	post(admin, "/api/workflows", text(map[string]any{"source": order, "workspace_id": "elsewhere"}))

	both := []string{"default", "elsewhere"}
	listeners := map[string]*listener{}
	want := map[string][]string{} // the machines of admins, and the names, that a listener sees
	for name, as := range map[string]struct {
		workspaces []string
		roles      []pawl.Role
		sees       []string
	}{
		"admin of all":        {nil, []pawl.Role{pawl.RoleAdmin}, []string{"token late", "webhook all", "webhook here", "webhook there"}},
		"admin of default":    {[]string{"default"}, []pawl.Role{pawl.RoleAdmin}, []string{"webhook here"}},
		"admin of both":       {both, []pawl.Role{pawl.RoleAdmin}, []string{"webhook here", "webhook there"}},
		"viewer of all":       {nil, []pawl.Role{pawl.RoleViewer}, nil},
		"operator of all":     {nil, []pawl.Role{pawl.RoleOperator, pawl.RoleWorker}, nil},
		"viewer of default":   {[]string{"default"}, []pawl.Role{pawl.RoleViewer}, nil},
		"operator of default": {[]string{"default"}, []pawl.Role{pawl.RoleOperator}, nil},
	} {
		secret, _ := g.token(string(as.roles[0])+"."+string(rune('a'+len(want))), as.workspaces, as.roles...)
		listeners[name], want[name] = g.listen("", "Authorization", "Bearer "+secret), as.sees
		for _, machine := range []string{"token", "webhook"} {
			status := 403
			if machine == "token" && name == "admin of all" || machine == "webhook" && as.roles[0] == pawl.RoleAdmin {
				status = 200
			}
			if a := g.ask(secret, &guardedOperation{ID: "stream-events", method: "GET"}, "/api/events?machine=job,"+machine, ""); a.status != status {
				t.Errorf("%s asks for moves of a %s: %d %s, want %d", name, machine, a.status, a.body, status)
			}
		}
		if a := g.ask(secret, &guardedOperation{ID: "stream-events", method: "GET"}, "/api/events?topics=tokens,webhooks,machines", ""); a.status != 200 {
			t.Errorf("%s asks for topics: %d", name, a.status)
		}
	}
	g.token("late", nil, pawl.RoleViewer)
	post(admin, "/api/webhooks", `{"name":"all","url":"https://example.com/"}`)
	post(admin, "/api/webhooks", `{"name":"here","url":"https://example.com/","workspace_id":"default"}`)
	post(admin, "/api/webhooks", `{"name":"there","url":"https://example.com/","workspace_id":"elsewhere"}`)
	post(admin, "/api/jobs", `{"workflow":"order"}`) // the last that all of them see
	for name, l := range listeners {
		list, _ := l.until(func(e *pawl.Event) bool { return e.Machine == "job" && e.Workspace == "default" })
		var seen []string
		for _, e := range list {
			if e.Machine == "token" || e.Machine == "webhook" {
				seen = append(seen, e.Machine+" "+e.Name)
			}
		}
		slices.Sort(seen)
		seen = slices.DeleteFunc(seen, func(s string) bool { // tokens of later listeners
			return len(s) > 6 && s[:6] == "token " && s != "token late"
		})
		if diff := cmp.Diff(want[name], seen); diff != "" {
			t.Errorf("%s sees (-want +got):\n%s", name, diff)
		}
	}
}
