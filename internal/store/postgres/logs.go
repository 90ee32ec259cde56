package postgres

import (
	"context"
	"math"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

var (
	// A chunk that is sent again is the same chunk.
	newChunks = &statement{"new_chunks", insert("log", chunkColumns, "on conflict do nothing")}
	// The output of steps does not wait for the disk.
	lazily = &statement{"lazily", "set local synchronous_commit = off"}
)

// AppendLogs stores chunks, in one round trip. A crash of the server may lose those of its
// last moments.
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
		r.num(int64(c.Job))
		r.num(int64(c.Ord))
		r.num(int64(c.Claim))
		r.text(c.Stream)
		r.num(c.Offset)
		r.num(c.At)
		r.blob(append([]byte{}, c.Data...))
	}
	return r.params()
}

// logPage reads a page: the lengths of data are known without reading the data.
var logPage = `select ` + names("", chunkColumns) + ` from (
  select *, sum(octet_length(data)) over (order by ord, claim, at, off, stream rows between unbounded preceding and 1 preceding) as bytes from (
    select * from log where job = $1 and ord <= $2 and (ord, claim) >= ($3, $4) and (ord, claim, at, off, stream) > ($3, $4, $5, $6, $7)
    order by ord, claim, at, off, stream limit $8) t
) t where coalesce(bytes, 0) < $9 order by ord, claim, at, off, stream`

// Logs reads a page of the chunks of a job, of one step if ord is not 0.
func (db *DB) Logs(ctx context.Context, job rowkey.Job, ord pawl.Ord, after store.LogPlace, limit int) ([]pawl.Chunk, error) {
	last := ord
	if ord == 0 {
		last = math.MaxInt64
	} else if after.Ord < ord {
		after = store.LogPlace{Ord: ord}
	}
	var chunks []pawl.Chunk
	err := db.query(ctx, "read logs", logPage, func(c *cursor) {
		var k pawl.Chunk
		k.Job = rowkey.Job(c.num())
		k.Ord = pawl.Ord(c.num())
		k.Claim = c.int()
		k.Stream = c.text()
		k.Offset = c.num()
		k.At = c.num()
		k.Data = c.blob()
		if c.err == nil {
			chunks = append(chunks, k)
		}
	}, int64(job), int64(last), int64(after.Ord), after.Claim, after.At, after.Offset, after.Stream, limit, store.PageBytes)
	return chunks, err
}
