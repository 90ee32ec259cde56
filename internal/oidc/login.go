package oidc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/session"
)

const (
	path     = "/login"
	callback = path + "/callback"

	providerTime = 10 * time.Second // for one answer of the provider
	askAgain     = 5 * time.Second  // after the provider could not be asked what it is
	wayTime      = 10 * time.Minute // from /login to the way back
	wayCookie    = "pawl_login"
)

// A Gate is what a login needs of the gate of its server.
type Gate interface {
	// Open opens a session of a person, and returns its cookie.
	Open(ctx context.Context, person string, p pawl.TokenPlan) (http.Cookie, error)

	// Exhausted reports whether too many sign-ins from an address have failed; Fail counts one.
	Exhausted(address string) bool
	Fail(address string)
}

// A Login signs people in. It is safe for concurrent use.
type Login struct {
	config Config
	here   *url.URL
	gate   Gate
	log    *slog.Logger
	asking chan struct{} // full while the provider is asked what it is

	mu       sync.Mutex
	provider *oidc.Provider // nil: it has not answered yet
	failure  error          // why
	failed   time.Time
}

// New returns a login. The error is of kind Invalid.
func New(c Config, gate Gate, log *slog.Logger) (*Login, error) {
	here, err := c.check()
	if err != nil {
		return nil, err
	}
	c.RolesClaim, c.NameClaim = cmp.Or(c.RolesClaim, DefaultRolesClaim), cmp.Or(c.NameClaim, DefaultNameClaim)
	if c.Client == nil {
		c.Client = &http.Client{Timeout: providerTime}
	}
	return &Login{config: c, here: here, gate: gate, log: log, asking: make(chan struct{}, 1)}, nil
}

// Path is the path at which a browser begins to sign in, as it sees it.
func (l *Login) Path() string { return l.here.Path + path }

// Secure reports whether browsers reach the server by HTTPS.
func (l *Login) Secure() bool { return l.here.Scheme == "https" }

// Add adds the paths of the login.
func (l *Login) Add(mux *http.ServeMux) {
	mux.HandleFunc("GET "+path, l.begin)
	mux.HandleFunc("GET "+callback, l.complete)
}

// endpoints returns the provider.
func (l *Login) endpoints(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	p, err := l.found(ctx)
	if err != nil {
		return nil, nil, err
	}
	return p, &oauth2.Config{ClientID: l.config.ClientID, ClientSecret: l.config.Secret, Endpoint: p.Endpoint(),
		RedirectURL: l.here.JoinPath(callback).String(), Scopes: []string{oidc.ScopeOpenID, "profile", "email"}}, nil
}

