package store

import (
	"sync"

	"github.com/pawl-dev/pawl"
)

// Damaged returns the error for a record that exists and cannot be decoded.
func Damaged[K ~int64](kind string, key K) error {
	return pawl.Errorf(pawl.Internal, "%s %d is damaged: what is stored of it cannot be decoded", kind, key)
}

// A BusyError is in the chain of an error of kind Unavailable if other transactions kept a database busy that takes
// commits otherwise.
type BusyError struct{ Err error } // of the database

func (e *BusyError) Error() string { return e.Err.Error() }

func (e *BusyError) Unwrap() error { return e.Err }

// maxFaults is how many faults are remembered.
const maxFaults = 1000

// Faults remembers logged faults, so that a bad row that every scan finds is logged once. The
// zero value is ready. It is safe for concurrent use.
type Faults struct {
	mu   sync.Mutex
	told map[string]bool
}

// New reports whether the fault was not logged yet, and marks it as logged. Above maxFaults it
// forgets all of them, and they are logged again.
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

// Unreadable reports whether err means that a stored record is damaged or missing, not that
// the database is unavailable.
func Unreadable(err error) bool { return err != nil && pawl.KindOf(err) != pawl.Unavailable }
