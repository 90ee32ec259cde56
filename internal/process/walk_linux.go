package process

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// A walk over /proc costs time for each process of the machine. When a thousand
// programs are stopped at once, a walk for each of them is a million looks. So those who
// ask at the same time share one.
var (
	kin     = shared[int, family]{walk: readFamily}
	bearers = shared[string, map[string][]int]{walk: readBearers}
)

// walks counts the walks over /proc, for tests.
var walks atomic.Int64

// shared walks over /proc for all who ask at the moment.
type shared[Q comparable, A any] struct {
	walk func(questions map[Q]bool) A

	turn sync.Mutex // one walk at a time
	mu   sync.Mutex // taken after turn
	next *walk[Q, A]
}

// A walk has not begun as long as it takes questions.
type walk[Q comparable, A any] struct {
	questions map[Q]bool
	done      chan struct{}
	answer    A // valid when done is closed; shared, and not to be changed
}

// ask returns what a walk finds that begins after the call, so that it cannot miss what
// the caller knows to be there. It waits for at most one walk before that.
func (s *shared[Q, A]) ask(q Q) A {
	w, first := s.join(q)
	if first {
		s.turn.Lock()
		s.begin()
		w.answer = s.walk(w.questions)
		s.turn.Unlock()
		close(w.done)
	}
	<-w.done
	return w.answer
}

// join adds a question to the next walk, which the first to ask makes.
func (s *shared[Q, A]) join(q Q) (w *walk[Q, A], first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first = s.next == nil; first {
		s.next = &walk[Q, A]{questions: map[Q]bool{}, done: make(chan struct{})}
	}
	s.next.questions[q] = true
	return s.next, first
}

// begin has the next walk take no more questions.
func (s *shared[Q, A]) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = nil
}

// A family is who is whose child, and who is in the groups that were asked about.
type family struct {
	children map[int][]stat // by parent
	members  map[int][]stat // by group
}

func readFamily(groups map[int]bool) family {
	f := family{children: map[int][]stat{}, members: map[int][]stat{}}
	for s := range stats() {
		f.children[s.parent] = append(f.children[s.parent], s)
		if groups[s.group] {
			f.members[s.group] = append(f.members[s.group], s)
		}
	}
	return f
}

// readBearers finds the processes that bear each mark.
func readBearers(marks map[string]bool) map[string][]int {
	found := map[string][]int{}
	var f procFile
	for pid := range pids() {
		for entry := range bytes.SplitSeq(f.read(pid, "environ"), []byte{0}) {
			if marks[string(entry)] {
				found[string(entry)] = append(found[string(entry)], pid)
			}
		}
	}
	return found
}
