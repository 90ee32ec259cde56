package engine

import (
	"sync"

	"github.com/pawl-dev/pawl/store"
)

const (
	shelved     = 4       // lists that are kept
	mostShelved = 4 << 10 // entries of a list that is kept: about 1 MiB
)

// A shelf keeps the lists of audit entries of transactions that are over, for those
// that follow: they are long, and grow entry by entry.
type shelf struct {
	mu    sync.Mutex
	lists [][]store.Entry
}

// take answers an empty list.
func (s *shelf) take() []store.Entry {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.lists)
	if n == 0 {
		return nil
	}
	list := s.lists[n-1]
	s.lists = s.lists[:n-1]
	return list
}

// put keeps a list that nobody uses any more.
func (s *shelf) put(list []store.Entry) {
	if cap(list) > mostShelved {
		return
	}
	clear(list)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lists) < shelved {
		s.lists = append(s.lists, list[:0])
	}
}
