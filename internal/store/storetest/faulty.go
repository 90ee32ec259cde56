package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
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
// pass unchanged, and so does every method but Do. Do panics if somebody has changed a job or a
// step after its commit (store.Ledger): the last maxWritten that were written are compared with
// what they were.
type Faulty struct {
	store.Store

	mu      sync.Mutex
	plan    func() Fault
	counts  [faultCount]int
	written []written
}

// maxWritten bounds the records that each Do compares.
const maxWritten = 64

// A written record is a *pawl.Job or a *pawl.Step, and a copy of it as it was committed.
type written struct{ record, was any }

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
	f.unchanged()
	fault := None
	var commit *store.Changes
	err := f.Store.Do(ctx, q, func(facts *store.Facts) (*store.Changes, error) {
		fault, commit = None, nil // the decision was outdated: drop the plan
		changes, err := decide(facts)
		if err != nil || changes == nil {
			return nil, err
		}
		fault = f.next()
		if fault == Before || fault == Unknown {
			return nil, ErrInjected
		}
		commit = changes
		return changes, nil
	})
	if err == nil && commit != nil {
		f.wrote(commit)
	}
	switch {
	case fault == Before:
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the store failed before the commit", Err: err}
	case fault == Unknown, fault == After && err == nil:
		return fmt.Errorf("%w: %w", store.ErrUnknown, ErrInjected)
	}
	return err
}

// wrote remembers what a commit has written.
func (f *Faulty) wrote(ch *store.Changes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range ch.NewJobs {
		f.written = append(f.written, written{j, copyJob(j)})
	}
	for _, u := range ch.Jobs {
		f.written = append(f.written, written{u.Record, copyJob(u.Record)})
	}
	for _, s := range ch.NewSteps {
		f.written = append(f.written, written{s, copyStep(s)})
	}
	for _, u := range ch.Steps {
		f.written = append(f.written, written{u.Record, copyStep(u.Record)})
	}
	f.written = slices.Delete(f.written, 0, max(0, len(f.written)-maxWritten))
}

// unchanged panics if a record is not what it was.
func (f *Faulty) unchanged() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.written {
		if !reflect.DeepEqual(w.record, w.was) {
			panic(fmt.Sprintf("a record was changed after its commit: it is %+v, and was %+v", w.record, w.was))
		}
	}
}

func copyJob(j *pawl.Job) *pawl.Job {
	c := *j
	c.Inputs, c.Output, c.Metadata = slices.Clone(j.Inputs), slices.Clone(j.Output), slices.Clone(j.Metadata)
	return &c
}

func copyStep(s *pawl.Step) *pawl.Step {
	c := *s
	c.Input, c.Output = slices.Clone(s.Input), slices.Clone(s.Output)
	return &c
}
