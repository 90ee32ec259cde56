package sqlite

import (
	"context"
	"math"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// tokens reads the tokens that the query names by key or by name.
func (r *reading) tokens(q *store.Query) error {
	for _, k := range q.Tokens {
		if err := r.token(selectToken, func(b *row) { b.int(int64(k)) }); err != nil {
			return err
		}
	}
	for _, n := range q.Tokened {
		if err := r.token(selectTokened, func(b *row) { b.text(n) }); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) token(s statement, bind func(*row)) error {
	return r.c.each(s, bind, func(c *columns) error {
		found := tokenTable.readWhole(c)
		if k := found.Key(); r.decoded(c, lifecycle.Token.Name, k) && r.f.Tokens[k] == nil {
			r.f.Tokens[k] = found
		}
		return nil
	})
}

func writeTokens(c *conn, _ *store.Facts, ch *store.Changes) error {
	for _, t := range ch.NewTokens {
		if err := c.run(insertToken, func(r *row) { writeColumns(r, tokenTable.insert, t) }); err != nil {
			return inserted(err, lifecycle.Token.Name, t.Name)
		}
	}
	for _, u := range ch.Tokens {
		err := update(c, updateToken, tokenTable, tokenTable.change, u)
		if err := c.updated(err, lifecycle.Token.Name, u.Record.Key(), u.Was); err != nil {
			return err
		}
	}
	return nil
}

// Token reads a token.
func (db *DB) Token(ctx context.Context, key rowkey.Token) (*pawl.Token, error) {
	list, err := db.listTokens(ctx, selectToken, func(b *row) { b.int(int64(key)) })
	if len(list) == 0 {
		return found[pawl.Token](nil, err, lifecycle.Token.Name, key)
	}
	return list[0], err
}

// Tokens lists tokens, newest first.
func (db *DB) Tokens(ctx context.Context, before rowkey.Token, limit int) ([]*pawl.Token, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return db.listTokens(ctx, selectTokens, func(b *row) { b.ints(int64(before), int64(limit)) })
}

// TokenBySum reads the newest active token with a sum. It reads the active ones, by their index.
func (db *DB) TokenBySum(ctx context.Context, sum [32]byte) (*pawl.Token, error) {
	list, err := db.listTokens(ctx, selectTokenBySum, func(b *row) { b.blob(sum[:]) })
	if len(list) == 0 {
		return found[pawl.Token](nil, err, lifecycle.Token.Name, rowkey.Token(0))
	}
	return list[0], err
}

func (db *DB) listTokens(ctx context.Context, s statement, bind func(*row)) (list []*pawl.Token, err error) {
	err = db.read(ctx, "read tokens", func(c *conn) error {
		list = nil
		return c.each(s, bind, func(cols *columns) error {
			if t := tokenTable.readWhole(cols); decoded(db.log, cols, lifecycle.Token.Name, t.Key()) {
				list = append(list, t)
			}
			return nil
		})
	})
	return list, err
}
