package api

import (
	"context"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl"
)

func (s *Service) tokenOperations() []operation {
	const tag = "tokens"
	return []operation{
		{id: "create-token", method: post, path: "/api/tokens", role: Admin, everywhere: true, repeat: once, good: []int{201}, errors: []Slug{SlugConflict, SlugSecretShown, SlugKeyReused, SlugRequestInProgress}, tag: tag,
			summary: "Create a token", detail: "Makes a token. The response is the only place that has its secret.", add: does(s, s.createToken)},
		{id: "list-tokens", method: get, path: "/api/tokens", role: Admin, everywhere: true, tag: tag,
			summary: "List tokens, newest first", detail: "Lists tokens. Nobody can read their secrets.", add: does(s, s.listTokens)},
		{id: "get-token", method: get, path: "/api/tokens/{id}", role: Admin, everywhere: true, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "Read a token", detail: "Reads a token: who it is, what it may do, and until when.", add: does(s, s.getToken)},
		{id: "revoke-token", method: post, path: "/api/tokens/{id}/revoke", role: Admin, everywhere: true, repeat: replayed, errors: verbErrors, tag: tag,
			summary: "Revoke a token", detail: "Ends a token. This server refuses it at once, others on the same database within 5 seconds.", add: does(s, s.revokeToken)},
		{id: "list-token-history", method: get, path: "/api/tokens/{id}/history", role: Admin, everywhere: true, errors: []Slug{SlugNotFound}, tag: tag,
			summary: "List every move of a token", detail: "Lists the moves of a token, oldest first: who made it and revoked it, when, and why.", add: does(s, s.listTokenHistory)},
	}
}

// A TokenPath names a token.
type TokenPath struct {
	ID string `path:"id" doc:"The id of a token." example:"tk_019ac1f0a3c47d5e8f00112233445566"`
}

func (p *TokenPath) token() (pawl.ID, error) { return parseID(pawl.TokenPrefix, p.ID, "token") }

type createdToken struct {
	Status   int
	Location string `header:"Location" doc:"The path of the token."`
	Body     pawl.NewToken
}

func (s *Service) createToken(ctx context.Context, in *struct {
	Key
	Body struct {
		Note
		Name       string      `json:"name" maxLength:"128" doc:"Its name: letters, 0-9, . _ and -, no sign first. One active token has it." example:"ci"`
		Roles      []pawl.Role `json:"roles" minItems:"1" maxItems:"4" enum:"viewer,operator,admin,worker" doc:"What it may do. operator includes viewer; admin includes all."`
		Workspaces []string    `json:"workspaces,omitempty" maxItems:"100" doc:"The workspaces that it is for. Default: all."`
		ExpiresAt  time.Time   `json:"expires_at,omitzero" doc:"When it ends by itself. Default: never."`
		Sum        string      `json:"certificate_sha256,omitempty" pattern:"^[0-9A-Fa-f]{64}$" doc:"The SHA-256 of a client certificate in DER: whoever shows it is this token, which then has no secret."`
	}
}) (*createdToken, error) {
	c, err := in.change(ctx, in.Body.Note)
	if err != nil {
		return nil, err
	}
	p := pawl.TokenPlan{Name: in.Body.Name, Roles: in.Body.Roles, Workspaces: in.Body.Workspaces, ExpiresAt: stamp(in.Body.ExpiresAt), Certificate: in.Body.Sum}
	t, err := s.client(ctx, "").Tokens.Create(ctx, p, c)
	if err != nil {
		return nil, err
	}
	return &createdToken{http.StatusCreated, "/api/tokens/" + t.ID, t}, nil
}

func (s *Service) listTokens(ctx context.Context, in *struct {
	Window
	Ended bool `query:"ended" doc:"Those that were revoked or have expired, too."`
}) (*body[page[pawl.TokenView]], error) {
	return placedPage(in.Window, []any{"tokens", in.Ended}, func(after string, limit int) ([]pawl.TokenView, string, error) {
		return s.Engine.TokenPage(ctx, pawl.TokenQuery{Ended: in.Ended, Before: after, Limit: limit})
	})
}

func (s *Service) getToken(ctx context.Context, in *struct{ TokenPath }) (*body[pawl.TokenView], error) {
	id, err := in.token()
	if err != nil {
		return nil, err
	}
	v, err := s.Engine.Token(ctx, id)
	if err != nil {
		return nil, err
	}
	return &body[pawl.TokenView]{*v}, nil
}

func (s *Service) revokeToken(ctx context.Context, in *struct {
	TokenPath
	Command
}) (*receipt, error) {
	id, err := in.token()
	if err != nil {
		return nil, err
	}
	c, err := in.change(ctx)
	if err != nil {
		return nil, err
	}
	r, err := s.client(ctx, "").Tokens.Revoke(ctx, id, c)
	if err == nil && s.Gate != nil {
		s.Gate.Forget(id)
	}
	return receiptOf(r, err)
}

func (s *Service) listTokenHistory(ctx context.Context, in *struct {
	TokenPath
	Window
}) (*body[page[pawl.Transition]], error) {
	id, err := in.token()
	if err != nil {
		return nil, err
	}
	return placedPage(in.Window, []any{"token", in.ID}, func(after string, limit int) ([]pawl.Transition, string, error) {
		return s.Engine.TokenHistoryPage(ctx, id, pawl.HistoryQuery{After: after, Limit: limit})
	})
}
