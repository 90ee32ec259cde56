package storetest

import (
	"context"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// A Mutant is a column that is not handled somewhere, until it is undone.
type Mutant struct {
	Name  string
	apply func() (undo func())
	kills func(*env) error // which must fail
}

// Forgotten returns mutants of a list of columns: in each, one of them is not written or not
// read.
func Forgotten[R any](where string, list []*store.Column[R]) (mutants []Mutant) {
	for i, c := range list {
		mutants = append(mutants, Mutant{where + " forgets " + c.Name, func() func() {
			list[i] = c.Elsewhere()
			return func() { list[i] = c }
		}, killsOf[R]()})
	}
	return mutants
}

// Overlooked returns mutants of a narrow update: in each, one of the columns that it does not
// write may have changed. Derived columns change with others.
func Overlooked[R any](where string, n *store.Narrow[R]) (mutants []Mutant) {
	for i, c := range n.Others {
		if c.Role == store.Derived {
			continue
		}
		mutants = append(mutants, Mutant{where + " overlooks " + c.Name, func() func() {
			was := n.Others
			n.Leave(slices.Delete(slices.Clone(was), i, i+1))
			return func() { n.Leave(was) }
		}, killsOf[R]()})
	}
	return mutants
}

// killsOf returns the tests that detect a forgotten column of a record.
func killsOf[R any]() func(*env) error {
	switch any(*new(R)).(type) {
	case pawl.Job:
		return func(e *env) error { return first(e, changed(jobs), claimedFields) }
	case pawl.Step:
		return func(e *env) error { return first(e, changed(steps), claimedFields) }
	case pawl.Worker:
		return changed(workers)
	case pawl.Token:
		return changed(tokens)
	case pawl.QueuePause:
		return changed(pauses)
	case pawl.Webhook:
		return changed(webhooks)
	}
	return changed(schedules)
}

func changed[R any](s *species[R]) func(*env) error {
	return func(e *env) error { return everyChange(e, s) }
}

func first(e *env, tests ...func(*env) error) error {
	for _, f := range tests {
		if err := f(e); err != nil {
			return err
		}
	}
	return nil
}

// RunMutants checks that the tests of columns detect each mutant. No other test may run beside
// it, since a mutant affects the whole program.
func RunMutants(t *testing.T, fresh func(*testing.T) Database, mutants []Mutant) {
	t.Helper()
	db := fresh(t)
	e := newEnv(t, db)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e.ctx = ctx
	for _, m := range mutants {
		undo := m.apply()
		err := m.kills(e)
		undo()
		if err == nil {
			t.Errorf("%s, and no test notices", m.Name)
		}
	}
	// The after-effects of a mutant must not count as its detection.
	for _, notice := range []func(*env) error{killsOf[pawl.Job](), killsOf[pawl.Step](), killsOf[pawl.Worker](), killsOf[pawl.Schedule](), killsOf[pawl.Token](), killsOf[pawl.QueuePause](), killsOf[pawl.Webhook]()} {
		if err := notice(e); err != nil {
			t.Errorf("without a mutant: %v", err)
		}
	}
}
