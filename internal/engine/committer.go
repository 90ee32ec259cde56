package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// Limits of the committer.
const (
	maxGroup    = link.MaxWeight   // weight of the commands in one transaction
	heavyBytes  = link.HeavyBytes  // of bodies that weigh as much as a command
	heavyRows   = 16               // new rows that weigh as much as a command
	maxConflict = 8                // tries of a command that meets other writers
	settleLimit = 30 * time.Second // of one look into an unknown outcome
	settlePause = 100 * time.Millisecond
	settleWarns = 100 // looks that failed for each warning
)

// A command is one thing to be decided and committed.
type command interface {
	// query adds what the command has to see.
	query(q *store.Query)
	// decide changes t. Its error refuses this command and undoes what it did
	// to t; the others in the same commit stand.
	decide(t *tx) error
}

// A renewer is a command that makes new ids before it is tried again.
type renewer interface{ renew() }

// A heavy command weighs more than 1, which is what others weigh: a store takes
// only so much in one transaction.
type heavy interface{ weight() int }

// A late command goes behind the others in its commit: it takes what they free, and
// may wait for that.
type late interface{ late() }

func weightOf(cmd command) int {
	if h, ok := cmd.(heavy); ok {
		return h.weight()
	}
	return 1
}

// A group is commands that go into the same commit.
type group struct {
	cmds   []command
	errs   []error
	came   time.Time                   // when it began to wait
	passed int                         // commits that it was left out of since, if it is late
	faults map[rowkey.Definition]error // of definitions that cannot be read
	done   chan struct{}
}

func (g *group) weight() int {
	weight := 0
	for _, cmd := range g.cmds {
		weight += weightOf(cmd)
	}
	return weight
}

// A committer commits groups of commands. It gathers while commits are in
// flight and never waits otherwise.
type committer struct {
	store  store.Ledger
	log    *slog.Logger
	begin  func(*store.Query, *store.Facts) *tx
	after  func(*tx)                       // called once for each commit, before its commands are answered
	admit  func(later, batch []*group) int // how many of the late groups go with the batch; the others wait
	supply func(ctx context.Context, definitions []rowkey.Definition, faults map[rowkey.Definition]error) error
	pause  time.Duration

	mu     sync.Mutex
	queue  []*group
	later  []*group    // of late commands
	again  *time.Timer // rings when it may be time for those that wait
	behind bool        // the last batch had no room for any of them
	closed bool
	free   int            // lanes that nobody has
	busy   sync.WaitGroup // the others
}

func newCommitter(s store.Ledger, lanes int, log *slog.Logger, begin func(*store.Query, *store.Facts) *tx, after func(*tx)) *committer {
	c := &committer{store: s, log: log, begin: begin, after: after, pause: settlePause, free: lanes,
		admit: func(later, _ []*group) int { return len(later) }}
	c.again = time.AfterFunc(minIdle, c.ask)
	return c
}

// errClosed is returned for commands that come after close.
var errClosed = &pawl.Error{Kind: pawl.Unavailable, Message: "the engine is closed"}

