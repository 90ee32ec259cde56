package postgres

import (
	"sync"

	"github.com/pawl-dev/pawl"
)

// A room is memory for one transaction: for the parameters of what it writes, and for what it
// remembers of the rows that it has found. A batch takes some KiB for each job, and the garbage
// of thousands of jobs a second costs the client more than the work that it was for. A room is used
// again once its transaction is over and its outcome is known, whatever that is: nothing refers to it
// then, since the driver copies parameters into a buffer of its own before it sends them.
type room struct {
	params space[byte]
	jobs   space[foundRow[pawl.Job]]
	steps  space[foundRow[pawl.Step]]
}

const (
	maxParams = 512 << 10 // bytes of parameters for which a room is kept,
	maxFound  = 2 << 10   // and rows of a kind: less than 1 MiB each
	maxRooms  = 4         // that are kept
)

// bytes returns n bytes for parameters, which have any content.
func (r *room) bytes(n int) []byte {
	if r == nil {
		r = new(room)
	}
	return r.params.take(n)
}

func (r *room) job(f foundRow[pawl.Job]) *foundRow[pawl.Job] {
	if r == nil {
		r = new(room)
	}
	return r.jobs.put(f)
}

func (r *room) step(f foundRow[pawl.Step]) *foundRow[pawl.Step] {
	if r == nil {
		r = new(room)
	}
	return r.steps.put(f)
}

// A space is a block of memory that is taken piece by piece.
type space[T any] struct {
	block  []T // taken up to its length
	wanted int // how much was to be taken, whether there was so much or not
}

// take returns n values, which are any.
func (s *space[T]) take(n int) []T {
	s.wanted += n
	from := len(s.block)
	if n > cap(s.block)-from {
		return make([]T, n)
	}
	s.block = s.block[:from+n]
	return s.block[from : from+n : from+n]
}

// put returns where it has put a value.
func (s *space[T]) put(v T) *T {
	p := &s.take(1)[0]
	*p = v
	return p
}

// empty takes everything back. The block grows to what was wanted, and more, since the next
// transaction may want more; up to a length.
func (s *space[T]) empty(most int) {
	if s.wanted > cap(s.block) && cap(s.block) < most {
		s.block = make([]T, 0, min(s.wanted+s.wanted/4, most))
	}
	s.block, s.wanted = s.block[:0], 0
}

// rooms are those that no transaction uses.
type rooms struct {
	mu     sync.Mutex
	free   []*room
	poison func(*room) // in tests: makes a use after the end of a transaction show
}

func (l *rooms) take() *room {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.free)
	if n == 0 {
		return new(room)
	}
	r := l.free[n-1]
	l.free = l.free[:n-1]
	return r
}

func (l *rooms) put(r *room) {
	clear(r.jobs.block) // they refer to texts
	clear(r.steps.block)
	if l.poison != nil {
		l.poison(r)
	}
	r.params.empty(maxParams)
	r.jobs.empty(maxFound)
	r.steps.empty(maxFound)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.free) < maxRooms {
		l.free = append(l.free, r)
	}
}
