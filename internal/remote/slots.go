package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/internal/exchange"
	"github.com/pawl-dev/pawl/internal/link"
)

const (
	gather    = 2 * time.Millisecond   // before an exchange that waits begins: mostly a visit follows the offer
	overtakes = 200 * time.Millisecond // after a visit, for the server to end an exchange that waits
	fewPause  = 200 * time.Millisecond // after an exchange that has failed
	maxPause  = 5 * time.Second
	hangUp    = 5 * time.Second // to find out what an exchange that was cut off has claimed
)

// slots are lent to exchanges that wait at the server. There is one at a time, which claims
// for all slots that were free when it began.
type slots struct {
	talk *talk
	run  func(*link.Assignment)
	kick chan struct{} // buffer 1: slots were offered
	bell chan struct{} // buffer 1: slots were given back
	over context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	offered int
	taken   int                // by the exchange that waits
	closed  bool               // no exchange begins before the next Add
	cut     context.CancelFunc // cuts off the exchange that waits; nil: there is none
}

func newSlots(t *talk, run func(*link.Assignment)) *slots {
	s := &slots{talk: t, run: run, kick: make(chan struct{}, 1), bell: make(chan struct{}, 1), closed: true}
	s.over, s.end = context.WithCancel(context.Background())
	t.mu.Lock()
	t.poll = s
	t.mu.Unlock()
	go s.wait()
	return s
}

// Add offers slots.
func (s *slots) Add(n int) {
	if n <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offered, s.closed = s.offered+n, false
	poke(s.kick)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close ends the exchange that waits. Its slots stay reserved until it is known what it has
// claimed.
func (s *slots) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offered, s.closed = 0, true
	if s.cut != nil {
		s.cut()
	}
}

// Withdraw ends the offer for good.
func (s *slots) Withdraw() {
	s.Close()
	s.end()
}

// Reserved returns how many slots the worker must not use.
func (s *slots) Reserved() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offered + s.taken
}

// Unreserved returns how many of the free slots the worker may use.
func (s *slots) Unreserved(free func() int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return max(free()-s.offered-s.taken, 0)
}

// Work returns a channel that never receives: what is to be claimed is claimed.
func (s *slots) Work() <-chan struct{} { return nil }

// Rung returns false.
func (s *slots) Rung() bool { return false }

// Bell returns a channel that receives when slots were given back.
func (s *slots) Bell() <-chan struct{} { return s.bell }

// Recall does nothing: slots are lent to nobody else.
func (s *slots) Recall() {}

// Strays returns a channel that never receives: each exchange finds out what was claimed.
func (s *slots) Strays() <-chan struct{} { return nil }

// Compare does nothing.
func (s *slots) Compare(context.Context, func(link.Stop) bool) {}

// overtaken cuts off the exchange that waits now, unless it ends soon.
func (s *slots) overtaken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cut != nil {
		time.AfterFunc(overtakes, s.cut)
	}
}

// wait keeps an exchange at the server while slots are offered.
func (s *slots) wait() {
	pauses := fewPause
	for s.over.Err() == nil {
		select {
		case <-s.kick:
		case <-s.over.Done():
			return
		}
		wait(s.over, gather)
		for s.over.Err() == nil {
			ctx, n := s.take()
			if n == 0 {
				break
			}
			got, err := s.claim(ctx, n)
			s.give(got)
			if err == nil {
				pauses = fewPause
				continue
			}
			wait(s.over, pauses)
			pauses = min(2*pauses, maxPause)
		}
	}
}

// take takes the offered slots for an exchange.
func (s *slots) take() (context.Context, int) {
	s.talk.visits.Lock() // a visit under way is not overtaken
	defer s.talk.visits.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.offered == 0 {
		return nil, 0
	}
	ctx, cut := context.WithCancel(s.over)
	s.taken, s.offered, s.cut = s.offered, 0, cut
	return ctx, s.taken
}

// claim waits for steps. If it was cut off it finds out what it has claimed.
func (s *slots) claim(ctx context.Context, free int) ([]link.Assignment, error) {
	got, err := s.talk.exchange(ctx, nil, free, exchange.MaxWait)
	if ctx.Err() == nil || errors.Is(err, link.ErrWorkerEnded) || !s.talk.doubtful() {
		return got, err
	}
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), hangUp)
	defer cancel()
	more, err := s.talk.exchange(asking, nil, 0, 0)
	return append(got, more...), err
}

// give runs what was claimed. The slots that are left are offered again, or given back.
func (s *slots) give(got []link.Assignment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut()
	s.cut = nil
	for i := range got {
		s.run(&got[i])
	}
	left := max(s.taken-len(got), 0)
	if s.taken = 0; s.closed {
		poke(s.bell)
		return
	}
	s.offered += left
}

var _ link.Slots = (*slots)(nil)
