package explain

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/session"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TokenPage lists tokens, newest first. It looks at no more than maxRows of them, so that a
// page may be short, or empty, though there are more. next is the Before of the next page,
// empty after the last one.
func (r *Reader) TokenPage(ctx context.Context, q pawl.TokenQuery) (tokens []pawl.TokenView, next string, err error) {
	most, err := pageLimit(q.Limit)
	if err != nil {
		return nil, "", err
	}
	var before rowkey.Token
	if q.Before != "" {
		id, err := pawl.ParseID(pawl.TokenPrefix, q.Before)
		if err != nil {
			return nil, "", err
		}
		before = id.TokenKey()
	}
	tokens = []pawl.TokenView{}
	for looked := 0; ; {
		page, err := r.store.Tokens(ctx, before, maxPage)
		if err != nil || len(page) == 0 {
			return tokens, "", err
		}
		for _, t := range page {
			if q.Ended || !lifecycle.Token.Ended(t.State) {
				if len(tokens) == most {
					return tokens, tokens[most-1].ID, nil
				}
				tokens = append(tokens, tokenView(t))
			}
			if looked++; looked == maxRows {
				return tokens, t.ID.Public(pawl.TokenPrefix), nil
			}
			before = t.Key()
		}
	}
}

// Token returns a token.
func (r *Reader) Token(ctx context.Context, id pawl.ID) (*pawl.TokenView, error) {
	t, err := store.FindToken(ctx, r.store, id)
	if err != nil {
		return nil, err
	}
	v := tokenView(t)
	return &v, nil
}

// TokenHistory calls f with every move of a token, oldest first. It ends with the first error
// of f.
func (r *Reader) TokenHistory(ctx context.Context, id pawl.ID, f func(pawl.Transition) error) error {
	if _, err := store.FindToken(ctx, r.store, id); err != nil {
		return err
	}
	return r.moves(ctx, store.TokenEntity(id.TokenKey()), f)
}

// TokenHistoryPage is WorkerHistoryPage for a token.
func (r *Reader) TokenHistoryPage(ctx context.Context, id pawl.ID, q pawl.HistoryQuery) ([]pawl.Transition, string, error) {
	if _, err := store.FindToken(ctx, r.store, id); err != nil {
		return nil, "", err
	}
	return r.movesPage(ctx, store.TokenEntity(id.TokenKey()), q)
}

func tokenView(t *pawl.Token) pawl.TokenView {
	v := pawl.TokenView{ID: t.ID.Public(pawl.TokenPrefix), Name: t.Name, Status: t.State, Roles: append([]pawl.Role{}, t.Roles...),
		Workspaces: append([]string{}, t.Workspaces...), CreatedAt: pawl.Timestamp(t.CreatedAt), UpdatedAt: pawl.Timestamp(t.UpdatedAt), ExpiresAt: pawl.Timestamp(t.ExpiresAt)}
	if subject, is := session.Subject(t.Name); is {
		v.SessionOf = &subject
	}
	return v
}
