package api

import (
	"context"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
)

// CookiePrefix begins the names of the cookies of sessions. Cookies do not tell the ports of a
// host apart, so each port adds its own.
const CookiePrefix = "pawl_session"

const maxCookies = 8 // that are tried

func (s *Service) sessionOperations() []operation {
	const tag = "session"
	return []operation{
		{id: "get-session", method: get, path: "/api/session", role: Anybody, tag: tag,
			summary: "Say who is signed in", detail: "Returns who the caller is, what it may do, and how a browser signs in.", add: does(s, s.getSession)},
		{id: "sign-in", method: post, path: "/api/session", role: Anybody, repeat: again, good: []int{201}, errors: []Slug{SlugUnauthenticated, SlugRateLimited}, tag: tag,
			summary: "Sign in", detail: "Opens a session for whoever has a token, or a code, and returns its cookie. A session that is not used for 12 hours ends, and so does one of a token with that token; none lasts longer than 7 days.", add: does(s, s.signIn)},
		{id: "sign-out", method: del, path: "/api/session", role: Anybody, repeat: settles, good: []int{204}, tag: tag,
			summary: "Sign out", detail: "Ends the session of the cookie, if there is one.", add: does(s, s.signOut)},
		{id: "create-sign-in-code", method: post, path: "/api/session/codes", role: Viewer, repeat: again, good: []int{201}, errors: []Slug{SlugConflict}, tag: tag,
			summary: "Make a code to sign in with", detail: "Returns a code by which a browser signs in at this server as the caller's token, once, within a minute. Unlike a token it may stand in a URL.", add: does(s, s.createCode)},
	}
}

// A sessionView says who is signed in.
type sessionView struct {
	Identity
	Session *string        `json:"session_id" doc:"The id of the session, which is a token, or null."`
	Login   *string        `json:"login" doc:"The path at which a browser signs in with the identity provider, or null."`
	Version string         `json:"version" doc:"Of the program." example:"0.9.0"`
	Now     pawl.Timestamp `json:"now" doc:"The time of the server."`
}

func (s *Service) sessionOf(who *access.Principal, actor string) sessionView {
	v := sessionView{Identity: identityOf(who, actor), Version: s.Program, Now: pawl.Timestamp(pawl.Micros(s.Now()))}
	if who.InSession() {
		id := who.Session.Public(pawl.TokenPrefix)
		v.Session = &id
	}
	if s.Login != "" {
		v.Login = &s.Login
	}
	return v
}

func (s *Service) getSession(ctx context.Context, _ *struct{}) (*body[sessionView], error) {
	return &body[sessionView]{s.sessionOf(access.Of(ctx), ActorOf(ctx))}, nil
}

type signedIn struct {
	Status int
	Cookie http.Cookie `header:"Set-Cookie" doc:"The session, for the API of this server alone, and out of reach of scripts."`
	Body   sessionView
}

func (s *Service) signIn(ctx context.Context, in *struct {
	Body struct {
		Token string `json:"token" minLength:"1" maxLength:"256" doc:"The secret of a token, or a code."`
	}
}) (*signedIn, error) {
	if s.Gate == nil || s.Gate.Sessions == nil {
		return nil, Problemf(SlugUnavailable, "this server has no sessions")
	}
	who, secret, err := s.Gate.SignIn(ctx, in.Body.Token, callOf(ctx).address)
	if p := refusedEntry(err); p != nil {
		if p.Hint != "" {
			p.Hint = "\"pawl token create\" makes a token"
		}
		return nil, p
	}
	if err != nil {
		return nil, err
	}
	return &signedIn{http.StatusCreated, Cookie(s.Cookie, secret, s.secure(ctx)), s.sessionOf(who, who.Name)}, nil
}

// secure reports whether browsers reach this server by HTTPS only.
func (s *Service) secure(ctx context.Context) bool { return s.Secure || callOf(ctx).secure }

// Cookie returns the cookie of a session. Its path is that of the API as the browser sees it: the
// cookie names none, so it has that of the request which sets it.
func Cookie(name, secret string, secure bool) http.Cookie {
	return http.Cookie{Name: name, Value: secret, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode}
}

type signedOut struct {
	Cookie http.Cookie `header:"Set-Cookie" doc:"It takes the cookie away."`
}

func (s *Service) signOut(ctx context.Context, _ *struct{}) (*signedOut, error) {
	if who := access.Of(ctx); who.InSession() {
		if err := s.Gate.SignOut(ctx, who); err != nil && pawl.KindOf(err) != pawl.Conflict {
			return nil, err
		}
	}
	c := Cookie(s.Cookie, "", s.secure(ctx))
	c.MaxAge = -1
	return &signedOut{c}, nil
}

type createdCode struct {
	Status int
	Body   struct {
		Code      string         `json:"code" doc:"What to sign in with."`
		ExpiresAt pawl.Timestamp `json:"expires_at" doc:"Until when."`
	}
}

func (s *Service) createCode(ctx context.Context, _ *struct{}) (*createdCode, error) {
	who := access.Of(ctx)
	if who.Name == "" || who.InSession() {
		return nil, Problemf(SlugConflict, "a code stands for a token, and this request was sent without one, or by a session")
	}
	code, until := s.Gate.Code(who)
	out := &createdCode{Status: http.StatusCreated}
	out.Body.Code, out.Body.ExpiresAt = code, pawl.Timestamp(pawl.Micros(until.Truncate(time.Microsecond)))
	return out, nil
}
