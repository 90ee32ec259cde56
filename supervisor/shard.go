package supervisor

import (
	"container/heap"
	"runtime"
	"runtime/debug"
	"sync"
	"time"
)

// A shard is a loop that gives services their turns. It has one timer, and a heap of the
// services by the time of their next turn.
type shard struct {
	sup    *Supervisor
	signal chan struct{} // the inbox is not empty
	quit   chan struct{}
	done   chan struct{}

	mu    sync.Mutex
	inbox []message

	// Used by the loop only.
	spare   []message // the other buffer of the inbox
	ready   []*service
	times   times
	current *service // the service that has its turn, or nil
}

// A message reports to a service the end of something that it waits for.
type message struct {
	service *service
	kind    kind
	token   uint64
	at      time.Time
	value   any
	err     error
	outcome *outcome // of an attempt
	shows   *attempt // the collection has observed something else than before this attempt; or nil
}

type kind uint8

const (
	woken    kind = iota
	observed      // a collection has ended
	ended         // an attempt has ended
	wrote         // the journal has returned
)

func newShard(s *Supervisor) *shard {
	return &shard{sup: s, signal: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// post puts a message into the inbox. It never blocks.
func (sh *shard) post(m message) {
	sh.mu.Lock()
	first := len(sh.inbox) == 0
	if m.at.IsZero() {
		m.at = time.Now()
	}
	sh.inbox = append(sh.inbox, m)
	sh.mu.Unlock()
	if first {
		select {
		case sh.signal <- struct{}{}:
		default:
		}
	}
}

func (sh *shard) take() []message {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	taken := sh.inbox
	sh.inbox, sh.spare = sh.spare[:0], taken
	if cap(taken) > 4096 { // do not keep the memory of a burst
		sh.spare = nil
	}
	return taken
}

func (sh *shard) loop() {
	over := false
	defer func() {
		if over {
			close(sh.done)
			return
		}
		sh.recoverLoop()
		go sh.loop()
	}()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		now := time.Now()
		sh.receive(sh.take(), now)
		sh.expire(now)
		sh.turns(now)
		if len(sh.ready) > 0 {
			runtime.Gosched() // let what the turns have begun end
			select {
			case <-sh.quit:
				over = true
				return
			default:
				continue
			}
		}
		timer.Reset(sh.rest())
		select {
		case <-sh.signal:
		case <-timer.C:
		case <-sh.quit:
			over = true
			return
		}
	}
}

// recoverLoop cleans up after a Next or a hook that has ended the goroutine of the loop by
// runtime.Goexit, as testing.T.Fatal does.
func (sh *shard) recoverLoop() {
	u, now := sh.current, time.Now()
	sh.current = nil
	if u == nil {
		return
	}
	u.mu.Lock()
	if u.inNext {
		u.inNext = false
		u.nextPanicked(&panicError{"Next ended its goroutine by runtime.Goexit", debug.Stack()}, u.generation, now)
	}
	u.mu.Unlock()
	sh.queue(u, now)
}

func (sh *shard) receive(batch []message, now time.Time) {
	for i := range batch {
		m := &batch[i]
		m.service.receive(m, now)
		sh.queue(m.service, m.at)
		*m = message{}
	}
}

// receive handles a message.
func (u *service) receive(m *message, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch m.kind {
	case woken:
		u.woken.Store(false)
		u.changed()
	case observed:
		u.collected(m)
	case ended:
		u.endedAttempt(m, now)
	case wrote:
		u.written(m, now)
	}
}

// expire queues the services whose time has come.
func (sh *shard) expire(now time.Time) {
	for len(sh.times) > 0 && !sh.times[0].due.After(now) {
		u := heap.Pop(&sh.times).(*service)
		sh.queue(u, u.due)
	}
}

func (sh *shard) queue(u *service, since time.Time) {
	if !u.queued {
		u.queued, u.asked = true, since
		sh.ready = append(sh.ready, u)
	}
}

// turns gives at most maxTurns queued services their turns, so that the inbox is read
// between.
func (sh *shard) turns(now time.Time) {
	measured := sh.sup.hooks.Decided != nil
	for range min(len(sh.ready), maxTurns) {
		u := sh.ready[0]
		sh.ready[0], sh.ready = nil, sh.ready[1:]
		u.queued, sh.current = false, u
		var waited time.Duration
		if measured {
			waited = time.Since(u.asked)
		}
		u.turn(now, waited)
		sh.current = nil
		sh.times.place(u)
	}
}

// rest returns how long there is nothing to do. Times are rounded up to timeStep, so
// that many services share a wake-up of the timer.
func (sh *shard) rest() time.Duration {
	if len(sh.times) == 0 {
		return time.Hour
	}
	due := sh.times[0].due.Sub(sh.sup.began)
	due = (due + timeStep - 1).Truncate(timeStep)
	return max(0, time.Until(sh.sup.began.Add(due)))
}

// times is a heap of services by the time of their next turn.
type times []*service

// place moves a service to its position by time, or removes it.
func (t *times) place(u *service) {
	switch {
	case u.due.IsZero() && u.place >= 0:
		heap.Remove(t, u.place)
	case u.due.IsZero():
	case u.place >= 0:
		heap.Fix(t, u.place)
	default:
		heap.Push(t, u)
	}
}

func (t times) Len() int           { return len(t) }
func (t times) Less(i, j int) bool { return t[i].due.Before(t[j].due) }

func (t times) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].place, t[j].place = i, j
}

// Push implements heap.Interface.
func (t *times) Push(x any) {
	u := x.(*service)
	u.place = len(*t)
	*t = append(*t, u)
}

// Pop implements heap.Interface.
func (t *times) Pop() any {
	last := len(*t) - 1
	u := (*t)[last]
	(*t)[last] = nil
	*t = (*t)[:last]
	u.place = -1
	return u
}
