package engine_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/bearer"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/session"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestTokens: a token is made once, with a secret of which only the sum is stored, and ends
// once; its trail says who did it (K1, K5, K6).
func TestTokens(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		ctx, e := t.Context(), p.engine
		plan := pawl.TokenPlan{Name: "ci", Roles: []pawl.Role{pawl.RoleOperator}, Workspaces: []string{"builds"}}
		c := ann
		c.RequestID = "once"
		made, err := e.CreateToken(ctx, plan, c)
		must(t, err)
		id, ok := bearer.Parse(made.Secret)
		if !ok || id.Public(pawl.TokenPrefix) != made.ID || made.From != nil || made.To != lifecycle.TokenActive {
			t.Fatalf("made %+v", made)
		}
		stored, err := p.store.Token(ctx, id.TokenKey())
		must(t, err)
		if !bearer.Is(made.Secret, stored.Sum) || stored.DueAt != 0 {
			t.Errorf("stored %+v", stored)
		}
		if _, err := e.CreateToken(ctx, plan, c); !errors.Is(err, link.ErrSecretShown) || pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("the same request again: %v", err)
		}
		if _, err := e.CreateToken(ctx, plan, ann); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("the same name again: %v", err)
		}
		r, err := e.RevokeToken(ctx, id, ann)
		must(t, err)
		if *r.From != lifecycle.TokenActive || r.To != lifecycle.TokenRevoked || r.Actor != "ann" {
			t.Errorf("revoked: %+v", r)
		}
		if _, err := e.RevokeToken(ctx, id, ann); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("revoked twice: %v", err)
		}
		if _, err := e.RevokeToken(ctx, e.NewID(), ann); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("revoked an unknown one: %v", err)
		}
		_, err = e.CreateToken(ctx, plan, ann) // the name is free
		must(t, err)
		if trail := p.trailOf(made.ID); len(trail) != 2 || trail[0].Actor != "ann" || trail[1].Event != lifecycle.TokenRevoke {
			t.Errorf("trail %+v", trail)
		}
		if f, err := verified(p.store, 0); f != nil || err != nil {
			t.Errorf("%v, %v", f, err)
		}
	})
}

// TestTokensExpire: the deadline of a token ends it, in whatever process (K8).
func TestTokensExpire(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		plan := pawl.TokenPlan{Name: "ci", Roles: []pawl.Role{pawl.RoleViewer}, ExpiresAt: pawl.Timestamp(pawl.Micros(time.Now().Add(time.Second)))}
		made, err := p.engine.CreateToken(t.Context(), plan, ann)
		must(t, err)
		until(t, "the token has expired", func() bool { trail := p.trailOf(made.ID); return len(trail) == 2 })
		last := p.trailOf(made.ID)[1]
		if last.To != lifecycle.TokenExpired || last.Actor != "engine" || pawl.Timestamp(last.At) < plan.ExpiresAt {
			t.Errorf("the end: %+v", last)
		}
		plan.ExpiresAt = 1
		if _, err := p.engine.CreateToken(t.Context(), plan, ann); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("one that has expired is made: %v", err)
		}
	})
}

// TestSessionTokens: a session is a token whose name nobody can choose, and whose end is put
// off, with a trail; its deadline is then the later one.
func TestSessionTokens(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		ctx, e := t.Context(), p.engine
		soon, later := pawl.Timestamp(pawl.Micros(time.Now().Add(time.Second))), pawl.Timestamp(pawl.Micros(time.Now().Add(time.Hour)))
		plan := pawl.TokenPlan{Roles: []pawl.Role{pawl.RoleViewer}, ExpiresAt: soon}
		made, err := e.OpenSession(ctx, "oidc:ada@example.com", plan, ann)
		must(t, err)
		id, _ := bearer.Parse(made.Secret)
		must(t, e.ExtendToken(ctx, id, later, ann))
		must(t, e.ExtendToken(ctx, id, soon, ann)) // it lasts longer already
		token, err := p.store.Token(ctx, id.TokenKey())
		must(t, err)
		if subject, is := session.Subject(token.Name); !is || subject != "oidc:ada@example.com" || token.ExpiresAt != int64(later) || token.DueAt != int64(later) || token.DueEvent != lifecycle.TokenExpire {
			t.Errorf("the session is %+v", token)
		}
		if trail := p.trailOf(made.ID); len(trail) != 2 || trail[1].Event != lifecycle.TokenExtend || trail[1].Actor != "ann" {
			t.Errorf("trail %+v; want one extension", trail)
		}
		_, err = e.RevokeToken(ctx, id, ann)
		must(t, err)
		if err := e.ExtendToken(ctx, id, later+1, ann); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("extended after its end: %v; want a refusal", err)
		}
		plan.Name, plan.ExpiresAt = token.Name, 0
		if _, err := e.CreateToken(ctx, plan, ann); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("a token with the name of a session: %v; want it refused", err)
		}
		if f, err := verified(p.store, 0); f != nil || err != nil {
			t.Errorf("%v, %v", f, err)
		}
	})
}

