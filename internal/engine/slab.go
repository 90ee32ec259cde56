package engine

import "github.com/pawl-dev/pawl"

// A room has space for what a transaction makes. A record has an allocation of its own: a store
// may keep one that was written, which would keep its neighbours in a slab, and their inputs.
type room struct {
	jobs  slab[held[pawl.Job]]
	steps slab[held[pawl.Step]]
}

// maxSlab bounds how many values stay in memory for one that is in use.
const maxSlab = 8

// A slab allocates many values at once, which takes less time than one after the other.
type slab[T any] struct {
	free []T
	size int
}

func (s *slab[T]) next() *T {
	if len(s.free) == 0 {
		s.size = min(max(2*s.size, 1), maxSlab)
		s.free = make([]T, s.size)
	}
	v := &s.free[0]
	s.free = s.free[1:]
	return v
}
