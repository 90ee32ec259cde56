package pawl

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/pawl-dev/pawl/internal/rowkey"
)

// Route returns the key under which steps wait for a worker: a digest of workspace,
// queue and handler, so that every process computes the same and no table is needed.
// Job is 0, or the key of a private job, whose steps only the process that owns it
// serves. A route is never 0.
func Route(workspace, queue, handler string, job rowkey.Job) rowkey.Route {
	b := make([]byte, 0, 128) // enough for most, and on the stack
	for _, s := range [...]string{workspace, queue, handler} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	b = binary.AppendVarint(b, int64(job))
	sum := sha256.Sum256(b)
	return rowkey.Route(binary.BigEndian.Uint64(sum[:8])>>1) | 1
}
