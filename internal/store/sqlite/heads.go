package sqlite

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// prefixes are those of the public ids of records.
var prefixes = map[string]string{lifecycle.Job.Name: pawl.JobPrefix, lifecycle.Worker.Name: pawl.WorkerPrefix, lifecycle.Schedule.Name: pawl.SchedulePrefix, lifecycle.Token.Name: pawl.TokenPrefix,
	lifecycle.QueuePause.Name: pawl.QueuePausePrefix,
	lifecycle.Webhook.Name:    pawl.WebhookPrefix}

// Heads reads the ends of trails; see store.Heads.
func (db *DB) Heads(ctx context.Context, kind string, after int64, limit int) (page []store.Leaf, err error) {
	prefix, ok := prefixes[kind]
	if !ok {
		return nil, pawl.Errorf(pawl.Invalid, "kind %q: want job, worker, schedule, token, webhook or queue_pause", kind)
	}
	err = db.read(ctx, "read the ends of trails", func(c *conn) error {
		page = nil
		return c.ask("SELECT id, uuid, seq, head FROM "+kind+" WHERE id > ? ORDER BY id LIMIT ?", func(b *row) { b.ints(after, int64(limit)) }, func(cols *columns) {
			l := store.Leaf{Kind: kind, Key: cols.int()}
			var id pawl.ID
			cols.fixed(id[:])
			l.ID, l.Sequence = id.Public(prefix), cols.int()
			cols.fixed(l.Head[:])
			page = append(page, l)
		})
	})
	return page, err
}
