package engine

import (
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
)

const (
	pooledLists = 4       // lists that are kept
	mostPooled  = 8 << 10 // entries in a kept list at most: about 2 MiB
	mostRecords = 1536    // records of a kind in a kept list at most, as many as a full commit needs: less than 1 MiB
)

// An entryPool keeps the audit entry lists of finished transactions for later ones: the
// lists are long, and grow entry by entry.
type entryPool struct {
	mu    sync.Mutex
	lists []list
}

// A list holds entries and their drafts, and the records of a transaction.
type list struct {
	entries []store.Entry
	drafts  []draft
	counted []counting
	seals   []audit.Seal
	salts   []audit.Salt
	jobs    []held[pawl.Job]
	steps   []held[pawl.Step]

	touchedJobs  []touched[pawl.Job] // of a journal; what the commands before the last have touched is cleared
	touchedSteps []touched[pawl.Step]
}

// take returns an empty list.
func (s *entryPool) take() list {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.lists)
	if n == 0 {
		return list{}
	}
	l := s.lists[n-1]
	s.lists = s.lists[:n-1]
	return l
}

// put keeps a list that is no longer in use.
func (s *entryPool) put(l list) {
	if cap(l.entries) > mostPooled {
		return
	}
	clear(l.entries)
	clear(l.drafts)
	clear(l.seals)
	clear(l.salts)
	l.jobs, l.steps = blank(l.jobs), blank(l.steps)
	l.touchedJobs, l.touchedSteps = blank(l.touchedJobs), blank(l.touchedSteps)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lists) < pooledLists {
		l.entries, l.drafts, l.counted, l.seals, l.salts = l.entries[:0], l.drafts[:0], l.counted[:0], l.seals[:0], l.salts[:0]
		s.lists = append(s.lists, l)
	}
}

// blank returns an empty list with the same room, or nil if that is too much to be kept.
func blank[T any](l []T) []T {
	if cap(l) > mostRecords {
		return nil
	}
	clear(l)
	return l[:0]
}
