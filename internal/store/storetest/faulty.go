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

// A Fault is the failure of one transaction.
type Fault int

// The faults.
const (
	None       Fault = iota
	Before           // it fails before it commits, with an error of kind Unavailable
	After            // it commits, and the reply is lost: ErrUnknown
	Unknown          // it does not commit, and the reply is lost: ErrUnknown
	faultCount       // the number of faults
)

// ErrInjected is in the chain of every error that Faulty makes up.
var ErrInjected = errors.New("injected fault")

// Faulty is a store that fails on purpose. Transactions whose decision fails or writes nothing
// pass unchanged, and so does every method but Do.
type Faulty struct {
	store.Store

	mu     sync.Mutex
	plan   func() Fault
	counts [faultCount]int
}

// NewFaulty wraps st. It calls plan once for each transaction that is about to write, never
// concurrently.
func NewFaulty(st store.Store, plan func() Fault) *Faulty { return &Faulty{Store: st, plan: plan} }

// Script plans the faults in order, and None after the last.
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
		fault = None // the decision was outdated: drop the plan
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
