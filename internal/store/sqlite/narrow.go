package sqlite

import (
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// Most transitions change few columns of a record that this process already knows. Narrow
// statements write them and name only those columns: SQLite then leaves the indexes and the
// conditions on the others alone. Every other change is written with all columns.

const (
	moved = "state seq head updated_at " // changed by every transition
	taken = "unmet attempts claims worker route rank enqueued_at started_at"
)

var (
	jobCounts = narrowly(jobTable, "open blocked active tree")
	jobMove   = narrowly(jobTable, moved+"open blocked active tree started_at completed_at ending")
	jobEnd    = narrowly(jobTable, moved+"open blocked active tree started_at completed_at ending output")

	// For a step that is enqueued and claimed, and for one that ends.
	stepTake = narrowly(stepTable, moved+"place "+taken)
	stepEnd  = narrowly(stepTable, moved+"place folded completed_at output")

	// For the node of a fan-out, when some instances have ended and others were made.
	stepSpread = narrowly(stepTable, "made live tree")
)

func narrowly[R any](t *table[R], list string) *store.Narrow[R] {
	return t.Narrow(strings.Fields(list)...)
}

// jobUpdate returns the statement that writes j, and its columns.
func (k *rowCache) jobUpdate(j *pawl.Job) (statement, []*store.Column[pawl.Job]) {
	if was := k.jobs[j.Key()].job; was != nil {
		switch {
		case jobCounts.Covers(was, j):
			return updateJobCounts, jobCounts.Columns
		case jobMove.Covers(was, j):
			return updateJobMove, jobMove.Columns
		case jobEnd.Covers(was, j):
			return updateJobEnd, jobEnd.Columns
		}
	}
	if jobTable.HasBodies(j) {
		return updateJobBodies, jobTable.change
	}
	return updateJob, jobTable.moving
}

// stepUpdate returns the statement that writes s, and its columns.
func (k *rowCache) stepUpdate(s *pawl.Step) (statement, []*store.Column[pawl.Step]) {
	if was := k.steps[s.StepKey]; was != nil {
		switch {
		case s.Total > 0 && stepSpread.Covers(was, s):
			return updateStepSpread, stepSpread.Columns
		case stepTake.Covers(was, s):
			return updateStepTake, stepTake.Columns
		case stepEnd.Covers(was, s):
			return updateStepEnd, stepEnd.Columns
		}
	}
	if stepTable.HasBodies(s) {
		return updateStepBodies, stepTable.change
	}
	return updateStep, stepTable.moving
}
