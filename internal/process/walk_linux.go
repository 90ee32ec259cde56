package process

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// A walk over /proc takes time proportional to the number of processes of the machine. When a
// thousand programs are stopped at once, a walk for each would read a million processes, so
// concurrent callers share one.
var (
	treeWalk = shared[int, processTree]{walk: readTree}
	markWalk = shared[string, map[string][]int]{walk: readMarks}
)

// walks counts the walks over /proc, for tests.
var walks atomic.Int64

// shared runs walks over /proc, each for all callers that wait for one.
type shared[Q comparable, A any] struct {
	walk func(questions map[Q]bool) A

	walking sync.Mutex // one walk at a time
	mu      sync.Mutex // locked after walking
	next    *walk[Q, A]
}

// A walk collects questions until it begins.
type walk[Q comparable, A any] struct {
	questions map[Q]bool
	done      chan struct{}
	answer    A // valid once done is closed; shared, so read-only
}

// request returns the result of a walk that begins after the call, so that it cannot miss
// what the caller knows to exist. It waits for at most one walk before that.
func (s *shared[Q, A]) request(q Q) A {
	w, first := s.join(q)
	if first {
		s.walking.Lock()
		s.begin()
		w.answer = s.walk(w.questions)
		s.walking.Unlock()
		close(w.done)
	}
	<-w.done
	return w.answer
}

// join adds a question to the next walk. The first caller to join makes the walk.
func (s *shared[Q, A]) join(q Q) (w *walk[Q, A], first bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first = s.next == nil; first {
		s.next = &walk[Q, A]{questions: map[Q]bool{}, done: make(chan struct{})}
	}
	s.next.questions[q] = true
	return s.next, first
}

// begin closes the next walk to further questions.
func (s *shared[Q, A]) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = nil
}

// A processTree has the children of each process, and the members of the requested groups.
type processTree struct {
	children map[int][]stat // by parent
	members  map[int][]stat // by group
}

func readTree(groups map[int]bool) processTree {
	f := processTree{children: map[int][]stat{}, members: map[int][]stat{}}
	for s := range stats() {
		f.children[s.parent] = append(f.children[s.parent], s)
		if groups[s.group] {
			f.members[s.group] = append(f.members[s.group], s)
		}
	}
	return f
}

// readMarks returns the processes that bear each mark.
func readMarks(marks map[string]bool) map[string][]int {
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
