package process

import (
	"runtime"
	"sync"
)

// starters is the thread that starts all programs without limits.
var starters starter

// A starter is a thread that lives as long as one of the programs that it started: the
// kernel takes its end for the death of their parent. One per program would be too many,
// since the runtime allows 10,000 threads.
type starter struct {
	mu    sync.Mutex
	users int
	calls chan func() // to the thread; closed when users is 0
}

// do calls f on the thread, which stays until done was called as often as do.
func (s *starter) do(f func()) {
	s.mu.Lock()
	if s.users++; s.users == 1 {
		s.calls = make(chan func())
		go serve(s.calls)
	}
	calls := s.calls
	s.mu.Unlock()
	called := make(chan struct{})
	calls <- func() {
		defer close(called)
		f()
	}
	<-called
}

func (s *starter) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.users == 0 {
		close(s.calls)
	}
}

// serve is the goroutine of the thread.
func serve(calls <-chan func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for f := range calls {
		f()
	}
}
