package main

import (
	"testing"
	"time"
)

// Each subject looks at each thing, again and again, and when it is woken.
func TestSubjects(t *testing.T) {
	for _, s := range subjects {
		if r := s.measure(10, 2*time.Second); r.hz == 0 || r.p99 == 0 {
			t.Errorf("%s: %+v", s.name, r)
		}
	}
}
