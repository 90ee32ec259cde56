package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// maxUnreadable bounds the rows at the head of a worker's queues that cannot be
// read and are passed over. Behind more of them nothing is found.
const maxUnreadable = 1000

// unreadableSteps counts what stands at the head of queues and cannot be claimed here:
// rows that are damaged, and steps whose definition is missing, damaged or of a
// newer version. They stay where they are, for another process may read them,
// and each claim asks for as many rows more. A claim that meets more of them than
// the one before looks further at once.
type unreadableSteps struct {
	faults store.Faults

	mu   sync.Mutex
	rows map[rowkey.Worker]int // that the last claim of a worker met
}

// limit returns how many rows a claim has to ask for to get as many as are free.
func (s *unreadableSteps) limit(worker rowkey.Worker, free int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return free + min(2*s.rows[worker], maxUnreadable)
}

// met notes what a claim has met, and reports whether there may be more behind.
func (s *unreadableSteps) met(worker rowkey.Worker, n int) (more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	more = n > s.rows[worker] && s.rows[worker] < maxUnreadable
	if n == 0 {
		delete(s.rows, worker)
		return false
	}
	if s.rows == nil {
		s.rows = make(map[rowkey.Worker]int)
	}
	s.rows[worker] = n
	return more
}

// unreadable reports whether err says that a stored thing is damaged or missing,
// and not that the database is away.
func unreadable(err error) bool { return err != nil && pawl.KindOf(err) != pawl.Unavailable }

// decision returns the decision of a step, or of a pending job. It is nil if that
// cannot be claimed here: it is left in its queue, which is said once. It is nil too if
// its definition has to be read first; then all of the claim is made again.
func (c *claim) decision(t *tx, k pawl.StepKey) *decide.Decision {
	j := t.job(k.Job)
	if j != nil && c.broken[j.Definition] {
		c.unreadableSteps++
		return nil
	}
	d, err := c.e.decision(t, k.Job, decide.Answers{})
	var n *need
	switch {
	case err == nil:
		return d
	case errors.As(err, &n):
		c.needs = append(c.needs, n.definitions...)
		return nil
	}
	if c.unreadableSteps++; j != nil {
		c.broken[j.Definition] = true
	}
	if c.e.unreadableSteps.faults.New(fmt.Sprint(k, err)) {
		c.e.log.Error("a step or a pending job cannot be claimed, and is passed over", "key", k.String(), "error", err)
	}
	return nil
}

// undefined is the reason of a job whose definition cannot be read.
func undefined(j *pawl.Job, err error) pawl.Reason {
	return pawl.Reason{Job: j.ID.Public(pawl.JobPrefix), Status: j.State, Kind: pawl.ReasonUnreadable,
		Text: "its definition cannot be read, and whoever meets it passes it over: " + err.Error(),
		Hint: "a newer pawl may have made it; if not, restore it from a backup"}
}

// damaged is the reason of a step whose row cannot be read.
func (q *inquiry) damaged(ord pawl.Ord) pawl.Reason {
	r := q.reason(pawl.ReasonUnreadable, "what is stored of it cannot be read, and whoever meets it passes it over; the log says what is wrong")
	r.Step, r.Status, r.Hint = q.def.Key(ord), "", "restore it from a backup"
	return r
}
