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
	maxGroup    = link.MaxWeight   // total weight of the commands in one transaction
	heavyBytes  = link.HeavyBytes  // bytes of bodies that weigh as much as one command
	heavyRows   = 16               // new rows that weigh as much as a command
	maxConflict = 8                // tries of a command that conflicts with other writers
	settleLimit = 30 * time.Second // time limit of one lookup of an unknown outcome
	settlePause = 100 * time.Millisecond
	settleWarns = 100 // failed lookups per warning
)

// A command is one unit of work to decide and commit.
type command interface {
	// query adds what the command has to see.
	query(q *store.Query)
	// decide changes t. An error refuses this command and undoes its changes to t; the
	// other commands of the commit stand.
	decide(t *tx) error
}

// A renewer is a command that makes new ids before it is tried again.
type renewer interface{ renew() }

// A heavy command weighs more than 1, the weight of other commands. A store accepts only a
// limited weight in one transaction.
type heavy interface{ weight() int }

// A late command comes after the others in its commit: it uses the slots that they free,
// and may wait for them. It is a submission, which creates a job: attempt counts late commands
// to make room for the jobs.
type late interface{ late() *submit }

func weightOf(cmd command) int {
	if h, ok := cmd.(heavy); ok {
		return h.weight()
	}
	return 1
}

// A group is a set of commands that go into the same commit.
type group struct {
	cmds   []command
	errs   []error
	came   time.Time                   // when it began to wait
	passed int                         // commits since then that left it out, if it is late
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

// A committer commits groups of commands. It gathers groups while commits are in flight,
// and waits for no other reason.
type committer struct {
	store  store.Ledger
	log    *slog.Logger
	begin  func(q *store.Query, f *store.Facts, made int) *tx
	after  func(*tx)                       // called once for each commit, before its callers return
	admit  func(later, batch []*group) int // returns how many of the late groups go with the batch; the others wait
	supply func(ctx context.Context, definitions []rowkey.Definition, faults map[rowkey.Definition]error) error
	pause  time.Duration

	unstored unstored

	mu     sync.Mutex
	queue  []*group
	later  []*group    // of late commands
	again  *time.Timer // fires when waiting late groups may be ready
	behind bool        // the last batch had no room for any late group
	closed bool
	free   int            // lanes not in use
	busy   sync.WaitGroup // lanes in use
}

func newCommitter(s store.Ledger, lanes int, log *slog.Logger, begin func(*store.Query, *store.Facts, int) *tx, after func(*tx)) *committer {
	c := &committer{store: s, log: log, begin: begin, after: after, pause: settlePause, free: lanes, unstored: unstored{log: log},
		admit: func(later, _ []*group) int { return len(later) }}
	c.again = time.AfterFunc(minIdle, c.ask)
	return c
}

// errClosed is returned for commands that arrive after close.
var errClosed = &pawl.Error{Kind: pawl.Unavailable, Message: "the engine is closed"}

// together commits the commands in one transaction and returns the error of each; see do. A
// caller that has to wait anyway and finds a free lane runs the commit itself: handing it
// to another goroutine and being woken by it takes longer than the decision.
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

// enter queues a group, and returns a batch if there is a lane for the caller.
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

// one commits a single command and returns its error. If that is the error of ctx, the
// command may still be in progress, so the caller reads its results only if there is no
// error.
func (c *committer) one(ctx context.Context, cmd command) error {
	errs, err := c.do(ctx, cmd)
	if err != nil {
		return err
	}
	return errs[0]
}

// close commits what is queued and stops.
func (c *committer) close() {
	c.mu.Lock()
	c.closed = true
	c.share()
	c.mu.Unlock()
	c.busy.Wait()
	c.again.Stop()
}

// lane commits a batch, then further batches while groups wait.
func (c *committer) lane(batch []*group) {
	for ; batch != nil; batch = c.further() {
		c.commit(batch)
	}
}

// commit ends the process if it panics. The caller, such as a handler, might recover from
// the panic, but the lane would then be lost, and goroutines that wait for it would wait
// forever.
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

// take takes a free lane and a batch for it, if there is a lane and groups wait. Otherwise
// it takes nothing and returns nil. The caller holds the lock.
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

// share starts a free lane on the waiting groups, if they may go now. The caller holds the
// lock.
func (c *committer) share() {
	if batch := c.take(); batch != nil {
		go c.lane(batch)
	}
}

// next returns the groups for a commit, at most maxGroup by weight (a group is never
// split), or nil if no group is waiting or all of them should keep waiting. Late groups
// come last, but are never left out twice for lack of room. Groups that do not fit go to a
// free lane. Groups that should wait do not: the slots they wait for may be freed by this
// very commit.
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

// ready returns how many of the late groups may go with the batch. If some may not, they
// are checked again soon.
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

// ask lets a free lane check whether late groups may go now.
func (c *committer) ask() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.share()
}

