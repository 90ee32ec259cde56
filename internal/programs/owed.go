package programs

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
	journalPatience = 5 * time.Second // for the journal to take an entry
	payInterval     = time.Second     // between attempts to write what is owed
	settlePatience  = 5 * time.Second // for the last one
	maxOwed         = 100             // entries of one trail; there may be thousands of services
)

var errSlow = errors.New("the disk does not answer")

// An owing is a Journal that holds up nothing: to keep programs running goes before
// recording it. What the journal refuses, or has not taken after journalPatience, is
// owed to it: counted, kept in memory, and written when the journal takes entries again.
type owing struct {
	supervisor.Journal
	log *slog.Logger

	mu    sync.Mutex
	debts map[string]*debt // by the id of the service
	owed  int              // entries of all debts
}

// A debt is what the journal is owed of the trails of a service.
type debt struct {
	entries []audit.Entry // oldest first; the first may be under way
	why     error

	leftOut int        // entries that were let go
	entity  string     // of the last entry
	ahead   int64      // by how much the supervisor's numbers are ahead of those of its trail
	head    audit.Hash // of the last entry, if ahead is not 0
}

var (
	_ supervisor.Journal = (*owing)(nil)
	_ supervisor.Trailer = (*owing)(nil)
)

// Append implements supervisor.Journal. Those of one service come one after another.
func (j *owing) Append(ctx context.Context, e audit.Entry) error {
	if j.queued(&e) {
		return nil
	}
	err := j.try(ctx, e)
	if err != nil && !errors.Is(err, supervisor.ErrConflict) {
		j.owe(e, err)
		return nil
	}
	return err
}

// queued gives e its place in its trail, and reports whether that is behind others that
// are owed.
func (j *owing) queued(e *audit.Entry) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.debts[serviceOf(e.Entity)]
	if d == nil {
		return false
	}
	d.number(e)
	if len(d.entries) == 0 {
		return false
	}
	j.add(d, *e)
	return true
}

// serviceOf returns the id of the service that an entry is of.
func serviceOf(entity string) string {
	id, _, _ := strings.Cut(strings.TrimPrefix(entity, supervisor.Entity("", 1)), "~")
	return id
}

// try gives the journal an entry. One that takes too long may be taken all the same.
func (j *owing) try(ctx context.Context, e audit.Entry) error {
	tried := make(chan error, 1)
	go func() { tried <- j.Journal.Append(ctx, e) }()
	timer := time.NewTimer(journalPatience)
	defer timer.Stop()
	select {
	case err := <-tried:
		return err
	case <-timer.C:
		return errSlow
	}
}

// owe keeps an entry that the journal has not taken.
func (j *owing) owe(e audit.Entry, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.owed == 0 {
		j.log.Error("the history cannot be written; programs are kept running without it", "error", err)
	}
	id := serviceOf(e.Entity)
	d := j.debts[id]
	if d == nil {
		if j.debts == nil {
			j.debts = map[string]*debt{}
		}
		d = &debt{entity: e.Entity}
		j.debts[id] = d
	}
	d.why = err
	j.add(d, e)
}

// add needs mu.
func (j *owing) add(d *debt, e audit.Entry) {
	before := len(d.entries)
	d.entries = append(d.entries, e)
	if len(d.entries) > maxOwed {
		d.thin()
	}
	j.owed += len(d.entries) - before
}

// number gives an entry its place in its trail, which is not the one that the
// supervisor takes it for if some were left out.
func (d *debt) number(e *audit.Entry) {
	if e.Entity != d.entity { // another life
		d.entity, d.ahead = e.Entity, 0
	}
	if d.ahead > 0 {
		e.Sequence -= d.ahead
		e.Seal(d.head)
		d.head = e.Hash
	}
}

