package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/access"
)

// Allow returns a handler that passes on to next the requests of those who have a role.
func Allow(role Role, next http.Handler) http.Handler {
	o := &operation{id: "this", role: role}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := o.refusal(r.Context()); p != nil {
			p.Write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refusal returns why the principal of a context may not do an operation, or nil.
func (o *operation) refusal(ctx context.Context) *Problem {
	if o.role == Anybody {
		return nil
	}
	p := access.Of(ctx)
	switch {
	case len(p.Roles) == 0:
		return unauthenticated(o.id + " needs a token")
	case !p.Holds(o.role):
		names := make([]string, len(p.Roles))
		for i, r := range p.Roles {
			names[i] = string(r)
		}
		return Problemf(SlugNotAllowed, "%s needs the role %s, and %s has %s", o.id, o.role, ActorOf(ctx), strings.Join(names, ", "))
	case o.everywhere && !p.Everywhere():
		return Problemf(SlugNotAllowed, "%s is about all workspaces, and %s is for %s", o.id, ActorOf(ctx), strings.Join(p.Workspaces, ", "))
	}
	return nil
}

func unauthenticated(detail string) *Problem {
	p := Problemf(SlugUnauthenticated, "%s", detail)
	p.Hint = "send the secret of a token in the header Authorization: Bearer pawl_...; \"pawl token create\" makes one"
	return p
}

// enter returns who sends a request, or why it is refused.
func (g *guard) enter(r *http.Request) (*access.Principal, *Problem) {
	if g.Gate == nil {
		return access.Local(), nil
	}
	if slices.Contains(g.Open, r.URL.Path) {
		return &access.Principal{}, nil
	}
	c := access.Credentials{Authorization: r.Header["Authorization"], Address: r.RemoteAddr}
	var others []string // of other servers on this host, which may share the database
	for _, cookie := range r.Cookies() {
		switch {
		case g.Cookie != "" && cookie.Name == g.Cookie:
			c.Cookies = append(c.Cookies, cookie.Value)
		case strings.HasPrefix(cookie.Name, CookiePrefix):
			others = append(others, cookie.Value)
		}
	}
	c.Cookies = append(c.Cookies, others...)
	c.Cookies = c.Cookies[:min(len(c.Cookies), maxCookies)]
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		c.Certificate = r.TLS.PeerCertificates[0]
	}
	who, err := g.Gate.Enter(r.Context(), c)
	if p := refusedEntry(err); p != nil || err == nil {
		return who, p
	}
	g.Log.Error("a token cannot be looked up", "error", err)
	return nil, Problemf(SlugUnavailable, "the token cannot be looked up at the moment")
}

// refusedEntry returns why a gate lets nobody in, or nil for other errors.
func refusedEntry(err error) *Problem {
	var limited *access.LimitedError
	switch {
	case errors.As(err, &limited):
		p := Problemf(SlugRateLimited, "%s", limited)
		p.RetryAfter = max(limited.After.Round(time.Second), time.Second)
		return p
	case errors.Is(err, access.ErrUnauthenticated):
		return unauthenticated(err.Error())
	}
	return nil
}

// authorise passes on to next the requests that their senders may make. What is in the table
// of operations needs the role of its row; beside it only the documents of the API are served.
func (s *Service) authorise(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, pattern := s.mux.Handler(r)
		o := s.rows[pattern]
		if o == nil && pattern != "" {
			panic(fmt.Sprintf("%s is in no table", pattern))
		}
		if o != nil {
			if p := o.refusal(r.Context()); p != nil {
				p.Write(w)
				if s.Observe != nil {
					s.Observe(o.id, p.Status, false, 0)
				}
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
