package engine

import (
	"context"
	crand "crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/bearer"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/session"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Limits of a token.
const (
	MaxTokenWorkspaces = 100
	maxWorkspaceName   = 128 // characters
)

// checkTokenPlan returns the first fault of a plan.
func checkTokenPlan(p *pawl.TokenPlan) error {
	switch {
	case !scheduleName.MatchString(p.Name):
		return pawl.Errorf(pawl.Invalid, "name of a token: %q: want letters, 0-9, . _ and -, no sign first, at most 128", p.Name)
	case len(p.Roles) == 0:
		return pawl.Errorf(pawl.Invalid, "roles: want one or more of %v", pawl.TokenRoles)
	case len(p.Workspaces) > MaxTokenWorkspaces:
		return pawl.Errorf(pawl.Invalid, "workspaces: %d: want at most %d", len(p.Workspaces), MaxTokenWorkspaces)
	case p.Certificate != "" && !isSum(p.Certificate):
		return pawl.Errorf(pawl.Invalid, "certificate: %.100q: want the SHA-256 of a certificate, as 64 hexadecimal digits", p.Certificate)
	case p.ExpiresAt < 0:
		return pawl.Errorf(pawl.Invalid, "expires_at: %s: want a time to come", p.ExpiresAt)
	}
	for i, r := range p.Roles {
		if !slices.Contains(pawl.TokenRoles, r) {
			return pawl.Errorf(pawl.Invalid, "role %q: want one of %v", r, pawl.TokenRoles)
		}
		if slices.Contains(p.Roles[:i], r) {
			return pawl.Errorf(pawl.Invalid, "role %q: it is given twice", r)
		}
	}
	for i, w := range p.Workspaces {
		if err := checkWorkspace(w); err != nil {
			return err
		}
		if slices.Contains(p.Workspaces[:i], w) {
			return pawl.Errorf(pawl.Invalid, "workspace %q: it is given twice", w)
		}
	}
	return nil
}

// checkWorkspace returns the fault of a name of a workspace.
func checkWorkspace(w string) error {
	if w == "" || !utf8.ValidString(w) || utf8.RuneCountInString(w) > maxWorkspaceName || slices.ContainsFunc([]rune(w), unicode.IsControl) {
		return pawl.Errorf(pawl.Invalid, "workspace %q: want 1 to %d characters without control characters", w, maxWorkspaceName)
	}
	return nil
}

// CreateToken makes a token. Its secret is in the result, and nowhere else: for a request
// that was carried out before, the error is link.ErrSecretShown. A name that an active token
// has is a Conflict; a time of expiry that is not to come is Invalid.
func (e *Engine) CreateToken(ctx context.Context, p pawl.TokenPlan, c pawl.Change) (pawl.NewToken, error) {
	if err := checkChange(c); err != nil {
		return pawl.NewToken{}, err
	}
	if session.Reserved(p.Name) {
		return pawl.NewToken{}, pawl.Errorf(pawl.Invalid, "name of a token: %q: names of sessions are made by sign-ins", p.Name)
	}
	return e.createToken(ctx, p, c)
}

// checkCertificate returns an error if an active token has a certificate already: revoking one
// of two would not keep it out.
func (e *Engine) checkCertificate(ctx context.Context, sum string) error {
	var digest [sha256.Size]byte
	if n, _ := hex.Decode(digest[:], []byte(sum)); n == 0 {
		return nil
	}
	switch other, err := store.FindTokenBySum(ctx, e.store, digest); {
	case err == nil:
		return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the certificate is that of token %s", other.Name), Hint: "revoke that token with: pawl token revoke " + other.Name}
	case pawl.KindOf(err) != pawl.NotFound:
		return err
	}
	return nil
}

func isSum(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == sha256.Size
}

func (e *Engine) createToken(ctx context.Context, p pawl.TokenPlan, c pawl.Change) (pawl.NewToken, error) {
	if err := checkTokenPlan(&p); err != nil {
		return pawl.NewToken{}, err
	}
	p.Certificate = strings.ToLower(p.Certificate)
	r, err := e.newRequest(c, "", "POST /api/tokens", p)
	if err != nil {
		return pawl.NewToken{}, err
	}
	if known, done, err := r.earlier(ctx); err != nil {
		return pawl.NewToken{}, err
	} else if done && p.Certificate == "" {
		return pawl.NewToken{}, link.SecretShown(known.ID)
	} else if done {
		return pawl.NewToken{Receipt: known}, nil
	}
	if err := e.checkCertificate(ctx, p.Certificate); err != nil {
		return pawl.NewToken{}, err
	}
	cmd := &createToken{e: e, plan: p, note: noteOf(c)}
	cmd.renew()
	receipt, err := e.act(ctx, r, cmd, c)
	switch {
	case err != nil:
		return pawl.NewToken{}, err
	case receipt.Replayed && p.Certificate == "":
		return pawl.NewToken{}, link.SecretShown(receipt.ID)
	}
	return pawl.NewToken{Receipt: receipt, Secret: cmd.secret}, nil
}

type createToken struct {
	e      *Engine
	id     pawl.ID
	secret string // empty: it has a certificate
	sum    [sha256.Size]byte
	plan   pawl.TokenPlan
	note   decide.Note
}

func (c *createToken) subject() store.EntityKey { return store.TokenEntity(c.id.TokenKey()) }

func (c *createToken) renew() {
	var random [bearer.Size]byte
	crand.Read(random[:])
	c.id = c.e.NewID()
	if c.plan.Certificate != "" {
		_, _ = hex.Decode(c.sum[:], []byte(c.plan.Certificate)) // it was checked
		return
	}
	c.secret = bearer.Make(c.id, random)
	c.sum = bearer.Sum(c.secret)
}

func (c *createToken) query(q *store.Query) { q.Tokened = append(q.Tokened, c.plan.Name) }

func (c *createToken) decide(t *tx) error {
	for _, h := range t.tokens {
		if h.record.Name == c.plan.Name && h.record.State == lifecycle.TokenActive {
			return &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("there is an active token %s already", c.plan.Name),
				Hint: "choose another name, or revoke that one with: pawl token revoke " + c.plan.Name}
		}
	}
	token := &pawl.Token{ID: c.id, Name: c.plan.Name, Roles: c.plan.Roles, Workspaces: c.plan.Workspaces, Sum: c.sum, ExpiresAt: int64(c.plan.ExpiresAt)}
	if token.ExpiresAt != 0 {
		if token.ExpiresAt <= t.now {
			return pawl.Errorf(pawl.Invalid, "expires_at: %s: want a time to come", c.plan.ExpiresAt)
		}
		token.DueAt, token.DueEvent = token.ExpiresAt, lifecycle.TokenExpire
	}
	note := c.note
	told := map[string]any{"name": token.Name, "roles": token.Roles, "workspaces": token.Workspaces, "expires_at": c.plan.ExpiresAt}
	if c.plan.Certificate != "" {
		told["certificate"] = c.plan.Certificate
	}
	note.Metadata, _ = json.Marshal(told)
	t.makeToken(token, note)
	return nil
}

