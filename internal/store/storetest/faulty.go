package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// A Fault is what goes wrong with one transaction.
type Fault int

// The faults.
const (
	None       Fault = iota
	Before           // it fails before it commits, with an error of kind Unavailable
	After            // it commits, and its answer is lost: ErrUnknown
	Unknown          // it does not commit, and its answer is lost: ErrUnknown
	faultCount       // how many there are
)

// ErrInjected is in the chain of every error that Faulty makes up.
var ErrInjected = errors.New("injected fault")

// Faulty is a store that fails on purpose. Transactions whose decision fails, or
// has nothing to write, pass as they are; so does everything but Do.
type Faulty struct {
	store.Store

	mu     sync.Mutex
	plan   func() Fault
	counts [faultCount]int
}

// NewFaulty wraps st. Plan is asked once for each transaction that is about to
// write, never twice at once.
func NewFaulty(st store.Store, plan func() Fault) *Faulty { return &Faulty{Store: st, plan: plan} }

// Script plans the faults in their order, and None after the last.
func Script(faults ...Fault) func() Fault {
	return func() Fault {
		if len(faults) == 0 {
			return None
		}
		next := faults[0]
		faults = faults[1:]
		return next
	}
}

// Chances plans each fault with its probability; the seed replays it.
func Chances(seed uint64, before, after, unknown float64) func() Fault {
	source := rand.New(rand.NewPCG(seed, seed))
	return func() Fault {
		switch p := source.Float64(); {
		case p < before:
			return Before
		case p < before+after:
			return After
		case p < before+after+unknown:
			return Unknown
		}
		return None
	}
}

// Count returns how many transactions met the fault.
func (f *Faulty) Count(fault Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[fault]
}

func (f *Faulty) next() Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault := f.plan()
	f.counts[fault]++
	return fault
}

// Do runs the transaction and lets it fail as planned.
func (f *Faulty) Do(ctx context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
	fault := None
	err := f.Store.Do(ctx, q, func(facts *store.Facts) (*store.Changes, error) {
		fault = None // whatever was planned for what turned out to be outdated
		changes, err := decide(facts)
		if err != nil || changes == nil {
			return nil, err
		}
		fault = f.next()
		if fault == Before || fault == Unknown {
			return nil, ErrInjected
		}
		return changes, nil
	})
	switch {
	case fault == Before:
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the store failed before the commit", Err: err}
	case fault == Unknown, fault == After && err == nil:
		return fmt.Errorf("%w: %w", store.ErrUnknown, ErrInjected)
	}
	return err
}