// found asks the provider what it is, until it has answered: one request at a time, and again
// some seconds after a failure.
func (l *Login) found(ctx context.Context) (*oidc.Provider, error) {
	select {
	case l.asking <- struct{}{}:
		defer func() { <-l.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	p, failure := l.provider, l.failure
	recent := time.Since(l.failed) < askAgain
	l.mu.Unlock()
	if p != nil || recent {
		return p, failure
	}
	p, err := oidc.NewProvider(context.WithoutCancel(ctx), l.config.Issuer)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.provider, l.failure = p, err; err != nil {
		l.failed = time.Now()
	}
	return p, err
}

// begin sends the browser to the provider.
func (l *Login) begin(w http.ResponseWriter, r *http.Request) {
	next := r.URL.Query().Get("next")
	if !local(next) {
		next = ""
	}
	_, config, err := l.endpoints(oidc.ClientContext(r.Context(), l.config.Client))
	if err != nil {
		l.fail(w, http.StatusBadGateway, "the identity provider cannot be reached", err)
		return
	}
	way := way{state: rand.Text(), nonce: rand.Text(), verifier: oauth2.GenerateVerifier(), next: next}
	http.SetCookie(w, l.cookie(way.String(), int(wayTime.Seconds())))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, config.AuthCodeURL(way.state, oidc.Nonce(way.nonce), oauth2.S256ChallengeOption(way.verifier)), http.StatusFound)
}

// cookie returns the cookie that goes the way to the provider and back, which begins at another
// site.
func (l *Login) cookie(value string, age int) *http.Cookie {
	return &http.Cookie{Name: wayCookie, Value: value, Path: l.Path(), MaxAge: age, HttpOnly: true, Secure: l.Secure(), SameSite: http.SameSiteLaxMode}
}

// complete lets the person in whom the provider has sent back.
func (l *Login) complete(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	way, ok := wayOf(r)
	http.SetCookie(w, l.cookie("", -1))
	w.Header().Set("Cache-Control", "no-store")
	switch {
	case l.gate.Exhausted(r.RemoteAddr):
		l.fail(w, http.StatusTooManyRequests, "too many sign-ins from this address have failed: try again in a minute", nil)
		return
	case !ok || subtle.ConstantTimeCompare([]byte(way.state), []byte(q.Get("state"))) != 1:
		l.fail(w, http.StatusBadRequest, "this sign-in was not begun in this browser, or longer than 10 minutes ago", nil)
		return
	case q.Get("error") != "":
		l.fail(w, http.StatusForbidden, fmt.Sprintf("the identity provider refuses: %.100s", q.Get("error")), fmt.Errorf("%.200s", q.Get("error_description")))
		return
	}
	claims, err := l.claims(oidc.ClientContext(r.Context(), l.config.Client), way, q.Get("code"))
	if err != nil {
		l.gate.Fail(r.RemoteAddr)
		l.fail(w, http.StatusBadGateway, "the identity provider's response cannot be used", err)
		return
	}
	subject, plan, err := l.plan(claims)
	if err != nil {
		l.fail(w, http.StatusForbidden, "you cannot sign in here", err)
		return
	}
	cookie, err := l.gate.Open(r.Context(), subject, plan)
	switch {
	case err != nil && pawl.KindOf(err) == pawl.Invalid: // by what the provider says of the person
		l.fail(w, http.StatusForbidden, "you cannot sign in here", err)
		return
	case err != nil:
		l.fail(w, http.StatusServiceUnavailable, "the session cannot be opened", err)
		return
	}
	cookie.Path = l.here.Path + "/api"
	http.SetCookie(w, &cookie)
	l.leave(w, l.here.Path+cmp.Or(way.next, "/api/session"))
}

// leave goes on to a page of this server. A redirect would still be of the provider's site, and a
// browser would not send the cookie of the session with it.
func (l *Login) leave(w http.ResponseWriter, to string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'")
	fmt.Fprintf(w, "<!doctype html><title>Pawl</title><meta http-equiv=\"refresh\" content=\"0; url=%s\"><p>Signed in. <a href=\"%[1]s\">Go on</a>\n", html.EscapeString(to))
}

// claims returns the claims of the ID token for a code.
func (l *Login) claims(ctx context.Context, way way, code string) (map[string]any, error) {
	provider, config, err := l.endpoints(ctx)
	if err != nil {
		return nil, err
	}
	token, err := config.Exchange(ctx, code, oauth2.VerifierOption(way.verifier))
	if err != nil {
		return nil, err
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := provider.VerifierContext(ctx, &oidc.Config{ClientID: l.config.ClientID}).Verify(ctx, raw)
	switch {
	case err != nil:
		return nil, err
	case subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(way.nonce)) != 1:
		return nil, errors.New("the ID token is of another sign-in: its nonce differs")
	}
	claims := map[string]any{}
	return claims, id.Claims(&claims)
}

// plan returns who a person is, and what they may do.
func (l *Login) plan(claims map[string]any) (subject string, p pawl.TokenPlan, err error) {
	name, _ := claims[l.config.NameClaim].(string)
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }) {
		return "", p, fmt.Errorf("the claim %s says nobody's name", l.config.NameClaim)
	}
	if v := claims["email_verified"]; l.config.NameClaim == DefaultNameClaim && v != true && v != "true" {
		return "", p, fmt.Errorf("the email address %.200s is not verified", name)
	}
	for _, value := range values(claims[l.config.RolesClaim]) {
		if role, is := l.config.Roles[value]; is && !slices.Contains(p.Roles, role) {
			p.Roles = append(p.Roles, role)
		}
	}
	if len(p.Roles) == 0 {
		return "", p, fmt.Errorf("%.200s has no role here: no value of the claim %s stands for one", name, l.config.RolesClaim)
	}
	if l.config.WorkspacesClaim != "" {
		if p.Workspaces = values(claims[l.config.WorkspacesClaim]); len(p.Workspaces) == 0 {
			return "", p, fmt.Errorf("%.200s has no workspace here: the claim %s has none", name, l.config.WorkspacesClaim)
		}
	}
	return session.OIDC + name, p, nil
}

// values returns the texts of a claim that is a text or a list of them, each once.
func values(claim any) (all []string) {
	switch claim := claim.(type) {
	case string:
		return []string{claim}
	case []any:
		for _, v := range claim {
			if text, is := v.(string); is && !slices.Contains(all, text) {
				all = append(all, text)
			}
		}
	}
	return all
}

// fail shows a person why they are not signed in. What the provider itself has answered is for
// the log only.
func (l *Login) fail(w http.ResponseWriter, status int, what string, err error) {
	if err != nil {
		l.log.Warn("somebody could not sign in", "why", what, "error", err)
	}
	if err != nil && status == http.StatusForbidden {
		what += ": " + err.Error()
	}
	http.Error(w, what, status)
}

// local reports whether a target of a sign-in is a path of this server.
func local(next string) bool {
	u, err := url.Parse(next)
	return err == nil && u.Scheme == "" && u.Host == "" && strings.HasPrefix(next, "/") && !strings.HasPrefix(next, "//") && !strings.ContainsAny(next, "\\\r\n")
}

// A way is what a sign-in needs on its way back.
type way struct{ state, nonce, verifier, next string }

func (w way) String() string {
	return url.Values{"s": {w.state}, "n": {w.nonce}, "v": {w.verifier}, "to": {w.next}}.Encode()
}

func wayOf(r *http.Request) (w way, ok bool) {
	c, err := r.Cookie(wayCookie)
	if err != nil {
		return w, false
	}
	q, err := url.ParseQuery(c.Value)
	w = way{q.Get("s"), q.Get("n"), q.Get("v"), q.Get("to")}
	return w, err == nil && w.state != "" && w.nonce != "" && w.verifier != "" && (w.next == "" || local(w.next))
}
