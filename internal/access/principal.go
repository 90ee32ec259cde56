package access

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
)

// A Principal is who asks. The zero value is nobody.
type Principal struct {
	Name       string // "token:" and the name of the token, or empty: a caller without a token
	Roles      []pawl.Role
	Token      pawl.ID
	ExpiresAt  int64    // of the token; 0: never
	Workspaces []string // unless it is of all workspaces

	everywhere bool
}

// Actors of tokens begin with it.
const NamePrefix = "token:"

// Local is a caller on this machine, of a server that does not ask it for a token.
func Local() *Principal { return &Principal{Roles: pawl.TokenRoles, everywhere: true} }

// principalOf returns who a token stands for.
func principalOf(t *pawl.Token) *Principal {
	return &Principal{Name: NamePrefix + t.Name, Roles: t.Roles, Token: t.ID, ExpiresAt: t.ExpiresAt, Workspaces: t.Workspaces, everywhere: len(t.Workspaces) == 0}
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