// fit moves up to n groups from a queue to a batch while there is room. An empty batch
// always takes the first group.
func fit(queue *[]*group, n int, batch []*group, room *int) []*group {
	for range n {
		weight := (*queue)[0].weight()
		if weight > *room && len(batch) > 0 {
			return batch
		}
		*room -= weight
		batch = append(batch, (*queue)[0])
		(*queue)[0] = nil // what has been committed is not kept alive
		*queue = (*queue)[1:]
	}
	return batch
}

// run commits a batch. If its transaction fails as a whole, because of other writers or
// because the store rejects something in it, the groups are committed one by one, so that
// none harms the others.
func (c *committer) run(batch []*group) {
	err := c.attempt(batch, true)
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
		err = c.attempt(batch, false)
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
func (c *committer) attempt(batch []*group, early bool) error {
	a := &attempt{c: c, q: &store.Query{}, batch: batch}
	for _, g := range batch {
		for _, cmd := range g.cmds {
			cmd.query(a.q)
			if _, ok := cmd.(late); ok {
				a.made++
			}
		}
	}
	if early {
		a.q.Early = a.early
	}
	err := c.store.Do(context.Background(), a.q, a.decide)
	if a.stores || err != nil {
		c.unstored.note(err)
	}
	if errors.Is(err, store.ErrUnknown) {
		err = c.settle(a.t)
	}
	if err == nil {
		c.after(a.t)
	} else if a.t != nil {
		a.t.settle(a.t.handoffs)
	}
	return err
}

// An attempt decides the commands of a batch for a transaction.
type attempt struct {
	c     *committer
	q     *store.Query
	batch []*group
	made  int // about how many jobs will be created
	t     *tx
	done  int // commands of the first group that were decided early

	stores bool // something is to be stored
}

// begin discards what was decided on outdated facts.
func (a *attempt) begin(f *store.Facts) {
	if a.t != nil {
		a.t.settle(a.t.handoffs)
	}
	a.t, a.done = a.c.begin(a.q, f, a.made), 0
}

// early decides the reports that the batch begins with. See store.Query.
func (a *attempt) early(f *store.Facts) *store.Changes {
	a.begin(f)
	g := a.batch[0]
	a.t.faults = g.faults
	for _, cmd := range g.cmds {
		if _, ok := cmd.(*report); !ok {
			break
		}
		g.errs[a.done] = a.c.decide(a.t, cmd)
		a.done++
	}
	return a.t.early()
}

func (a *attempt) decide(f *store.Facts) (*store.Changes, error) {
	if a.t == nil || a.t.facts != f {
		a.begin(f)
	} else {
		a.t.complete()
	}
	done := a.done
	for _, g := range a.batch {
		a.t.faults = g.faults
		for i := done; i < len(g.cmds); i++ {
			g.errs[i] = a.c.decide(a.t, g.cmds[i])
		}
		done = 0
	}
	ch, err := a.t.changes()
	a.stores = ch != nil
	return ch, err
}

// settle finds out whether a commit of unknown outcome happened (K5). If it did not, the
// batch may be tried again. It does not give up before the committer is closed: a step that
// was claimed, but never reported to its worker, would not run as long as that worker
// lives.
func (c *committer) settle(t *tx) error {
	first, ok := t.first()
	if !ok {
		return store.ErrStale // there is nothing to look up: decide again
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

// decide runs one command, and undoes its changes if it is refused. A command that reads
// something its query did not ask for is refused. A panic fails only this command.
func (c *committer) decide(t *tx, cmd command) (err error) {
	t.open()
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("a decision panicked", "command", fmt.Sprintf("%T", cmd), "panic", p, "stack", string(debug.Stack()))
			err = pawl.Errorf(pawl.Internal, "the decision of %T panicked: %v", cmd, p)
		}
		if t.fault != nil {
			err = t.fault // any other error follows from it
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
