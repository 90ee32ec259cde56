package engine

import "github.com/pawl-dev/pawl"

// A room has space for what a transaction makes.
type room struct {
	jobs      slab[pawl.Job]
	steps     slab[pawl.Step]
	heldJobs  slab[held[pawl.Job]]
	heldSteps slab[held[pawl.Step]]
}

// maxSlab bounds how many values stay in memory for one that is in use: a store may keep a
// record that was written.
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
