package store

import (
	"sync"

	"github.com/pawl-dev/pawl"
)

// Damaged returns the error of a record that is there and cannot be decoded.
func Damaged[K ~int64](kind string, key K) error {
	return pawl.Errorf(pawl.Internal, "%s %d is damaged: what is stored of it cannot be decoded", kind, key)
}

// maxFaults bounds the faults that are remembered.
const maxFaults = 1000

// Faults are those that were logged, so that a row that every scan finds is logged
// once. The zero value is ready. It is safe for concurrent use.
type Faults struct {
	mu   sync.Mutex
	told map[string]bool
}

// New reports whether the fault was not logged yet, and counts it as logged from now
// on. If there are too many, all are forgotten, and are logged again.
func (f *Faults) New(fault string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.told[fault] {
		return false
	}
	if f.told == nil || len(f.told) >= maxFaults {
		f.told = make(map[string]bool)
	}
	f.told[fault] = true
	return true
}
