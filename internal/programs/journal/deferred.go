package journal

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/supervisor"
)

const (
	journalTimeout    = 5 * time.Second // for the journal to append an entry
	flushInterval     = time.Second     // between attempts to write deferred entries
	finalFlushTimeout = 5 * time.Second // for the last attempt
	maxDeferred       = 100             // entries per service; there may be thousands of services
)

var errSlow = errors.New("the disk does not respond")

// A Deferred is a journal whose Append does not fail because of the disk: keeping
// programs running is more important than recording it. An entry that the underlying
// journal refuses, or has not appended within journalTimeout, is deferred: kept in memory,
// counted, and written when the journal works again.
type Deferred struct {
	supervisor.Journal
	Log *slog.Logger

	mu     sync.Mutex
	trails map[string]*deferredTrail // by the id of the service
	count  int                       // entries of all trails
}

// A deferredTrail holds the deferred entries of one service.
type deferredTrail struct {
	entries []audit.Entry // oldest first; the first may be in an Append
	err     error         // of the last Append

	dropped int        // entries that will never be written
	entity  string     // of the last entry
	shift   int64      // by how much the supervisor's sequence numbers are ahead of the trail's, since some entries were dropped
	head    audit.Hash // hash of the last entry, if shift is not 0
}

var (
	_ supervisor.Journal = (*Deferred)(nil)
	_ supervisor.Trailer = (*Deferred)(nil)
)

// Append implements supervisor.Journal. Calls for one service come one after another.
func (j *Deferred) Append(ctx context.Context, e audit.Entry) error {
	if j.queued(&e) {
		return nil
	}
	err := j.try(ctx, e)
	if err != nil && !errors.Is(err, supervisor.ErrConflict) {
		j.deferEntry(e, err)
		return nil
	}
	return err
}

// queued renumbers e if entries were dropped, and queues it if earlier entries of its
// service are deferred. It reports whether it did.
func (j *Deferred) queued(e *audit.Entry) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.trails[serviceID(e.Entity)]
	if d == nil {
		return false
	}
	d.renumber(e)
	if len(d.entries) == 0 {
		return false
	}
	j.add(d, *e)
	return true
}

// serviceID returns the id of the service that an entity belongs to.
func serviceID(entity string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(entity, supervisor.Entity("", 1)), "~")
	return id
}

// try appends an entry to the journal. After a timeout the journal may still append it.
func (j *Deferred) try(ctx context.Context, e audit.Entry) error {
	tried := make(chan error, 1)
	go func() { tried <- j.Journal.Append(ctx, e) }()
	timer := time.NewTimer(journalTimeout)
	defer timer.Stop()
	select {
	case err := <-tried:
		return err
	case <-timer.C:
		return errSlow
	}
}

// deferEntry defers an entry that the journal has not appended.
func (j *Deferred) deferEntry(e audit.Entry, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.count == 0 {
		j.Log.Error("the history cannot be written; programs are kept running without it", "error", err)
	}
	id := serviceID(e.Entity)
	d := j.trails[id]
	if d == nil {
		if j.trails == nil {
			j.trails = map[string]*deferredTrail{}
		}
		d = &deferredTrail{entity: e.Entity}
		j.trails[id] = d
	}
	d.err = err
	j.add(d, e)
}

// add is called with mu held.
func (j *Deferred) add(d *deferredTrail, e audit.Entry) {
	before := len(d.entries)
	d.entries = append(d.entries, e)
	if len(d.entries) > maxDeferred {
		d.compact()
	}
	j.count += len(d.entries) - before
}

// renumber gives an entry its sequence number in the trail. It differs from the
// supervisor's if entries were dropped.
func (d *deferredTrail) renumber(e *audit.Entry) {
	if e.Entity != d.entity { // a removed service was added again
		d.entity, d.shift = e.Entity, 0
	}
	if d.shift > 0 {
		e.Sequence -= d.shift
		e.Seal(d.head)
		d.head = e.Hash
	}
}

// compact drops, from the older half, transitions that led back to a state on the way,
// so that what is left is a trail without a gap. The first entry stays, since it may be
// in an Append, and so does the newer half: a restart continues from its last entry.
func (d *deferredTrail) compact() {
	half := len(d.entries) / 2
	path := slices.Clone(d.entries[:1])
	for _, e := range d.entries[1:half] {
		i := slices.IndexFunc(path, func(p audit.Entry) bool { return p.To == e.To && p.Entity == e.Entity })
		if i < 0 {
			path = append(path, e)
			continue
		}
		for _, gone := range append(path[i+1:], e) {
			d.dropped++
			if gone.Entity == d.entity {
				d.shift++
			}
		}
		path = path[:i+1]
	}
	path = append(path, d.entries[half:]...)
	for i := 1; i < len(path); i++ {
		if last := &path[i-1]; last.Entity == path[i].Entity {
			path[i].Sequence = last.Sequence + 1
			path[i].Seal(last.Hash)
		}
	}
	d.entries, d.head = path, path[len(path)-1].Hash
}

