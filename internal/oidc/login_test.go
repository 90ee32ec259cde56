package oidc_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/oidc"
	"github.com/pawl-dev/pawl/internal/oidc/oidctest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A site has a login, and notes whom it lets in.
type site struct {
	*httptest.Server
	t       *testing.T
	subject string
	plan    pawl.TokenPlan
	refuses error // of each session
	fails   int
}

func (s *site) Open(_ context.Context, subject string, p pawl.TokenPlan) (http.Cookie, error) {
	if s.refuses == nil {
		s.subject, s.plan = subject, p
	}
	return http.Cookie{Name: "pawl_session", Value: "secret", SameSite: http.SameSiteStrictMode}, s.refuses
}

func (s *site) Exhausted(string) bool { return s.fails >= 3 }

func (s *site) Fail(string) { s.fails++ }

func newSite(t *testing.T, c oidc.Config) *site {
	t.Helper()
	s := &site{t: t}
	mux := http.NewServeMux()
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	c.ClientID, c.Secret, c.URL = "pawl", "hush", s.URL
	c.Roles = map[string]pawl.Role{"devs": pawl.RoleOperator, "readers": pawl.RoleViewer}
	login, err := oidc.New(c, s, slog.New(slog.DiscardHandler))
	must(t, err)
	login.Add(mux)
	return s
}

// signIn goes to the login as a browser does. It returns what the browser shows at last.
func (s *site) signIn(query string) (status int, text string, jar http.CookieJar) {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	must(s.t, err)
	r, err := (&http.Client{Jar: jar}).Get(s.URL + "/login" + query)
	must(s.t, err)
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	must(s.t, err)
	return r.StatusCode, string(b), jar
}

var ada = map[string]any{"email": "ada@example.com", "email_verified": true, "groups": []string{"devs", "other"}}

func TestSignIn(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	i.Claims = ada
	s := newSite(t, oidc.Config{Issuer: i.URL})
	status, text, jar := s.signIn("?next=/jobs%3Fstate%3DRUNNING")
	if status != http.StatusOK || s.subject != "oidc:ada@example.com" || !slices.Equal(s.plan.Roles, []pawl.Role{pawl.RoleOperator}) || s.plan.Workspaces != nil {
		t.Fatalf("%d %s: %s %+v", status, text, s.subject, s.plan)
	}
	if !strings.Contains(text, `content="0; url=/jobs?state=RUNNING"`) {
		t.Errorf("it goes on to %s; want /jobs", text)
	}
	u, err := url.Parse(s.URL + "/api/jobs")
	must(t, err)
	if c := jar.Cookies(u); len(c) != 1 || c[0].Value != "secret" {
		t.Errorf("cookies of the API: %v; want the session alone", c)
	}
	if u.Path = "/other"; len(jar.Cookies(u)) != 0 {
		t.Errorf("cookies of other paths: %v; want none", jar.Cookies(u))
	}
}

// TestWhoIsNotLetIn: nobody gets in without a verified name, a role, and a workspace where people
// have some.
func TestWhoIsNotLetIn(t *testing.T) {
	t.Parallel()
	with := func(name string, value any) map[string]any {
		c := map[string]any{}
		for k, v := range ada {
			c[k] = v
		}
		c[name] = value
		return c
	}
	for _, tt := range []struct {
		name   string
		config oidc.Config
		issue  func(*oidctest.Issuer)
		status int
		want   string
	}{
		{"no role", oidc.Config{}, func(i *oidctest.Issuer) { i.Claims = with("groups", []string{"other"}) }, 403, "no value of the claim groups"},
		{"no groups", oidc.Config{}, func(i *oidctest.Issuer) { i.Claims = with("groups", nil) }, 403, "no value of the claim groups"},
		{"an address that is not verified", oidc.Config{}, func(i *oidctest.Issuer) { i.Claims = with("email_verified", false) }, 403, "is not verified"},
		{"no name", oidc.Config{NameClaim: "preferred_username"}, func(i *oidctest.Issuer) { i.Claims = ada }, 403, "preferred_username"},
		{"a name with a space", oidc.Config{NameClaim: "name"}, func(i *oidctest.Issuer) { i.Claims = with("name", "ada engine") }, 403, "says nobody's name"},
		{"a name that looks like another", oidc.Config{NameClaim: "name"}, func(i *oidctest.Issuer) { i.Claims = with("name", "ada\u200b") }, 403, "says nobody's name"},
		{"no workspace", oidc.Config{WorkspacesClaim: "ws"}, func(i *oidctest.Issuer) { i.Claims = ada }, 403, "no workspace"},
		{"refused", oidc.Config{}, func(i *oidctest.Issuer) { i.Claims, i.Refuse = ada, "access_denied" }, 403, "access_denied"},
		{"a replayed token", oidc.Config{}, func(i *oidctest.Issuer) { i.Claims, i.Nonce = ada, "another" }, 502, "cannot be used"},
		{"for another client", oidc.Config{}, func(i *oidctest.Issuer) { i.Claims = with("aud", "another") }, 502, "cannot be used"},
		{"late", oidc.Config{}, func(i *oidctest.Issuer) { i.Claims = with("exp", 1) }, 502, "cannot be used"},
		{"a forged token", oidc.Config{}, func(i *oidctest.Issuer) {
			i.Claims = ada
			var err error
			i.Sign, err = rsa.GenerateKey(rand.Reader, 2048)
			must(t, err)
		}, 502, "cannot be used"},
		{"no provider", oidc.Config{}, func(i *oidctest.Issuer) { i.Close() }, 502, "cannot be reached"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			i := oidctest.New(t)
			tt.config.Issuer = i.URL
			tt.issue(i)
			s := newSite(t, tt.config)
			status, text, _ := s.signIn("")
			if status != tt.status || !strings.Contains(text, tt.want) || s.subject != "" {
				t.Errorf("%d %q, %q was let in; want %d with %q", status, text, s.subject, tt.status, tt.want)
			}
		})
	}
}