// together commits the commands in one transaction and returns the error of each; see
// do. A caller that waits in any case, and finds a free lane, commits in it by itself: to
// have another goroutine do so, and to be woken by it, takes longer than to decide.
func (c *committer) together(ctx context.Context, cmds []command, faults map[rowkey.Definition]error) ([]error, error) {
	g := &group{cmds: cmds, faults: faults, errs: make([]error, len(cmds)), came: time.Now(), done: make(chan struct{})}
	batch, err := c.enter(g)
	switch {
	case err != nil:
		return nil, err
	case batch == nil:
	case ctx.Done() != nil:
		go c.lane(batch)
	default:
		c.commit(batch)
		if batch = c.further(); batch != nil {
			go c.lane(batch)
		}
	}
	select {
	case <-g.done:
		return g.errs, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// enter lets a group wait, and returns a batch if the caller has a lane for it.
func (c *committer) enter(g *group) ([]*group, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if _, ok := g.cmds[0].(late); ok {
		c.later = append(c.later, g)
	} else {
		c.queue = append(c.queue, g)
	}
	return c.take(), nil
}

// one commits a single command and returns its error. With that of ctx the command may
// still be on its way, so what it has found is read only if there is no error.
func (c *committer) one(ctx context.Context, cmd command) error {
	errs, err := c.do(ctx, cmd)
	if err != nil {
		return err
	}
	return errs[0]
}

// close lets what is queued be committed and stops.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	c.share()
	c.mu.Unlock()
	c.busy.Wait()
	c.again.Stop()
}

// lane commits a batch, and others for as long as groups wait.
func (c *committer) lane(batch []*group) {
	for ; batch != nil; batch = c.further() {
		c.commit(batch)
	}
}

// commit ends the process if it panics, though the caller, a handler perhaps, would
// contain that: the lane would be nobody's, and those who wait for it would wait for ever.
func (c *committer) commit(batch []*group) {
	defer func() {
		if p := recover(); p != nil {
			go panic(fmt.Sprintf("a commit panicked: %v\n\n%s", p, debug.Stack()))
			select {}
		}
	}()
	c.run(batch)
	for _, g := range batch {
		close(g.done)
	}
}

// take takes a free lane, if there is one, and a batch for it, if groups wait. It
// returns nil, and takes nothing, otherwise. The lock is held.
func (c *committer) take() (batch []*group) {
	if c.free == 0 {
		return nil
	}
	c.free--
	if batch = c.next(); batch == nil {
		c.free++
		return nil
	}
	c.busy.Add(1)
	return batch
}

// further returns the next batch for a lane, or gives the lane back.
func (c *committer) further() []*group {
	c.mu.Lock()
	defer c.mu.Unlock()
	batch := c.next()
	if batch == nil {
		c.free++
		c.busy.Done()
	}
	return batch
}

// share has a free lane commit what waits, if it may. The lock is held.
func (c *committer) share() {
	if batch := c.take(); batch != nil {
		go c.lane(batch)
	}
}

// next returns the groups for a commit, at most maxGroup by weight (a group is never
// split), or nil if there are none or they had better wait. The late ones come last, but
// are never left out twice for want of room. What it leaves for that goes to a free lane;
// what had better wait does not, as what it waits for may be on its way in this commit.
func (c *committer) next() (batch []*group) {
	room := maxGroup
	if !c.behind {
		batch = fit(&c.queue, len(c.queue), batch, &room)
	}
	waiting, ready := len(c.later), c.ready(batch)
	batch = fit(&c.later, ready, batch, &room)
	if c.behind {
		batch = fit(&c.queue, len(c.queue), batch, &room)
	}
	taken := waiting - len(c.later)
	if ready > 0 {
		c.behind = taken == 0
	}
	for _, g := range c.later {
		g.passed += min(len(batch), 1)
	}
	if len(c.queue)+ready > taken {
		c.share()
	}
	return batch
}

// ready returns how many of the late groups may go with the batch. If that is not all
// of them, they are looked at again soon.
func (c *committer) ready(batch []*group) int {
	if len(c.later) == 0 || c.closed {
		return len(c.later)
	}
	n := c.admit(c.later, batch)
	if n < len(c.later) {
		c.again.Reset(minIdle)
	}
	return n
}

// ask has a free lane look whether late groups may go now.
func (c *committer) ask() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.share()
}

// fit moves n groups from a queue to a batch while there is room, and the first of a
// batch in any case.
func fit(queue *[]*group, n int, batch []*group, room *int) []*group {
	for range n {
		weight := (*queue)[0].weight()
		if weight > *room && len(batch) > 0 {
			return batch
		}
		*room -= weight
		batch, *queue = append(batch, (*queue)[0]), (*queue)[1:]
	}
	return batch
}

