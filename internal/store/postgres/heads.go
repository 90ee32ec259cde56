package postgres

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// Heads reads the ends of trails; see store.Heads.
func (db *DB) Heads(ctx context.Context, kind string, after int64, limit int) (page []store.Leaf, err error) {
	if kind != kindJob && !longLived(kind) {
		return nil, pawl.Errorf(pawl.Invalid, "kind %q: want job, worker, schedule, token, webhook or queue_pause", kind)
	}
	err = db.query(ctx, "read the ends of trails", "select id, uuid, seq, head from "+kind+" where id > $1 order by id limit $2", func(c *cursor) {
		l := store.Leaf{Kind: kind, Key: c.num()}
		var id pawl.ID
		c.fixed(id[:])
		l.ID, l.Sequence = public(store.EntityKey{Kind: kind}, id), c.num()
		c.fixed(l.Head[:])
		page = append(page, l)
	}, after, int64(limit))
	return page, err
}
