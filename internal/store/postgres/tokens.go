package postgres

import (
	"context"
	"math"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var (
	readTokens = &statement{"read_tokens", `with k as (
  select unnest($1::bigint[]) as id
  union
  select id from token where state = 'active' and name = any($2::text[])
)
select ` + names("t", tokenTable.whole) + ` from (select id from k order by id) k cross join lateral
  (select * from token where token.id = k.id for update) t`}
	newTokens = &statement{"new_tokens", insert("token", tokenTable.fresh, "")}
	setTokens = &statement{"set_tokens", update(tokenTable)}
)

func (r *reading) queueTokens(p *pipe) {
	if len(r.q.Tokens)+len(r.q.Tokened) > 0 {
		p.add(readTokens, r.token, nums(r.q.Tokens), texts(r.q.Tokened))
	}
}

// token reads a row. It omits a token that was found by its name and ended while this
// transaction waited for its lock.
func (r *reading) token(c *cursor) {
	t := tokenTable.readWhole(c)
	if c.err != nil || t.State != lifecycle.TokenActive && !slices.Contains(r.q.Tokens, t.Key()) {
		return
	}
	r.Tokens[t.Key()] = t
}

func (w *writing) tokens(ch *store.Changes) {
	made, err := tokenTable.rowsOf(ch.NewTokens)
	w.check(err)
	w.insert(newTokens, made)
	change(w, setTokens, tokenTable, ch.Tokens)
}

// Token reads a token.
func (db *DB) Token(ctx context.Context, key rowkey.Token) (*pawl.Token, error) {
	list, err := db.tokens(ctx, "select "+names("", tokenTable.whole)+" from token where id = $1", int64(key))
	if len(list) == 0 {
		return nil, missing(err, true)
	}
	return list[0], err
}

// Tokens lists tokens, newest first.
func (db *DB) Tokens(ctx context.Context, before rowkey.Token, limit int) ([]*pawl.Token, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	return db.tokens(ctx, "select "+names("", tokenTable.whole)+" from token where id < $1 order by id desc limit $2", int64(before), limit)
}

// TokenBySum reads the newest active token with a sum. It reads the active ones, by their index.
func (db *DB) TokenBySum(ctx context.Context, sum [32]byte) (*pawl.Token, error) {
	list, err := db.tokens(ctx, "select "+names("", tokenTable.whole)+" from token where state = 'active' and sum = $1 order by id desc limit 1", sum[:])
	if len(list) == 0 {
		return nil, missing(err, true)
	}
	return list[0], err
}

func (db *DB) tokens(ctx context.Context, sql string, args ...any) (list []*pawl.Token, err error) {
	err = db.query(ctx, "read tokens", sql, func(c *cursor) {
		if t := tokenTable.readWhole(c); c.err == nil {
			list = append(list, t)
		}
	}, args...)
	return list, err
}
