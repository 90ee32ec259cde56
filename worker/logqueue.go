package worker

import "github.com/pawl-dev/pawl"

// maxRuns is how many chunks may wait before bytes of a stream are appended to the last
// chunk of that stream even if another stream was written in between. Below it the
// order between streams is kept; above it the number of chunks matters more.
const maxRuns = 64

// A queue holds the chunks that wait to be written, by time.
type queue struct {
	limit  int // bytes of a chunk
	chunks []pawl.Chunk
	bytes  int
}

// add appends p to its stream, in the last chunk if it fits.
func (q *queue) add(stream string, offset int64, p []byte, stamp func() int64) {
	c := q.open(stream)
	if c == nil {
		q.put(stream, offset, p, stamp)
		return
	}
	n := min(len(p), q.limit-len(c.Data))
	c.Data = append(c.Data, p[:n]...)
	q.bytes += n
	q.put(stream, offset+int64(n), p[n:], stamp)
}

// open returns the chunk to which bytes of the stream can be appended, or nil.
func (q *queue) open(stream string) *pawl.Chunk {
	for i := len(q.chunks) - 1; i >= 0; i-- {
		c := &q.chunks[i]
		if c.Stream == stream {
			if len(c.Data) == q.limit {
				return nil
			}
			return c
		}
		if len(q.chunks) < maxRuns {
			return nil
		}
	}
	return nil
}

// put appends p as chunks of its own.
func (q *queue) put(stream string, offset int64, p []byte, stamp func() int64) {
	for len(p) > 0 {
		n := min(len(p), q.limit)
		q.putWhole(stream, offset, append([]byte(nil), p[:n]...), stamp)
		offset += int64(n)
		p = p[n:]
	}
}

// putWhole appends data, which it keeps, as one chunk.
func (q *queue) putWhole(stream string, offset int64, data []byte, stamp func() int64) {
	q.chunks = append(q.chunks, pawl.Chunk{Stream: stream, Offset: offset, At: stamp(), Data: data})
	q.bytes += len(data)
}

// take removes chunks from the front: at most max bytes, but one chunk at least.
func (q *queue) take(max int) []pawl.Chunk {
	n, size := 0, 0
	for n < len(q.chunks) && (n == 0 || size+len(q.chunks[n].Data) <= max) {
		size += len(q.chunks[n].Data)
		n++
	}
	batch := q.chunks[:n:n]
	q.chunks = q.chunks[n:]
	if len(q.chunks) == 0 {
		q.chunks = nil // release what was taken
	}
	q.bytes -= size
	return batch
}
