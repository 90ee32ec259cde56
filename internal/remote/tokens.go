package remote

import (
	"context"
	"encoding/json"

	"github.com/pawl-dev/pawl"
)

func tokenPath(id pawl.ID) string { return at("/api/tokens/%s", id.Public(pawl.TokenPrefix)) }

// CreateToken makes a token.
func (e *Engine) CreateToken(ctx context.Context, p pawl.TokenPlan, c pawl.Change) (t pawl.NewToken, err error) {
	var expires json.RawMessage
	if p.ExpiresAt != 0 {
		if expires, err = json.Marshal(p.ExpiresAt); err != nil {
			return t, err
		}
	}
	_, err = e.do(ctx, command("create-token", "/api/tokens", c, struct {
		note
		Name       string          `json:"name"`
		Roles      []pawl.Role     `json:"roles"`
		Workspaces []string        `json:"workspaces,omitempty"`
		ExpiresAt  json.RawMessage `json:"expires_at,omitempty"`
		Sum        string          `json:"certificate_sha256,omitempty"`
	}{note{c.Reason}, p.Name, append([]pawl.Role{}, p.Roles...), p.Workspaces, expires, p.Certificate}), &t)
	return t, err
}

// RevokeToken ends a token.
func (e *Engine) RevokeToken(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return e.receipt(ctx, command("revoke-token", tokenPath(id)+"/revoke", c, note{c.Reason}))
}

// Token returns a token.
func (e *Engine) Token(ctx context.Context, id pawl.ID) (*pawl.TokenView, error) {
	return read[pawl.TokenView](ctx, e, "get-token", tokenPath(id))
}

// TokenPage is a page of the tokens.
func (e *Engine) TokenPage(ctx context.Context, q pawl.TokenQuery) ([]pawl.TokenView, string, error) {
	c := call{operation: "list-tokens", path: "/api/tokens", query: values()}
	if q.Ended {
		c.query.Set("ended", "true")
	}
	return onePage[pawl.TokenView](ctx, e, c, q.Before, q.Limit)
}

func tokenHistory(id pawl.ID) call {
	return call{operation: "list-token-history", path: tokenPath(id) + "/history"}
}

// TokenHistory calls f with every move of a token.
func (e *Engine) TokenHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	return e.moves(ctx, tokenHistory(id), f)
}

// TokenHistoryPage is a page of TokenHistory.
func (e *Engine) TokenHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	return onePage[pawl.Transition](ctx, e, tokenHistory(id), q.After, q.Limit)
}
