package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
)

// TestForgottenColumns (K5): a column that is forgotten anywhere is noticed.
func TestForgottenColumns(t *testing.T) { // not parallel: see storetest.RunMutants
	path := filepath.Join(t.TempDir(), "pawl.db")
	fresh := func(*testing.T) storetest.Database {
		return storetest.Database{Name: path, Open: func(t testing.TB) store.Store {
			db, err := Open(context.WithoutCancel(t.Context()), Config{Path: path, Synchronous: Normal})
			if err != nil {
				t.Fatal(err)
			}
			return db
		}, SQL: func(context.Context, string) ([]string, [][]string, error) { return nil, nil, errors.ErrUnsupported }}
	}
	// A step that is not in progress has its route as its place, so that a change of it is noticed there.
	spread := slices.DeleteFunc(narrow("the node of a fan-out", stepSpread), func(m storetest.Mutant) bool { return m.Name == "the node of a fan-out overlooks route" })
	storetest.RunMutants(t, fresh, slices.Concat(
		forgotten(jobTable), forgotten(stepTable), forgotten(workerTable), forgotten(scheduleTable), forgotten(tokenTable), forgotten(webhookTable),
		storetest.Forgotten("changing a job", jobTable.moving), storetest.Forgotten("changing a step", stepTable.moving),
		narrow("the counts of a job", jobCounts), narrow("the move of a job", jobMove), narrow("the end of a job", jobEnd),
		narrow("taking a step", stepTake), narrow("the end of a step", stepEnd), spread,
	))
}

func forgotten[R any](t *table[R]) []storetest.Mutant {
	return slices.Concat(
		storetest.Forgotten("inserting a "+t.Name, t.insert), storetest.Forgotten("reading a "+t.Name, t.read),
		storetest.Forgotten("reading bodies of a "+t.Name, t.bodies), storetest.Forgotten("changing a "+t.Name+" with bodies", t.change))
}

func narrow[R any](where string, n *store.Narrow[R]) []storetest.Mutant {
	return append(storetest.Forgotten(where, n.Columns), storetest.Overlooked(where, n)...)
}
