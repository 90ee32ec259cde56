package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/machine"
)

const (
	// noteEvery is how often the row of a process is written: a commit costs more than
	// touching the lock file of its worker, which is enough to show that it lives.
	noteEvery = 10 * time.Second
	// noteLimit bounds the wait for a place among the writers. A note that gets none is
	// written with a later beat.
	noteLimit = 500 * time.Millisecond
)

// notes records when the rows of processes were last written by this handle.
type notes struct {
	mu sync.Mutex
	at map[int64]int64
}

// Beat records that a worker is alive by touching its lock file or, if it is remote, with all
// beats of the same half second. It returns what the worker has to know. Now and then it also writes
// the row of the process; see store.Ledger.
func (db *DB) Beat(ctx context.Context, p link.Pulse) (*link.Pulsed, error) {
	switch {
	case p.Remote:
		if err := db.remoteBeat(ctx, p.Worker); err != nil {
			return nil, fmt.Errorf("beat of worker %d: %w", p.Worker, err)
		}
	case p.Worker != 0:
		if err := db.holds.beat(workerName(p.Worker)); err != nil {
			return nil, fmt.Errorf("beat of worker %d: %w", p.Worker, err)
		}
	}
	answer := new(link.Pulsed)
	err := db.read(ctx, "beat", func(c *conn) error { return answerPulse(c, p, answer) })
	if err != nil {
		return nil, err
	}
	db.note(ctx, p)
	return answer, nil
}

func answerPulse(c *conn, p link.Pulse, answer *link.Pulsed) error {
	if p.Worker == 0 {
		return nil
	}
	err := c.each(selectWorkerState, func(b *row) { b.int(int64(p.Worker)) }, func(cols *columns) error {
		answer.State = machine.State(cols.text())
		return nil
	})
	if err != nil {
		return err
	}
	err = c.each(selectStops, func(b *row) { b.int(int64(p.Worker)) }, func(cols *columns) error {
		k := pawl.StepKey{Job: rowkey.Job(cols.int()), Ord: pawl.Ord(cols.int())}
		stop := link.Stop{StepKey: k, Claim: int(cols.int())}
		if p.Unnamed || slices.Contains(p.Claims, stop) {
			answer.Stops = append(answer.Stops, stop)
		}
		return nil
	})
	for _, claim := range p.Claims {
		if err != nil {
			return err
		}
		held := false
		err = c.each(selectClaimed, func(b *row) { b.ints(int64(claim.Job), int64(claim.Ord), int64(claim.Claim), int64(p.Worker)) }, func(*columns) error {
			held = true
			return nil
		})
		if !held {
			answer.Taken = append(answer.Taken, claim)
		}
	}
	for _, route := range p.Routes {
		for _, s := range []statement{selectClaimableSteps, selectClaimableJobs} {
			if err != nil || answer.Work {
				return err
			}
			err = c.each(s, func(b *row) { b.ints(int64(route), 1) }, func(*columns) error {
				answer.Work = true
				return nil
			})
		}
	}
	return err
}

// note writes the row of a process, if that is due.
func (db *DB) note(ctx context.Context, p link.Pulse) {
	n, now := &p.Node, db.now()
	if n.ID == 0 || !db.notes.due(n.ID, now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, noteLimit)
	defer cancel()
	err := db.writer.transact(ctx, func(c *conn) error {
		return c.run(upsertNode, func(b *row) {
			b.int(n.ID)
			b.text(n.Role)
			b.text(n.Name)
			b.text(n.Host)
			b.int(int64(n.PID))
			b.text(n.Version)
			b.ints(now, now, p.Clock-now)
		})
	})
	if err != nil {
		db.notes.forget(n.ID)
		db.log.Debug("a process could not be noted; it is tried again", "error", err)
	}
}

// due reports whether the row has to be written now, and counts it as written.
func (n *notes) due(id, now int64) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if at, known := n.at[id]; known && now-at < noteEvery.Microseconds() && now >= at {
		return false
	}
	if n.at == nil {
		n.at = make(map[int64]int64)
	}
	n.at[id] = now
	return true
}

func (n *notes) forget(id int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.at, id)
}

// Nodes reads the processes that reported recently; see store.Views.
func (db *DB) Nodes(ctx context.Context) ([]*pawl.Node, error) {
	var nodes []*pawl.Node
	err := db.read(ctx, "list processes", func(c *conn) error {
		return c.each(selectNodes, func(b *row) { b.int(db.now() - store.NodeMemory.Microseconds()) }, func(cols *columns) error {
			nodes = append(nodes, &pawl.Node{ID: cols.int(), Role: cols.text(), Name: cols.text(), Host: cols.text(), PID: int(cols.int()), Version: cols.text(),
				StartedAt: cols.int(), BeatAt: cols.int(), Skew: cols.int()})
			return nil
		})
	})
	return nodes, err
}
