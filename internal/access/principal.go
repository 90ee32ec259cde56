package access

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/session"
)

// A Principal is who asks. The zero value is nobody.
type Principal struct {
	Name       string // "token:" and the name of the token, "oidc:" and the name of a person, or empty: a caller without a token
	Roles      []pawl.Role
	Token      pawl.ID  // of a person: that of the session
	Session    pawl.ID  // by which it asks, or zero
	ExpiresAt  int64    // of the token, or of the session; 0: never
	Workspaces []string // unless it is of all workspaces

	everywhere bool
}

// The names of principals begin with one of these.
const (
	tokenPrefix = "token:"
	oidcPrefix  = session.OIDC
)

// Reserved reports whether an actor is the name of a principal, for which nobody else may act.
func Reserved(actor string) bool {
	return strings.HasPrefix(actor, tokenPrefix) || strings.HasPrefix(actor, oidcPrefix)
}

// Local is a caller on this machine, of a server that does not ask it for a token.
func Local() *Principal { return &Principal{Roles: pawl.TokenRoles, everywhere: true} }

// principalOf returns who a token stands for.
func principalOf(t *pawl.Token) *Principal {
	return &Principal{Name: tokenPrefix + t.Name, Roles: t.Roles, Token: t.ID, ExpiresAt: t.ExpiresAt, Workspaces: t.Workspaces, everywhere: len(t.Workspaces) == 0}
}

// includes are the roles that a role includes, beside itself.
var includes = map[pawl.Role][]pawl.Role{
	pawl.RoleOperator: {pawl.RoleViewer},
	pawl.RoleAdmin:    {pawl.RoleViewer, pawl.RoleOperator, pawl.RoleWorker},
}

// Holds reports whether the principal has a role, or one that includes it.
func (p *Principal) Holds(role pawl.Role) bool {
	return slices.ContainsFunc(p.Roles, func(r pawl.Role) bool { return r == role || slices.Contains(includes[r], role) })
}

// InSession reports whether the principal asks by a session.
func (p *Principal) InSession() bool { return p.Session != pawl.ID{} }

// Everywhere reports whether the principal is of all workspaces.
func (p *Principal) Everywhere() bool { return p.everywhere }

// Sees reports whether the principal is of a workspace.
func (p *Principal) Sees(workspace string) bool {
	return p.everywhere || slices.Contains(p.Workspaces, workspace)
}

type principalKey struct{}

// With returns a context of a request of a principal.
func With(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// Of returns the principal of a context, or nobody.
func Of(ctx context.Context) *Principal {
	if p, is := ctx.Value(principalKey{}).(*Principal); is {
		return p
	}
	return &Principal{}
}