// RevokeToken ends a token. A server that uses the database lets it in no more, after at most
// 5 seconds.
func (e *Engine) RevokeToken(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	r, err := e.newRequest(c, "", "POST /api/tokens/{id}/revoke", id)
	if err != nil {
		return pawl.Receipt{}, err
	}
	return e.act(ctx, r, &revokeToken{id: id, note: noteOf(c)}, c)
}

type revokeToken struct {
	id   pawl.ID
	note decide.Note
}

func (r *revokeToken) subject() store.EntityKey { return store.TokenEntity(r.id.TokenKey()) }

func (r *revokeToken) query(q *store.Query) { q.Tokens = append(q.Tokens, r.id.TokenKey()) }

func (r *revokeToken) decide(t *tx) error {
	token := t.token(r.id.TokenKey())
	if token == nil || token.ID != r.id {
		return store.NoToken(r.id)
	}
	return t.endToken(token, lifecycle.TokenRevoke, r.note)
}

// An expiry ends a token whose time has come, if the deadline still stands.
type expiry struct{ due store.Due }

func (x *expiry) query(q *store.Query) { q.Tokens = append(q.Tokens, x.due.Token()) }

func (x *expiry) decide(t *tx) error {
	token := t.token(x.due.Token())
	if token == nil || !stands(&token.Record, x.due, max(t.now, x.due.At)) {
		return nil
	}
	return t.endToken(token, x.due.Event, decide.Note{})
}

// endToken moves a token to one of its ends.
func (t *tx) endToken(token *pawl.Token, event machine.Event, note decide.Note) error {
	if err := t.moveToken(token, event, note); err != nil {
		return err
	}
	token.DueAt, token.DueEvent = 0, ""
	return nil
}

func (t *tx) token(key rowkey.Token) *pawl.Token {
	if h := t.tokens[key]; h != nil {
		return touch(t, h, &t.journal.tokens)
	}
	if t.facts.Unreadable == 0 && !slices.Contains(t.asked.q.Tokens, key) {
		t.missed("Tokens", "token %d", key)
	}
	return nil
}

func (t *tx) makeToken(token *pawl.Token, note decide.Note) {
	k := token.Key()
	if t.tokens == nil {
		t.tokens = make(map[rowkey.Token]*held[pawl.Token])
	}
	h := &held[pawl.Token]{record: token, made: true, dirty: true, command: t.command}
	t.tokens[k] = h
	t.journal.madeTokens = append(t.journal.madeTokens, k)
	t.create(store.TokenEntity(k), h.public(token.ID, pawl.TokenPrefix), lifecycle.Token, draft{record: &token.Record, span: &h.span}, note)
}

func (t *tx) moveToken(token *pawl.Token, event machine.Event, note decide.Note) error {
	k := token.Key()
	h := t.tokens[k]
	h.dirty = true
	return t.move(store.TokenEntity(k), h.public(token.ID, pawl.TokenPrefix), lifecycle.Token, draft{record: &token.Record, span: &h.span}, event, note)
}
