package postgres

import (
	"context"

	"github.com/pawl-dev/pawl"
)

var (
	// A chunk that is sent again is the same chunk.
	newChunks = &statement{"new_chunks", insert("log", chunkColumns, "on conflict do nothing")}
	// What steps print does not wait for the disk.
	lazily = &statement{"lazily", "set local synchronous_commit = off"}
)

// AppendLogs stores chunks, in one round trip. A crash of the server may lose
// those of its last moments.
func (db *DB) AppendLogs(ctx context.Context, chunks []pawl.Chunk) error {
	if len(chunks) == 0 {
		return nil
	}
	conn, err := db.pool.Acquire(ctx)
	if err != nil {
		return connectError(err)
	}
	defer conn.Release()
	p := db.pipe(conn)
	p.add(begin, nil)
	p.add(lazily, nil)
	p.add(newChunks, nil, chunkRows(chunks)...)
	p.add(commit, nil)
	return queryError("store logs", p.run(ctx))
}

func chunkRows(chunks []pawl.Chunk) [][]byte {
	r := collect(chunkColumns, len(chunks))
	for i := range chunks {
		c := &chunks[i]
		r.num(c.Job)
		r.num(int64(c.Ord))
		r.num(int64(c.Claim))
		r.text(c.Stream)
		r.num(c.Offset)
		r.num(c.At)
		r.blob(append([]byte{}, c.Data...))
	}
	return r.params()
}

// Logs reads the chunks of a job, of one step if ord is not 0.
func (db *DB) Logs(ctx context.Context, job int64, ord pawl.Ord) ([]pawl.Chunk, error) {
	sql, args := "select "+names("", chunkColumns)+" from log where job = $1", []any{job}
	if ord != 0 {
		sql, args = sql+" and ord = $2", append(args, int64(ord))
	}
	var chunks []pawl.Chunk
	err := db.query(ctx, "read logs", sql+" order by ord, claim, at, off", func(c *cursor) {
		var k pawl.Chunk
		k.Job = c.num()
		k.Ord = pawl.Ord(c.num())
		k.Claim = c.int()
		k.Stream = c.text()
		k.Offset = c.num()
		k.At = c.num()
		k.Data = c.blob()
		if c.err == nil {
			chunks = append(chunks, k)
		}
	}, args...)
	return chunks, err
}