// thin leaves out, of the older half, moves that have led back to where they began, so
// that what is left is a trail without a gap. The first entry stays, as it may be under
// way, and so does the newer half, of which the last entry is what a restart goes by.
func (d *debt) thin() {
	half := len(d.entries) / 2
	path := slices.Clone(d.entries[:1])
	for _, e := range d.entries[1:half] {
		i := slices.IndexFunc(path, func(p audit.Entry) bool { return p.To == e.To && p.Entity == e.Entity })
		if i < 0 {
			path = append(path, e)
			continue
		}
		for _, gone := range append(path[i+1:], e) {
			d.leftOut++
			if gone.Entity == d.entity {
				d.ahead++
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

// run writes what is owed, whenever the journal takes it, until ctx ends.
func (j *owing) run(ctx context.Context) {
	tick := time.NewTicker(payInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_ = j.pay(ctx) // why not is told of each service
		case <-ctx.Done():
			return
		}
	}
}

// pay writes what is owed, until the journal refuses something. It is called by one at
// a time.
func (j *owing) pay(ctx context.Context) error {
	for _, id := range j.debtors() {
		for e, ok := j.oldest(id); ok; e, ok = j.oldest(id) {
			err := j.Journal.Append(ctx, e)
			if err != nil && !errors.Is(err, supervisor.ErrConflict) {
				j.refused(id, err)
				return err
			}
			j.paid(id, err)
		}
	}
	return nil
}

// debtors returns the services of which something is owed.
func (j *owing) debtors() (ids []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for id, d := range j.debts {
		if len(d.entries) > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

func (j *owing) oldest(id string) (audit.Entry, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if d := j.debts[id]; d != nil && len(d.entries) > 0 {
		return d.entries[0], true
	}
	return audit.Entry{}, false
}

func (j *owing) refused(id string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.debts[id].why = err
}

// paid notes that the oldest entry is written. After a conflict none of them ever will
// be: somebody else writes the trail.
func (j *owing) paid(id string, conflict error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	d, n := j.debts[id], 1
	if conflict != nil {
		n = len(d.entries)
		d.leftOut += n
		j.log.Error("the history of a service has another entry in its place", "service", id, "left out", n, "error", conflict)
	}
	d.entries = d.entries[n:]
	if len(d.entries) == 0 && d.leftOut == 0 {
		delete(j.debts, id)
	}
	if j.owed -= n; j.owed == 0 {
		j.log.Info("the history is written again")
	}
}

// settle pays what it can at the end, when run is over, and returns how many entries are
// lost.
func (j *owing) settle(ctx context.Context, over <-chan struct{}) (lost int, err error) {
	paid := make(chan error, 1)
	go func() {
		<-over
		paid <- j.pay(ctx)
	}()
	timer := time.NewTimer(settlePatience)
	defer timer.Stop()
	select {
	case err = <-paid:
	case <-timer.C:
		err = errSlow
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.owed, err
}

// unrecorded returns what the history of a service lacks, or nil.
func (j *owing) unrecorded(id string) *control.Unrecorded {
	j.mu.Lock()
	defer j.mu.Unlock()
	d := j.debts[id]
	if d == nil {
		return nil
	}
	u := &control.Unrecorded{Moves: len(d.entries), LeftOut: d.leftOut}
	if u.Moves > 0 {
		u.Error = d.why.Error()
	}
	return u
}

// Last implements supervisor.Journal. The caller goes on from the number of that entry.
func (j *owing) Last(ctx context.Context, entity string) (audit.Entry, error) {
	j.mu.Lock()
	if d := j.debts[serviceOf(entity)]; d != nil {
		if d.entity == entity {
			d.ahead = 0
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

// Trail implements supervisor.Trailer: what is written, if the journal can be read, and
// what is owed.
func (j *owing) Trail(ctx context.Context, entity string) (trail []audit.Entry, err error) {
	owed := j.of(entity) // first: what is written meanwhile is in both
	if t, ok := j.Journal.(supervisor.Trailer); ok {
		trail, err = t.Trail(ctx, entity)
	}
	last := int64(0)
	if len(trail) > 0 {
		last = trail[len(trail)-1].Sequence
	}
	for _, e := range owed {
		if e.Sequence > last {
			trail = append(trail, e)
		}
	}
	return trail, err
}

// of returns what is owed of a trail.
func (j *owing) of(entity string) (owed []audit.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if d := j.debts[serviceOf(entity)]; d != nil {
		for _, e := range d.entries {
			if e.Entity == entity {
				owed = append(owed, e)
			}
		}
	}
	return owed
}

// Lives implements supervisor.Trailer, likewise.
func (j *owing) Lives(ctx context.Context, id string) (first, last int, err error) {
	if t, ok := j.Journal.(supervisor.Trailer); ok {
		first, last, err = t.Lives(ctx, id)
	}
	for len(j.of(supervisor.Entity(id, last+1))) > 0 {
		first, last = max(first, 1), last+1
	}
	return first, last, err
}