// TestForgedWaysBack: a way back that this browser did not begin lets nobody in.
func TestForgedWaysBack(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	i.Claims = ada
	s := newSite(t, oidc.Config{Issuer: i.URL})
	for _, cookie := range []string{"", "s=x&n=y&v=z&to=", "s=mine&n=y&v=&to=", "s=mine&n=y&v=z&to=https://evil.example"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/login/callback?code=the-code&state=mine", nil)
		must(t, err)
		if cookie != "" {
			r.AddCookie(&http.Cookie{Name: "pawl_login", Value: cookie})
		}
		answer, err := http.DefaultClient.Do(r)
		must(t, err)
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusBadRequest || s.subject != "" {
			t.Errorf("cookie %q: %d, %q was let in; want 400", cookie, answer.StatusCode, s.subject)
		}
	}
}

// TestNext: a sign-in goes on to this server only.
func TestNext(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	i.Claims = ada
	s := newSite(t, oidc.Config{Issuer: i.URL})
	for _, next := range []string{"https://evil.example/", "//evil.example/", `/\evil.example`, "jobs", "javascript:alert(1)"} {
		_, text, _ := s.signIn("?next=" + url.QueryEscape(next))
		if to := regexp.MustCompile(`url=([^"]*)"`).FindStringSubmatch(text); to == nil || to[1] != "/api/session" {
			t.Errorf("%q: it goes on to %v; want /api/session", next, to)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	good := oidc.Config{Issuer: "https://id.example.com/realm", ClientID: "pawl", URL: "https://pawl.example.com/x/", Roles: map[string]pawl.Role{"devs": pawl.RoleOperator}}
	must(t, good.Check())
	for _, tt := range []struct {
		want string
		f    func(*oidc.Config)
	}{
		{`issuer "http://id.example.com"`, func(c *oidc.Config) { c.Issuer = "http://id.example.com" }},
		{`public URL ""`, func(c *oidc.Config) { c.URL = "" }},
		{`public URL "http://10.0.0.1"`, func(c *oidc.Config) { c.URL = "http://10.0.0.1" }},
		{`public URL "https://a.example?x=1"`, func(c *oidc.Config) { c.URL = "https://a.example?x=1" }},
		{"client id", func(c *oidc.Config) { c.ClientID = "" }},
		{"roles of OIDC", func(c *oidc.Config) { c.Roles = nil }},
		{`"devs"="boss"`, func(c *oidc.Config) { c.Roles = map[string]pawl.Role{"devs": "boss"} }},
	} {
		c := good
		tt.f(&c)
		if err := c.Check(); pawl.KindOf(err) != pawl.Invalid || err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v; want an error with %q", err, tt.want)
		}
	}
}

// TestFailedSignIns: a name that cannot be one is no failure of the server, and answers of the
// provider that cannot be used count.
func TestFailedSignIns(t *testing.T) {
	t.Parallel()
	i := oidctest.New(t)
	i.Claims = ada
	s := newSite(t, oidc.Config{Issuer: i.URL})
	s.refuses = pawl.Errorf(pawl.Invalid, "the name is too long")
	if status, text, _ := s.signIn(""); status != http.StatusForbidden || !strings.Contains(text, "the name is too long") {
		t.Errorf("an invalid name: %d %s", status, text)
	}
	i.Nonce = "another"
	for range 3 {
		s.signIn("")
	}
	if status, text, _ := s.signIn(""); status != http.StatusTooManyRequests || s.fails != 3 {
		t.Errorf("after 3 failures: %d %s, %d counted", status, text, s.fails)
	}
}