// Run writes the deferred entries every flushInterval, until ctx ends.
func (j *Deferred) Run(ctx context.Context) {
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = j.flush(ctx) // each trail keeps the error
		case <-ctx.Done():
			return
		}
	}
}

// flush writes the deferred entries, until the journal refuses one. Calls must not
// overlap.
func (j *Deferred) flush(ctx context.Context) error {
	for _, id := range j.pending() {
		for e, ok := j.oldest(id); ok; e, ok = j.oldest(id) {
			err := j.Journal.Append(ctx, e)
			if err != nil && !errors.Is(err, supervisor.ErrConflict) {
				j.setError(id, err)
				return err
			}
			j.written(id, err)
		}
	}
	return nil
}

// pending returns the services with deferred entries.
func (j *Deferred) pending() (ids []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, d := range j.trails {
		if len(d.entries) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func (j *Deferred) oldest(id string) (audit.Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if d := j.trails[id]; d != nil && len(d.entries) > 0 {
		return d.entries[0], true
	}
	return audit.Entry{}, false
}

func (j *Deferred) setError(id string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.trails[id].err = err
}

// written records that the oldest entry was written. After a conflict, all deferred
// entries of the service are dropped: another writer has written to the trail.
func (j *Deferred) written(id string, conflict error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	d, n := j.trails[id], 1
	if conflict != nil {
		n = len(d.entries)
		d.dropped += n
		j.Log.Error("another writer has written to the history of a service", "service", id, "left out", n, "error", conflict)
	}
	d.entries = d.entries[n:]
	if len(d.entries) == 0 && d.dropped == 0 {
		delete(j.trails, id)
	}
	if j.count -= n; j.count == 0 {
		j.Log.Info("the history is written again")
	}
}

// Finish waits until Run has ended (over is closed) and flushes one last time, for at most
// finalFlushTimeout. It returns the number of entries that are lost.
func (j *Deferred) Finish(ctx context.Context, over <-chan struct{}) (lost int, err error) {
	flushed := make(chan error, 1)
	go func() {
		<-over
		flushed <- j.flush(ctx)
	}()
	timer := time.NewTimer(finalFlushTimeout)
	defer timer.Stop()
	select {
	case err = <-flushed:
	case <-timer.C:
		err = errSlow
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.count, err
}

// Unrecorded returns what is missing in the history of a service, or nil.
func (j *Deferred) Unrecorded(id string) *control.Unrecorded {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.trails[id]
	if d == nil {
		return nil
	}
	u := &control.Unrecorded{Moves: len(d.entries), LeftOut: d.dropped}
	if u.Moves > 0 {
		u.Error = d.err.Error()
	}
	return u
}

// Last implements supervisor.Journal. The caller continues from the sequence number of the
// entry that it gets.
func (j *Deferred) Last(ctx context.Context, entity string) (audit.Entry, error) {
	j.mu.Lock()
	if d := j.trails[serviceID(entity)]; d != nil {
		if d.entity == entity {
			d.shift = 0
		}
		for _, e := range slices.Backward(d.entries) {
			if e.Entity == entity {
				j.mu.Unlock()
				return e, nil
			}
		}
	}
	j.mu.Unlock()
	return j.Journal.Last(ctx, entity)
}

// Trail implements supervisor.Trailer: the entries in the journal, if it can be read,
// followed by the deferred ones.
func (j *Deferred) Trail(ctx context.Context, entity string) (trail []audit.Entry, err error) {
	deferred := j.entriesOf(entity) // before the journal is read: an entry that is written meanwhile is then in both, not in neither
	if t, ok := j.Journal.(supervisor.Trailer); ok {
		trail, err = t.Trail(ctx, entity)
	}
	last := int64(0)
	if len(trail) > 0 {
		last = trail[len(trail)-1].Sequence
	}
	for _, e := range deferred {
		if e.Sequence > last {
			trail = append(trail, e)
		}
	}
	return trail, err
}

// entriesOf returns the deferred entries of an entity.
func (j *Deferred) entriesOf(entity string) (deferred []audit.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if d := j.trails[serviceID(entity)]; d != nil {
		for _, e := range d.entries {
			if e.Entity == entity {
				deferred = append(deferred, e)
			}
		}
	}
	return deferred
}

// Lives implements supervisor.Trailer: the lives in the journal and among the deferred
// entries.
func (j *Deferred) Lives(ctx context.Context, id string) (first, last int, err error) {
	if t, ok := j.Journal.(supervisor.Trailer); ok {
		first, last, err = t.Lives(ctx, id)
	}
	for len(j.entriesOf(supervisor.Entity(id, last+1))) > 0 {
		first, last = max(first, 1), last+1
	}
	return first, last, err
}
