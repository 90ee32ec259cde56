package access

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/pawl-dev/pawl"
)

// Limits of sessions and codes.
const (
	Idle       = 12 * time.Hour     // a session that is not used for so long ends
	MaxSession = 7 * 24 * time.Hour // a session ends after so long in any case
	extendIn   = time.Hour          // how often a session that is used is extended, at most
	CodeTime   = time.Minute        // within which a code has to be used
	maxCodes   = 1000               // that were not used yet
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
	who := g.redeem(secret)
	if who == nil {
		var err error
		if who, err = g.bySecret(ctx, secret, address, false); err != nil {
			return nil, "", err
		}
	}
	return g.Open(ctx, who.Token.Public(pawl.TokenPrefix), who.Name, pawl.TokenPlan{Roles: who.Roles, Workspaces: who.Workspaces})
}

// Open opens a session of a subject, as an actor. It returns the principal and the secret of
// the session.
func (g *Gate) Open(ctx context.Context, subject, actor string, p pawl.TokenPlan) (*Principal, string, error) {
	p.ExpiresAt = pawl.Timestamp(pawl.Micros(g.Now().Add(Idle)))
	made, err := g.Sessions.OpenSession(ctx, subject, p, pawl.Change{Actor: actor, Reason: "signed in"})
	if err != nil {
		return nil, "", err
	}
	who, err := g.bySecret(ctx, made.Secret, "", true)
	return who, made.Secret, err
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

// A code stands for a principal, once.
type code struct {
	who   *Principal
	until time.Time
}

// Code returns a code by which a browser signs in to this process as the principal, and until
// when: a URL may have it, unlike the secret of a token.
func (g *Gate) Code(who *Principal) (text string, until time.Time) {
	c := code{who, g.Now().Add(CodeTime)}
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

// redeem returns whom a code stands for, or nil.
func (g *Gate) redeem(text string) *Principal {
	g.mu.Lock()
	defer g.mu.Unlock()
	c, is := g.codes[text]
	delete(g.codes, text)
	if !is || !c.until.After(g.Now()) {
		return nil
	}
	return c.who
}
