package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Payloads reads the payload sealed by the trails of records; see store.Views.
func (db *DB) Payloads(ctx context.Context, kind string, keys []pawl.StepKey) (found map[pawl.StepKey]store.Payload, through int, err error) {
	list := store.PayloadColumns(kind)
	key, join, tree := "id, 0::bigint", "id = u.a", "tree"
	switch kind {
	case kindStep:
		key, join = "job, ord", "job = u.a and ord = u.b"
	case kindSchedule:
		tree = "null::bytea"
	}
	sql := "select " + key + ", seq, " + tree + ", " + strings.Join(list, ", ") +
		" from unnest($1::bigint[], $2::bigint[]) with ordinality u(a, b, n) join " + kind + " on " + join + " order by u.n"
	jobs, ords := make([]int64, len(keys)), make([]int64, len(keys))
	for i, k := range keys {
		jobs[i], ords[i] = int64(k.Job), int64(k.Ord)
	}
	found, through = make(map[pawl.StepKey]store.Payload, len(keys)), len(keys)
	bytes := 0
	err = db.query(ctx, "read payload", sql, func(c *cursor) {
		if through < len(keys) {
			return
		}
		k := pawl.StepKey{Job: rowkey.Job(c.num()), Ord: pawl.Ord(c.num())}
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
		if bytes += p.Size(); bytes >= store.PayloadPageBytes {
			through = slices.Index(keys, k) + 1
		}
	}, jobs, ords)
	return found, through, err
}

// Refused counts refused facts; see store.Views.
func (db *DB) Refused(ctx context.Context, job rowkey.Job) (n int64, err error) {
	err = db.query(ctx, "count refused facts", "select count(*) from refusal where $1::bigint = 0 or job = $1", func(c *cursor) { n = c.num() }, int64(job))
	return n, err
}

// SignalData reads the data of signals of a job; see store.Views.
func (db *DB) SignalData(ctx context.Context, job rowkey.Job, after int64) (data map[int64][]byte, more bool, err error) {
	data = make(map[int64][]byte)
	bytes := 0
	err = db.query(ctx, "read the data of signals", "select seq, data from signal where job = $1 and seq > $2 order by seq", func(c *cursor) {
		if more = bytes >= store.PayloadPageBytes; more {
			return
		}
		seq, body := c.num(), c.body()
		data[seq] = body
		bytes += len(body)
	}, int64(job), after)
	return data, more, err
}
