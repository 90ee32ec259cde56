package postgres

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// A worker's exchange would let client and server wait for each other: the server for what is
// decided, the client for what is claimed and for the commit. So what is claimed is requested
// first; while the server looks for it, the client decides on the reports, whose rows are cached,
// and sends what they change for good (store.Query.Early). While the server writes that, the
// client decides on what was claimed. There is no further wait: all are sent together, and an error
// of an early one shows before the commit.
//
// The early changes are sent before it is known that the transaction has begun. If it has not, they
// would be a transaction of their own, and be committed without a trail. So they begin with a
// statement that fails then (inReading).
//
// The rows that are written early are locked in the order of their kinds and keys, but after those of
// claims, and before the jobs that are locked at the end, although steps are among them. Two such
// transactions may wait for each other. The limit of waits for recalled rows ends that, and the one
// that it meets reads everything in order.

// readAndWrite sends the reading half of a transaction, has the rest be decided of what is known,
// and sends that before it reads the results. The rows must be recalled.
func (db *DB) readAndWrite(r *reading, p *pipe) error {
	r.pipe = p
	return p.within(db.patience, func() error {
		reads := len(p.calls)
		if err := p.send(context.Background()); err != nil {
			return err
		}
		if err := db.writeEarly(r, p); err != nil {
			return err
		}
		return p.receiveFirst(reads)
	})
}

// writeEarly sends what a transaction changes for good before it knows what it claims.
func (db *DB) writeEarly(r *reading, p *pipe) error {
	r.sortWaiting()
	ch := r.q.Early(r.Facts)
	if ch == nil || len(ch.Jobs)+len(ch.Steps) == 0 {
		return nil
	}
	w := db.encodeEarly(r, ch)
	if w == nil {
		return nil
	}
	r.written, p.calls = w, w.calls
	return p.send(context.Background())
}

// maxEarly is up to how many bytes are written early. The server reads nothing while it sends claims,
// and the client reads nothing while it writes: more than fits into the buffers of a connection would
// wait until the driver notices that. Linux gives a Unix socket 208 KiB by default.
const maxEarly = 128 << 10

// encodeEarly prepares early changes for the server. It returns nil if they are too large, if one cannot
// be encoded, or if one is not among the narrow updates, which verify what they write: then all are
// written at the end.
func (db *DB) encodeEarly(r *reading, ch *store.Changes) *writing {
	if outputs(ch) > maxEarly {
		return nil
	}
	w := &writing{room: r.room, alike: &db.alikeStatements}
	w.add(inReading)
	others := len(w.moveJobs(r, ch.Jobs)) + len(w.moveSteps(r, ch.Steps))
	written := others == 0 && w.err == nil && sizeOf(w.calls) <= maxEarly
	for _, u := range ch.Jobs {
		r.jobs[u.Record.Key()].early(written, &u.Record.Record)
	}
	for _, u := range ch.Steps {
		r.steps[u.Record.StepKey].early(written, &u.Record.Record)
	}
	if !written {
		return nil
	}
	return w
}

// outputs returns how many bytes the outputs of the changes are.
func outputs(ch *store.Changes) (n int) {
	for _, u := range ch.Jobs {
		n += len(u.Record.Output)
	}
	for _, u := range ch.Steps {
		n += len(u.Record.Output)
	}
	return n
}

// early notes whether a cached row was written early.
func (f *foundRow[R]) early(written bool, now *pawl.Record) {
	f.cached, f.written, f.head = !written, written, now.Head
}
