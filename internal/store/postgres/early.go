package postgres

import (
	"context"
	"errors"

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
	ch := r.q.Early(r.Facts)
	if ch == nil || len(ch.Jobs)+len(ch.Steps) == 0 || bodiesOf(ch) > maxEarly {
		return nil
	}
	w, err := db.encodeEarly(r, ch)
	if err != nil {
		return errors.Join(err, p.close())
	}
	r.written, p.calls = w, w.calls
	return p.send(context.Background())
}

// maxEarly is up to how many bytes of bodies are written early. The server reads nothing while it
// sends claims, and the client reads nothing while it writes: more than fits into the buffers of a
// connection would wait until the driver notices that.
const maxEarly = 64 << 10

func bodiesOf(ch *store.Changes) (n int) {
	for _, u := range ch.Jobs {
		n += len(u.Record.Output)
	}
	for _, u := range ch.Steps {
		n += len(u.Record.Output)
	}
	return n
}

// encodeEarly prepares early changes. The rows that they do not change are verified with the rest.
func (db *DB) encodeEarly(r *reading, ch *store.Changes) (*writing, error) {
	w := &writing{room: r.room, alike: &db.alikeStatements}
	w.add(inReading)
	change(w, setJobs, jobTable, w.moveJobs(r, ch.Jobs))
	change(w, setSteps, stepTable, w.moveSteps(r, ch.Steps))
	for _, u := range ch.Jobs {
		f := r.jobs[u.Record.Key()]
		f.cached, f.written, f.head = false, true, u.Record.Head
	}
	for _, u := range ch.Steps {
		f := r.steps[u.Record.StepKey]
		f.cached, f.written, f.head = false, true, u.Record.Head
	}
	w.check(w.complete(ch))
	return w, w.err
}
