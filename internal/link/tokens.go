package link

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
)

// Tokens makes tokens, revokes them, and reads them.
type Tokens interface {
	CreateToken(ctx context.Context, p pawl.TokenPlan, c pawl.Change) (pawl.NewToken, error)
	RevokeToken(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error)
	Token(ctx context.Context, id pawl.ID) (*pawl.TokenView, error)

	// TokenPage lists tokens, newest first. A page may be short though there are more. next is
	// the Before of the next page, empty after the last one.
	TokenPage(ctx context.Context, q pawl.TokenQuery) (tokens []pawl.TokenView, next string, err error)

	TokenHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error
	TokenHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) (rows []pawl.Transition, next string, err error)
}

// ErrSecretShown is returned for a request that has made a token before: the secret was shown
// then, and is stored nowhere.
var ErrSecretShown = errors.New("the secret was shown before")

// SecretShown returns the ErrSecretShown of the token with that id. It is of kind Conflict.
func SecretShown(id string) error {
	return secretShown("this request has made token "+id+" before; its secret was shown then and is stored nowhere",
		"revoke it with: pawl token revoke "+id+", and make another one")
}

func secretShown(message, hint string) error {
	return &keyError{&pawl.Error{Kind: pawl.Conflict, Message: message, Hint: hint}, ErrSecretShown}
}