// TestKeysOfPeople: nobody gets the response to the request of another person.
func TestKeysOfPeople(t *testing.T) { // J8
	t.Parallel()
	p := startProcess(t, (&database{t: t, kind: "memory", where: ":memory:"}).open(), nil)
	queue := pawl.QueueName{Name: "parcels"}
	_, err := p.engine.PauseQueue(t.Context(), queue, pawl.Change{Actor: "oidc:ada@example.com", RequestID: "k"})
	must(t, err)
	if _, err := p.engine.PauseQueue(t.Context(), queue, pawl.Change{Actor: "oidc:bob@example.com", RequestID: "k"}); !errors.Is(err, link.ErrKeyReused) {
		t.Errorf("the key of another: %v; want it refused", err)
	}
	r, err := p.engine.PauseQueue(t.Context(), queue, pawl.Change{Actor: "oidc:ada@example.com", RequestID: "k"})
	if err != nil || !r.Replayed {
		t.Errorf("her own key: %+v, %v; want the same answer", r, err)
	}
}

// TestCertificateTokens: a token of a certificate has no secret, and is found by the sum.
func TestCertificateTokens(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		sum := bearer.Sum("a certificate")
		plan := pawl.TokenPlan{Name: "ci", Roles: []pawl.Role{pawl.RoleWorker}, Certificate: strings.ToUpper(hex.EncodeToString(sum[:]))}
		made, err := p.engine.CreateToken(t.Context(), plan, ann)
		must(t, err)
		found, err := store.FindTokenBySum(t.Context(), p.store, sum)
		must(t, err)
		if made.Secret != "" || found.ID.Public(pawl.TokenPrefix) != made.ID {
			t.Errorf("made %+v, found %+v", made, found)
		}
		again := plan
		again.Name = "other"
		if _, err := p.engine.CreateToken(t.Context(), again, ann); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("another token of the certificate: %v; want a conflict", err)
		}
		_, err = p.engine.RevokeToken(t.Context(), found.ID, ann)
		must(t, err)
		if found, err := store.FindTokenBySum(t.Context(), p.store, sum); pawl.KindOf(err) != pawl.NotFound || err == nil {
			t.Errorf("revoked, found %+v, %v", found, err)
		}
		plan.Name, plan.Certificate = "other", "abc"
		if _, err := p.engine.CreateToken(t.Context(), plan, ann); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("a bad sum: %v", err)
		}
	})
}

// TestBadTokens are refused with the field and what is allowed.
func TestBadTokens(t *testing.T) {
	t.Parallel()
	p := startProcess(t, (&database{t: t, kind: "memory", where: ":memory:"}).open(), nil)
	viewer := []pawl.Role{pawl.RoleViewer}
	for what, plan := range map[string]pawl.TokenPlan{
		"no name":           {Roles: viewer},
		"a bad name":        {Name: "-x", Roles: viewer},
		"no role":           {Name: "x"},
		"an unknown role":   {Name: "x", Roles: []pawl.Role{"boss"}},
		"a role twice":      {Name: "x", Roles: []pawl.Role{"viewer", "viewer"}},
		"no workspace name": {Name: "x", Roles: viewer, Workspaces: []string{""}},
		"a workspace twice": {Name: "x", Roles: viewer, Workspaces: []string{"a", "a"}},
		"a control sign":    {Name: "x", Roles: viewer, Workspaces: []string{"a\n"}},
	} {
		if _, err := p.engine.CreateToken(t.Context(), plan, ann); pawl.KindOf(err) != pawl.Invalid {
			t.Errorf("%s: %v", what, err)
		}
	}
}
