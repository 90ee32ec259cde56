package engine

import "testing"

// Each value of a slab is zero, and another one than those before.
func TestSlab(t *testing.T) {
	t.Parallel()
	var s slab[int]
	given := map[*int]bool{}
	for i := range 10 * maxSlab {
		v := s.next()
		if *v != 0 || given[v] {
			t.Fatalf("value %d is %d, given before: %v", i, *v, given[v])
		}
		given[v], *v = true, 1
	}
}
