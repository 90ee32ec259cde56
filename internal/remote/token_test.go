package remote_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/bearer"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/remote"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// TestTheTokenIsSent with every request, in place of the actor, to nobody else, and is in no
// error.
func TestTheTokenIsSent(t *testing.T) {
	t.Parallel()
	const token = "pawl_hunter2"
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the server to which it was redirected is asked: %v", r.Header)
	}))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer "+token || r.Header["Pawl-Actor"] != nil || strings.Contains(r.URL.String(), token) {
			t.Errorf("%s: headers %v", r.URL, r.Header)
		}
		switch r.URL.Path {
		case "/api/version":
			fmt.Fprint(w, `{"version":"1","api":1}`)
		case "/api/approvals":
			http.Redirect(w, r, other.URL, http.StatusFound)
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"type":"/problems/unauthenticated","status":401,"code":"UNAUTHENTICATED","detail":"the token is not valid"}`)
		}
	}))
	defer server.Close()
	e, err := remote.Open(t.Context(), server.URL, remote.Config{Token: token})
	must(t, err)
	defer e.Close()
	_, err = e.PauseJob(t.Context(), pawl.ID{}, pawl.Change{Actor: "ada"})
	var refused *pawl.Error
	if !errors.As(err, &refused) || refused.Kind != pawl.Refused || !strings.Contains(refused.Hint, "PAWL_TOKEN") || strings.Contains(fmt.Sprintf("%v %#v", err, refused), token) {
		t.Errorf("%v, want a refusal that says how to name a token", err)
	}
	if _, _, err := e.Approvals(t.Context(), "", "", 0); err == nil || strings.Contains(err.Error(), token) {
		t.Errorf("redirected: %v", err)
	}
}

// TestBadSettings are refused before anything is sent, without the secret in the error.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]remote.Config{"two lines": {Token: "hunter2\nX-Other: 1"}, "a blank": {Token: "hunter2 "}, "no certificate": {CA: []byte("hunter2")}} {
		_, err := remote.Open(t.Context(), "https://127.0.0.1:1", c)
		if pawl.KindOf(err) != pawl.Invalid || strings.Contains(fmt.Sprint(err), "hunter2") {
			t.Errorf("%s: %v, want an error of kind Invalid", what, err)
		}
	}
}

// TestTokensOverHTTP are made, read and revoked as on a local engine, with the same errors.
func TestTokensOverHTTP(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	ada := pawl.Change{Actor: "ada", Reason: "why", RequestID: "t-1"}
	plan := pawl.TokenPlan{Name: "ci", Roles: []pawl.Role{pawl.RoleViewer}, Workspaces: []string{"a", "b"}, ExpiresAt: 4102444800000000}
	var views []pawl.TokenView
	for name, e := range map[string]link.Engine{"local": s.local, "remote": open(t, s.url)} {
		plan.Name, ada.RequestID = name, name
		made, err := e.CreateToken(t.Context(), plan, ada)
		must(t, err)
		id, ok := bearer.Parse(made.Secret)
		if !ok || id.Public(pawl.TokenPrefix) != made.ID || made.To != lifecycle.TokenActive || made.Actor != "ada" {
			t.Errorf("%s: made %+v", name, made)
		}
		if _, err := e.CreateToken(t.Context(), plan, ada); !errors.Is(err, link.ErrSecretShown) || pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("%s: the same request again: %v", name, err)
		}
		v, err := e.Token(t.Context(), id)
		must(t, err)
		views = append(views, *v)
		_, err = e.RevokeToken(t.Context(), id, pawl.Change{Actor: "ada", Reason: "over"})
		must(t, err)
		var refusal *machine.Refusal
		if _, err := e.RevokeToken(t.Context(), id, pawl.Change{Actor: "ada"}); !errors.As(err, &refusal) || refusal.State != lifecycle.TokenRevoked {
			t.Errorf("%s: revoked twice: %v", name, err)
		}
		var events []string
		must(t, e.TokenHistory(t.Context(), id, func(m pawl.Transition) error {
			events = append(events, fmt.Sprint(m.Event, " ", m.Actor, " ", m.Reason))
			return nil
		}))
		if got := strings.Join(events, ", "); got != "create ada why, revoke ada over" {
			t.Errorf("%s: history %s", name, got)
		}
		if active, _, err := e.TokenPage(t.Context(), pawl.TokenQuery{}); err != nil || len(active) != 0 {
			t.Errorf("%s: %v, %v are active", name, active, err)
		}
		if _, err := e.Token(t.Context(), pawl.ID{6: 0x70, 8: 0x80}); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("%s: an unknown one: %v", name, err)
		}
	}
	for i := range views {
		if v := views[i]; v.ExpiresAt != plan.ExpiresAt || len(v.Roles) != 1 || len(v.Workspaces) != 2 {
			t.Errorf("%+v", v)
		}
	}
	all, _, err := open(t, s.url).TokenPage(t.Context(), pawl.TokenQuery{Ended: true})
	if err != nil || len(all) != 2 {
		t.Errorf("%v, %v: want both", all, err)
	}
}

// TestTooMuch: what the server refuses since there is too much of it is sent again, also if it
// may not be sent twice.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	tries := 0
	e := fake(t, func(w http.ResponseWriter, r *http.Request) {
		if tries++; tries < 3 {
			problem(w, http.StatusTooManyRequests, `"code":"RATE_LIMITED","detail":"slowly"`)
			return
		}
		fmt.Fprint(w, `{"id":"sc_1","status":"removed","to_state":"removed","sequence":2}`)
	})
	r, err := e.MoveSchedule(t.Context(), pawl.ScheduleName{Name: "nightly"}, lifecycle.ScheduleRemove, pawl.Change{})
	if err != nil || tries != 3 || r.Sequence != 2 {
		t.Errorf("%+v, %v after %d tries, want the third", r, err, tries)
	}
}
