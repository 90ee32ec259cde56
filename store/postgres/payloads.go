package postgres

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Payloads reads what the trails of records seal; see store.Views.
func (db *DB) Payloads(ctx context.Context, kind string, keys []pawl.StepKey) (map[pawl.StepKey]store.Payload, error) {
	list := store.PayloadColumns(kind)
	key, join, tree := "id, 0::bigint", "id = u.a", "tree"
	switch kind {
	case kindStep:
		key, join = "job, ord", "job = u.a and ord = u.b"
	case kindSchedule:
		tree = "null::bytea"
	}
	sql := "select " + key + ", seq, " + tree + ", " + strings.Join(list, ", ") +
		" from unnest($1::bigint[], $2::bigint[]) u(a, b) join " + kind + " on " + join
	jobs, ords := make([]int64, len(keys)), make([]int64, len(keys))
	for i, k := range keys {
		jobs[i], ords[i] = k.Job, int64(k.Ord)
	}
	found := make(map[pawl.StepKey]store.Payload, len(keys))
	err := db.query(ctx, "read payload", sql, func(c *cursor) {
		k := pawl.StepKey{Job: c.num(), Ord: pawl.Ord(c.num())}
		p := store.Payload{Seq: c.num(), Bodies: make(map[string][]byte, len(list))}
		tree, err := store.DecodeTree(c.next())
		if err != nil {
			c.fail("%w", err)
		}
		if tree != nil {
			p.Owed = tree.Owed
		}
		for _, name := range list {
			p.Bodies[name] = c.body()
		}
		found[k] = p
	}, jobs, ords)
	return found, err
}

// Refused counts refused facts; see store.Views.
func (db *DB) Refused(ctx context.Context, job int64) (n int64, err error) {
	err = db.query(ctx, "count refused facts", "select count(*) from refusal where $1::bigint = 0 or job = $1", func(c *cursor) { n = c.num() }, job)
	return n, err
}

// SignalData reads the data of all signals of a job; see store.Views.
func (db *DB) SignalData(ctx context.Context, job int64) (map[int64][]byte, error) {
	data := make(map[int64][]byte)
	err := db.query(ctx, "read the data of signals", "select seq, data from signal where job = $1", func(c *cursor) {
		seq := c.num()
		data[seq] = c.body()
	}, job)
	return data, err
}