// run commits a batch. When its transaction fails as a whole because of other
// writers, or of something that the store does not take, its groups are
// committed one by one, so that none harms the rest.
func (c *committer) run(batch []*group) {
	err := c.attempt(batch)
	if err == nil {
		return
	}
	if len(batch) > 1 && (errors.Is(err, store.ErrStale) || pawl.KindOf(err) != pawl.Unavailable) {
		for _, g := range batch {
			c.run([]*group{g})
		}
		return
	}
	for try := 1; errors.Is(err, store.ErrStale) && try < maxConflict; try++ {
		time.Sleep(rand.N(time.Duration(try) * time.Millisecond))
		c.renew(batch)
		err = c.attempt(batch)
	}
	if err != nil {
		c.fail(batch, err)
	}
}

func (c *committer) renew(batch []*group) {
	for _, g := range batch {
		for _, cmd := range g.cmds {
			if r, ok := cmd.(renewer); ok {
				r.renew()
			}
		}
	}
}

func (c *committer) fail(batch []*group, err error) {
	if errors.Is(err, store.ErrStale) {
		err = &pawl.Error{Kind: pawl.Conflict, Message: "other writers were faster each time", Hint: "try again", Err: err}
	}
	for _, g := range batch {
		for i := range g.errs {
			g.errs[i] = &link.CommitError{Err: err}
		}
	}
}

// attempt runs one transaction for the batch.
func (c *committer) attempt(batch []*group) error {
	q := &store.Query{}
	for _, g := range batch {
		for _, cmd := range g.cmds {
			cmd.query(q)
		}
	}
	var t *tx
	err := c.store.Do(context.Background(), q, func(f *store.Facts) (*store.Changes, error) {
		if t != nil {
			t.settle(t.handoffs, false) // what it saw was outdated
		}
		t = c.begin(q, f)
		for _, g := range batch {
			t.faults = g.faults
			for i, cmd := range g.cmds {
				g.errs[i] = c.decide(t, cmd)
			}
		}
		return t.changes()
	})
	if errors.Is(err, store.ErrUnknown) {
		err = c.settle(t)
	}
	if err == nil {
		c.after(t)
	} else if t != nil {
		t.settle(t.handoffs, false)
	}
	return err
}

// settle finds out whether a commit of unknown outcome happened (K5). If it did
// not, the batch may be tried again. It does not give up before the committer is
// closed: what was claimed and not told would be nobody's while its worker lives.
func (c *committer) settle(t *tx) error {
	first, ok := t.first()
	if !ok {
		return store.ErrStale // nothing that could be looked up: decide anew
	}
	for try := 0; ; try++ {
		committed, err := c.lookUp(&first)
		switch {
		case err == nil && committed:
			return nil
		case err == nil:
			return store.ErrStale
		case c.isClosed():
			return &pawl.Error{Kind: pawl.Unavailable, Message: "the outcome of a commit is not known", Err: err}
		}
		if try%settleWarns == 0 {
			c.log.Warn("settling a commit of unknown outcome; it is tried again", "error", err)
		}
		time.Sleep(c.pause)
	}
}

func (c *committer) lookUp(e *store.Entry) (committed bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), settleLimit)
	defer cancel()
	return c.store.Settle(ctx, e.EntityKey, &e.Entry)
}

func (c *committer) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// decide runs one command and undoes what it did if it is refused, as it is if it
// has read what its query did not ask for. A panic is contained to the command.
func (c *committer) decide(t *tx, cmd command) (err error) {
	t.open()
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("a decision panicked", "command", fmt.Sprintf("%T", cmd), "panic", p, "stack", string(debug.Stack()))
			err = pawl.Errorf(pawl.Internal, "the decision of %T panicked: %v", cmd, p)
		}
		if t.fault != nil {
			err = t.fault // the rest follows from it
		}
		if err != nil {
			t.undo()
		}
	}()
	if err = cmd.decide(t); err == nil {
		err = t.uncounted()
	}
	return err
}
