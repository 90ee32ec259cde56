package client

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Tokens makes the tokens by which programs use a server, revokes them, and reads them. They
// are of the whole database, not of a workspace.
type Tokens struct{ base }

// Create makes a token. The result is the only place that has its secret. If an earlier
// request with the same id made the token, and if an active token has the name, the error is
// of kind Conflict.
func (t *Tokens) Create(ctx context.Context, p pawl.TokenPlan, c pawl.Change) (pawl.NewToken, error) {
	return t.engine.CreateToken(ctx, p, t.by(c))
}

// Revoke ends a token. Servers refuse it after at most 5 seconds.
func (t *Tokens) Revoke(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return t.engine.RevokeToken(ctx, id, t.by(c))
}

// Get returns a token.
func (t *Tokens) Get(ctx context.Context, id pawl.ID) (*pawl.TokenView, error) {
	return t.engine.Token(ctx, id)
}

// List calls f with the active tokens, newest first, and with ended also with those that were
// revoked or have expired. It ends with the first error of f.
func (t *Tokens) List(ctx context.Context, ended bool, f func(*pawl.TokenView) error) error {
	return eachPage(f, func(before string) ([]pawl.TokenView, string, error) {
		return t.engine.TokenPage(ctx, pawl.TokenQuery{Ended: ended, Limit: pageRows, Before: before})
	})
}

// errFound ends a search.
var errFound = errors.New("found")

// Find returns the id that a text is: an id, or the name of an active token. If there is no
// active token of the name, it is the newest one that had it. The error is of kind NotFound
// if there is none.
func (t *Tokens) Find(ctx context.Context, text string) (pawl.ID, error) {
	if id, err := pawl.ParseID(pawl.TokenPrefix, text); err == nil {
		return id, nil
	}
	found := ""
	err := t.List(ctx, true, func(v *pawl.TokenView) error {
		if v.Name == text && (found == "" || v.Status == lifecycle.TokenActive) {
			found = v.ID
		}
		if v.Name == text && v.Status == lifecycle.TokenActive {
			return errFound
		}
		return nil
	})
	if err != nil && !errors.Is(err, errFound) {
		return pawl.ID{}, err
	}
	if found == "" {
		return pawl.ID{}, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no token %q", text), Hint: "list the tokens with: pawl token list"}
	}
	return pawl.ParseID(pawl.TokenPrefix, found)
}

// History calls f with every move of a token, oldest first. It ends with the first error of f.
func (t *Tokens) History(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	return t.engine.TokenHistory(ctx, id, f)
}
