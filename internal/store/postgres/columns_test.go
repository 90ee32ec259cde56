package postgres

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl/internal/lab/pgtest"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
)

// TestForgottenColumns (K5): a column that is forgotten anywhere is noticed.
func TestForgottenColumns(t *testing.T) { // not parallel: see storetest.RunMutants
	url := pgtest.URL(t)
	fresh := func(*testing.T) storetest.Database {
		return storetest.Database{Name: url, Open: func(t testing.TB) store.Store { return open(t, url) },
			SQL: func(context.Context, string) ([]string, [][]string, error) { return nil, nil, errors.ErrUnsupported }}
	}
	// A state that the tests change changes the line, too, which this update does not write.
	spread := slices.DeleteFunc(narrowMutants("spread_steps", spreadSteps), func(m storetest.Mutant) bool { return m.Name == "spread_steps overlooks state" })
	storetest.RunMutants(t, fresh, slices.Concat(
		forgotten(jobTable), forgotten(stepTable), forgotten(workerTable), forgotten(scheduleTable), forgotten(tokenTable), forgotten(webhookTable),
		narrowMutants("move_jobs", moveJobs), narrowMutants("count_jobs", countJobs), narrowMutants("start_jobs", startJobs), narrowMutants("finish_jobs", finishJobs),
		narrowMutants("take_steps", takeSteps), narrowMutants("end_steps", endSteps), narrowMutants("move_steps", moveSteps), narrowMutants("start_steps", startSteps), narrowMutants("finish_steps", finishSteps), spread,
	))
}

func forgotten[R any](t *table[R]) []storetest.Mutant {
	return slices.Concat(
		storetest.Forgotten("inserting a "+t.Name, t.freshOf), storetest.Forgotten("reading a "+t.Name, t.readOf),
		storetest.Forgotten("reading bodies of a "+t.Name, t.bodiesOf), storetest.Forgotten("changing a "+t.Name, t.changesOf))
}

func narrowMutants[R any](where string, l *narrowOf[R]) []storetest.Mutant {
	return append(storetest.Forgotten(where, l.Columns), storetest.Overlooked(where, l.Narrow)...)
}
