package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
)

// moves reads all pages of a list of moves.
func (g *guarded) moves(secret, query string, limit int) (all []pawl.Move) {
	g.t.Helper()
	for cursor := ""; ; {
		a := g.as(secret, "GET", fmt.Sprintf("/api/audit?%s&limit=%d&cursor=%s", query, limit, cursor), "")
		var page struct {
			Items []pawl.Move `json:"items"`
			Next  string      `json:"next"`
		}
		if err := json.Unmarshal(a.body, &page); err != nil || a.status != 200 {
			g.t.Fatalf("%s: %d %s", query, a.status, a.body)
		}
		if all = append(all, page.Items...); page.Next == "" {
			return all
		}
		cursor = page.Next
	}
}

func machinesOf(moves []pawl.Move) []string {
	var names []string
	for i := range moves {
		names = append(names, moves[i].Machine)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestAuditList: who did what, by actor, machine, entity and time, newest first, in pages that
// have everything once (K6); each caller sees its workspaces, and only admins see tokens and
// webhooks (J4).
func TestAuditList(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	defer g.work()()
	admin, _ := g.token("admin", nil, pawl.RoleAdmin)
	viewer, _ := g.token("viewer", nil, pawl.RoleViewer)
	foreign, _ := g.token("foreign", []string{"elsewhere"}, pawl.RoleAdmin)
	to := g.records(admin)
	for _, step := range []struct{ secret, path, body string }{
		{foreign, "/api/workflows", text(map[string]any{"source": order, "workspace_id": "elsewhere"})},
		{foreign, "/api/jobs", `{"workflow":"order","workspace_id":"elsewhere"}`},
		{foreign, "/api/webhooks", `{"name":"theirs","url":"https://example.com/","workspace_id":"elsewhere"}`},
		{admin, "/api/jobs/" + to.byPath["jobs"] + "/cancel", `{"reason":"enough"}`},
		{admin, "/api/queues/billing/pause", `{}`},
	} {
		if a := g.as(step.secret, "POST", step.path, step.body); a.status >= 300 {
			t.Fatalf("%s: %d %s", step.path, a.status, a.body)
		}
	}
	seconds := time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano) // what comes later is not of this list
	all := g.moves(admin, "to="+url.QueryEscape(seconds), 100)
	if diff := cmp.Diff(all, g.moves(admin, "to="+url.QueryEscape(seconds), 3)); diff != "" {
		t.Errorf("pages of 3 differ:\n%s", diff)
	}
	if !slices.IsSortedFunc(all, func(a, b pawl.Move) int { return int(b.At - a.At) }) {
		t.Error("not the newest first")
	}
	g.chained(all)

	for what, tt := range map[string]struct {
		secret, query string
		machines      []string
		is            func(*pawl.Move) bool
	}{
		"an admin":               {admin, "", []string{"job", "queue_pause", "schedule", "step", "token", "webhook", "worker"}, func(*pawl.Move) bool { return true }},
		"a viewer":               {viewer, "", []string{"job", "queue_pause", "schedule", "step", "worker"}, func(m *pawl.Move) bool { return m.Name != "victim" && m.Name != "theirs" }},
		"an admin of another":    {foreign, "", []string{"job", "step", "webhook"}, func(m *pawl.Move) bool { return m.Workspace == "elsewhere" }},
		"one workspace":          {admin, "workspace_id=default", []string{"job", "queue_pause", "schedule", "step", "webhook", "worker"}, func(m *pawl.Move) bool { return m.Workspace == "default" }},
		"an actor":               {admin, "actor=token:admin", []string{"job", "queue_pause", "schedule", "step", "webhook"}, func(m *pawl.Move) bool { return m.Actor == "token:admin" }},
		"machines":               {viewer, "machine=job,schedule", []string{"job", "schedule"}, func(m *pawl.Move) bool { return true }},
		"tokens":                 {admin, "machine=token", []string{"token"}, func(m *pawl.Move) bool { return m.Workspace == "" }},
		"an entity":              {viewer, "entity=" + to.byPath["jobs"], []string{"job"}, func(m *pawl.Move) bool { return m.Entity == to.byPath["jobs"] && m.Name == "order" }},
		"a step":                 {viewer, "entity=" + to.byPath["steps"], []string{"step"}, func(m *pawl.Move) bool { return m.Step != "" && m.JobID == to.byPath["jobs"] }},
		"a webhook":              {admin, "entity=" + to.byPath["webhooks"], []string{"webhook"}, func(m *pawl.Move) bool { return m.Name == "clerk" }},
		"a token":                {admin, "entity=" + to.byPath["tokens"], []string{"token"}, func(m *pawl.Move) bool { return m.Name == "victim" }},
		"a job of an actor":      {viewer, "actor=token:admin&entity=" + to.byPath["jobs"], []string{"job"}, func(m *pawl.Move) bool { return m.Actor == "token:admin" }},
		"an event":               {viewer, "event=cancel", []string{"job", "step"}, func(m *pawl.Move) bool { return m.Event == "cancel" }},
		"a state":                {viewer, "state=CANCELED&machine=job", []string{"job"}, func(m *pawl.Move) bool { return m.To == "CANCELED" }},
		"an event of a job":      {viewer, "event=cancel&entity=" + to.byPath["jobs"], []string{"job"}, func(m *pawl.Move) bool { return m.Event == "cancel" && m.Entity == to.byPath["jobs"] }},
		"before there was one":   {admin, "to=2020-01-01T00:00:00Z", nil, nil},
		"after everything":       {admin, "from=2090-01-01T00:00:00Z", nil, nil},
		"since, and an actor":    {viewer, "from=2020-01-01T00:00:00Z&machine=job&actor=token:admin", []string{"job"}, func(m *pawl.Move) bool { return m.Actor == "token:admin" }},
		"one of a scoped caller": {foreign, "workspace_id=elsewhere&machine=webhook", []string{"webhook"}, func(m *pawl.Move) bool { return m.Name == "theirs" }},
	} {
		got := g.moves(tt.secret, tt.query, 100)
		if diff := cmp.Diff(tt.machines, machinesOf(got)); diff != "" {
			t.Errorf("%s: machines (-want +got):\n%s", what, diff)
		}
		for i := range got {
			if !tt.is(&got[i]) {
				t.Errorf("%s: %+v", what, got[i])
			}
		}
	}

	for _, refused := range []struct {
		secret, query string
		status        int
		says          string
	}{
		{viewer, "machine=token", 403, "token"},
		{viewer, "machine=job,webhook", 403, "webhook"},
		{foreign, "machine=token", 403, "all workspaces"},
		{foreign, "workspace_id=default", 404, "default"},
		{foreign, "entity=" + to.byPath["jobs"], 404, to.byPath["jobs"]},
		{foreign, "entity=" + to.byPath["webhooks"], 404, to.byPath["webhooks"]},
		{viewer, "entity=" + to.byPath["webhooks"], 404, to.byPath["webhooks"]},
		{viewer, "entity=" + to.byPath["tokens"], 404, to.byPath["tokens"]},
		{foreign, "entity=" + to.byPath["tokens"], 404, to.byPath["tokens"]},
		{admin, "machine=member", 422, "want job, step"},
		{admin, "entity=nothing", 422, "nothing"},
		{admin, "from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", 422, "after from"},
		{admin, "event=explode", 422, "explode"},
		{admin, "state=LOST", 422, "LOST"},
		{admin, "limit=0", 422, "limit"},
		{admin, "cursor=x", 422, "cursor"},
	} {
		a := g.as(refused.secret, "GET", "/api/audit?"+refused.query, "")
		if a.status != refused.status || !strings.Contains(string(a.body), refused.says) {
			t.Errorf("%s: %d %s, want %d with %q", refused.query, a.status, a.body, refused.status, refused.says)
		}
	}
}

// chained checks that each move begins where the one before it of its entity has ended.
func (g *guarded) chained(all []pawl.Move) {
	g.t.Helper()
	states := map[string]string{}
	for _, m := range slices.Backward(all) {
		from, was := "", states[m.Entity]
		if m.From != nil {
			from = string(*m.From)
		}
		if from != was {
			g.t.Errorf("%s %d leads from %q, and the one before it to %q", m.Entity, m.Sequence, from, was)
		}
		states[m.Entity] = string(m.To)
	}
}
