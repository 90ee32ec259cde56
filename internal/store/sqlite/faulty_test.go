package sqlite_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/sqlite"
	"github.com/pawl-dev/pawl/internal/store/storetest"
)

// The store that fails on purpose does what its faults say, and Settle tells
// them apart.
func TestFaulty(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault     storetest.Fault
		unknown   bool
		failed    bool
		committed bool
	}{
		"none":    {storetest.None, false, false, true},
		"before":  {storetest.Before, false, true, false},
		"after":   {storetest.After, true, true, true},
		"unknown": {storetest.Unknown, true, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := open(t, sqlite.Config{Path: ":memory:"})
			defer db.Close()
			faulty := storetest.NewFaulty(db, storetest.Script(tt.fault))
			var entry store.Entry
			err := faulty.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
				b := storetest.NewBatch(f.Now)
				b.AddWorker(&pawl.Worker{ID: storetest.NewMint().ID(f.Now)})
				entry = b.Entries[0]
				return &b.Changes, nil
			})
			if (err != nil) != tt.failed || errors.Is(err, store.ErrUnknown) != tt.unknown || errors.Is(err, storetest.ErrInjected) != tt.failed {
				t.Errorf("error %v", err)
			}
			if got, err := db.Settle(t.Context(), entry.EntityKey, &entry.Entry); err != nil || got != tt.committed {
				t.Errorf("settle: %v, %v; want %v", got, err, tt.committed)
			}
			if faulty.Count(tt.fault) != 1 {
				t.Errorf("%d faults counted, want 1", faulty.Count(tt.fault))
			}
		})
	}
}

// A refused decision and one with nothing to write use no fault up.
func TestFaultyPasses(t *testing.T) {
	t.Parallel()
	db := open(t, sqlite.Config{Path: ":memory:"})
	defer db.Close()
	faulty := storetest.NewFaulty(db, storetest.Script(storetest.Before))
	refused := errors.New("refused")
	for _, want := range []error{refused, nil} {
		err := faulty.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { return nil, want })
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
	}
	if n := faulty.Count(storetest.Before); n != 0 {
		t.Errorf("%d faults used up, want none", n)
	}
}

// A record that is changed after its commit is found by the next transaction.
func TestFaultyComparesWhatWasWritten(t *testing.T) {
	t.Parallel()
	db := open(t, sqlite.Config{Path: ":memory:"})
	defer db.Close()
	faulty := storetest.NewFaulty(db, storetest.Script())
	job, step := &pawl.Job{ID: storetest.NewMint().ID(1), Inputs: []byte(`{"n":1}`)}, &pawl.Step{Input: []byte("1")}
	step.StepKey = pawl.StepKey{Job: job.Key(), Ord: pawl.MakeOrd(1, 0)}
	if err := faulty.Do(t.Context(), &store.Query{}, func(f *store.Facts) (*store.Changes, error) {
		b := storetest.NewBatch(f.Now)
		b.AddJob(job)
		b.AddStep(job, step)
		return &b.Changes, nil
	}); err != nil {
		t.Fatal(err)
	}
	found := func() (found bool) {
		defer func() { found = recover() != nil }()
		_ = faulty.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { return nil, nil })
		return false
	}
	if found() {
		t.Error("a change was found before there was one")
	}
	for name, change := range map[string]func(by int){
		"a field of a job":         func(by int) { job.Active += by },
		"a byte of a job's input":  func(by int) { job.Inputs[5] += byte(by) },
		"a field of a step":        func(by int) { step.Unmet += by },
		"a byte of a step's input": func(by int) { step.Input[0] += byte(by) },
	} {
		if change(1); !found() {
			t.Errorf("a change of %s was not found", name)
		}
		change(-1)
	}
}

// One seed plans one run.
func TestChances(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (faults []storetest.Fault) {
		next := storetest.Chances(seed, 0.2, 0.2, 0.2)
		for range 200 {
			faults = append(faults, next())
		}
		return faults
	}
	if diff := cmp.Diff(run(1), run(1)); diff != "" {
		t.Errorf("the same seed planned another run:\n%s", diff)
	}
	if cmp.Equal(run(1), run(2)) {
		t.Error("two seeds planned one run")
	}
}
