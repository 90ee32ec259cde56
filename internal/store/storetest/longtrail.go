package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// longJob adds a job whose trail is longer than two pages, enqueued.
func (e *env) longJob() made {
	e.Helper()
	reason := strings.Repeat("r", 4<<10)
	n := store.TrailPageBytes / len(reason)
	return e.add(n, func(m made, b *Batch) {
		b.Reason = func() string { return reason }
		enqueued(1, 0)(m, b)
	})
}

// trailsOfALongJob: a job that is read in pages is returned as of one moment, and whole,
// though it moves meanwhile; so are its neighbours.
func trailsOfALongJob(e *env) {
	before, m, after := e.add(1, nil), e.longJob(), e.add(1, nil)
	want := map[store.EntityKey]int64{JobKey(m.job): m.job.Seq}
	for _, s := range m.steps {
		want[StepKey(s)] = s.Seq
	}
	cancel := func() { // the first step, now in a page of its own, and the last, in one row
		first, last := m.steps[0].StepKey, m.steps[len(m.steps)-1].StepKey
		e.do(&store.Query{Jobs: []rowkey.Job{m.key()}, Steps: []pawl.StepKey{first, last}}, func(f *store.Facts, b *Batch) {
			for _, k := range []pawl.StepKey{first, last} {
				b.MoveStep(f.Jobs[m.key()], f.Steps[k], lifecycle.StepCancel)
			}
			b.AddStep(f.Jobs[m.key()], &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(len(m.steps)+7, 0)}})
		})
	}
	got := map[store.EntityKey]int64{}
	var jobs []rowkey.Job
	e.ok(e.st.Trails(e.ctx, 0, func(t store.TrailOf) error {
		f := audit.Verify(lifecycle.ByName(t.Kind), t.Entries, audit.Stored{Entity: t.ID, State: t.Record.State, Seq: t.Record.Seq, Head: t.Record.Head})
		if f != nil {
			return fmt.Errorf("trail of %v: %v", t.EntityKey, f)
		}
		if t.Ord == 0 {
			jobs = append(jobs, t.Job)
		}
		if t.Job == m.key() {
			if got[t.EntityKey] = int64(len(t.Entries)); len(got) == 1 {
				cancel()
			}
		}
		return nil
	}))
	e.diff("the trails of the long job", want, got)
	e.diff("jobs", []rowkey.Job{before.key(), m.key(), after.key()}, jobs)
	e.verify(0)
	e.verify(m.key())
}

// longTrailTampered: tampering with steps of a job that is read in pages is detected.
func longTrailTampered(e *env) {
	m := e.longJob()
	e.verify(m.key())
	for i, sql := range []string{
		"delete from step",
		"delete from audit",
		"insert into audit (job, ord, seq, state, event, reason, actor, request_id, at, hash) select job, ord, 3, state, event, reason, actor, request_id, at, hash from audit",
	} {
		step := m.steps[len(m.steps)-1-i]
		if !strings.HasPrefix(sql, "delete from step") {
			sql += " where seq = 2 and"
		} else {
			sql += " where"
		}
		_, _, err := e.db.SQL(e.ctx, fmt.Sprintf("%s job = %d and ord = %d", sql, step.Job, step.Ord))
		e.ok(err)
		var found []string
		e.ok(e.st.Trails(e.ctx, m.key(), func(t store.TrailOf) error {
			if f := audit.Verify(lifecycle.ByName(t.Kind), t.Entries, audit.Stored{Entity: t.ID, State: t.Record.State, Seq: t.Record.Seq, Head: t.Record.Head}); f != nil {
				found = append(found, t.ID)
			}
			return nil
		}))
		if len(found) != i+1 || !slices.Contains(found, m.job.ID.Step(step.Ord).Public(pawl.StepPrefix)) {
			e.Errorf("%s: found %v, want %d with this step", sql, found, i+1)
		}
	}
}
