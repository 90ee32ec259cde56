package access

import (
	"context"
	"crypto/rand"
	"time"

	"golang.org/x/time/rate"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/bearer"
)

// Limits of sessions and codes.
const (
	Idle       = 12 * time.Hour     // a session that is not used for so long ends
	MaxSession = 7 * 24 * time.Hour // a session ends after so long in any case
	extendIn   = time.Hour          // how often a session that is used is extended, at most
	CodeTime   = time.Minute        // within which a code has to be used
	maxCodes   = 1000               // that were not used yet
	maxOpened  = 10                 // sessions that a token opens in a minute
)

// Sessions are the engine's part of sessions.
type Sessions interface {
	OpenSession(ctx context.Context, subject string, p pawl.TokenPlan, c pawl.Change) (pawl.NewToken, error)
	ExtendToken(ctx context.Context, id pawl.ID, until pawl.Timestamp, c pawl.Change) error
	RevokeToken(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error)
}

// SignIn opens a session for who has the secret of a token, or a code. It returns the principal
// and the secret of the session. The errors are those of Enter.
func (g *Gate) SignIn(ctx context.Context, secret, address string) (*Principal, string, error) {
	id, is := g.redeem(secret)
	if !is {
		who, err := g.byHeader(ctx, secret, address)
		if err != nil {
			return nil, "", err
		}
		id = who.Token
	}
	token, err := found(g.Find(ctx, id))
	if err != nil {
		return nil, "", err
	}
	if token == nil {
		return nil, "", ErrUnauthenticated
	}
	if err := g.mayOpen(id); err != nil {
		return nil, "", err
	}
	return g.open(ctx, id.Public(pawl.TokenPrefix), principalOf(token))
}

// mayOpen returns an error if a token opens too many sessions.
func (g *Gate) mayOpen(token pawl.ID) error {
	g.mu.Lock()
	l := of(g.opened, token, rate.Every(time.Minute/maxOpened), maxOpened)
	g.mu.Unlock()
	return limited(l, g.Now(), "this token opens more than 10 sessions in a minute")
}

// Open opens a session of a person. It returns the secret of the session.
func (g *Gate) Open(ctx context.Context, person string, p pawl.TokenPlan) (string, error) {
	_, secret, err := g.open(ctx, person, &Principal{Name: person, Roles: p.Roles, Workspaces: p.Workspaces, everywhere: len(p.Workspaces) == 0})
	return secret, err
}

// open opens a session of a subject for a principal.
func (g *Gate) open(ctx context.Context, subject string, who *Principal) (*Principal, string, error) {
	until := pawl.Micros(g.Now().Add(Idle))
	if who.ExpiresAt != 0 {
		until = min(until, who.ExpiresAt)
	}
	made, err := g.Sessions.OpenSession(ctx, subject, pawl.TokenPlan{Roles: who.Roles, Workspaces: who.Workspaces, ExpiresAt: pawl.Timestamp(until)},
		pawl.Change{Actor: who.Name, Reason: "signed in"})
	if err != nil {
		return nil, "", err
	}
	in := *who
	in.Session, _ = bearer.Parse(made.Secret) // it was made as one
	if in.ExpiresAt = until; in.Token == (pawl.ID{}) {
		in.Token = in.Session
	}
	return &in, made.Secret, nil
}

// SignOut ends the session of a principal.
func (g *Gate) SignOut(ctx context.Context, who *Principal) error {
	defer g.Forget(who.Session)
	_, err := g.Sessions.RevokeToken(ctx, who.Session, pawl.Change{Actor: who.Name, Reason: "signed out"})
	return err
}

// extend puts the end of a session off, since it is used. A failure is no reason to end it now.
func (g *Gate) extend(ctx context.Context, t *pawl.Token) {
	now := g.Now()
	until := min(pawl.Micros(now.Add(Idle)), t.CreatedAt+MaxSession.Microseconds())
	if g.Sessions == nil || until-t.ExpiresAt < extendIn.Microseconds() || t.ExpiresAt <= pawl.Micros(now) {
		return
	}
	if g.Sessions.ExtendToken(ctx, t.ID, pawl.Timestamp(until), pawl.Change{Actor: "engine", Reason: "the session is used"}) == nil {
		t.ExpiresAt = until
	}
}

// Exhausted reports whether too many sign-ins from an address have failed.
func (g *Gate) Exhausted(address string) bool { return g.exhausted(address) }

// Fail counts a sign-in from an address that has failed.
func (g *Gate) Fail(address string) { _ = g.refuse(address) }

// A code stands for a token, once.
type code struct {
	token pawl.ID
	until time.Time
}

// Code returns a code by which a browser signs in to this process as the token of a principal,
// and until when: a URL may have it, unlike the secret of a token.
func (g *Gate) Code(who *Principal) (text string, until time.Time) {
	c := code{who.Token, g.Now().Add(CodeTime)}
	g.mu.Lock()
	defer g.mu.Unlock()
	for text, c := range g.codes {
		if !c.until.After(g.Now()) {
			delete(g.codes, text)
		}
	}
	room(g.codes, maxCodes)
	text = rand.Text()
	g.codes[text] = c
	return text, c.until
}

// redeem returns the token that a code stands for.
func (g *Gate) redeem(text string) (token pawl.ID, is bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, is := g.codes[text]
	delete(g.codes, text)
	return c.token, is && c.until.After(g.Now())
}
