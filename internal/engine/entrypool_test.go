package engine

import (
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
)

// touchAll runs a command that sees the jobs of a transaction.
func touchAll(t *tx, jobs ...*pawl.Job) {
	t.open()
	for _, j := range jobs {
		t.job(j.Key())
	}
}

// TestListsKeepNothing: a list of a finished transaction refers to none of its records, also not
// to those that only its earlier commands have seen, and the next transaction uses its memory.
func TestListsKeepNothing(t *testing.T) {
	t.Parallel()
	facts := func(counters ...uint32) (f *store.Facts, jobs []*pawl.Job) {
		f = &store.Facts{Jobs: map[rowkey.Job]*pawl.Job{}}
		for _, n := range counters {
			j := &pawl.Job{ID: pawl.MakeID(pawl.KeyTime(1<<32), n, 0)}
			f.Jobs[j.Key()], jobs = j, append(jobs, j)
		}
		return f, jobs
	}
	e := &Engine{}
	f, jobs := facts(1, 2, 3)
	first := newTx(&store.Query{}, f, 0, e.entryPool.take())
	touchAll(first, jobs...)
	touchAll(first, jobs[0])
	e.recycle(first)
	l := e.entryPool.take()
	for i, h := range l.jobs[:cap(l.jobs)] {
		if h.record != nil {
			t.Errorf("record %d is kept", i)
		}
	}
	for i, h := range l.touchedJobs[:cap(l.touchedJobs)] {
		if h.held != nil || h.before.ID != (pawl.ID{}) {
			t.Errorf("what was touched as number %d is kept", i)
		}
	}
	if cap(l.jobs) < 3 || cap(l.touchedJobs) < 3 {
		t.Errorf("there is room for %d records and %d touched ones, want 3", cap(l.jobs), cap(l.touchedJobs))
	}
	f, jobs = facts(4, 5)
	second := newTx(&store.Query{}, f, 0, l)
	touchAll(second, jobs...)
	second.jobs[jobs[0].Key()].record.Paused = true
	second.undo()
	if jobs[0].Paused || jobs[1].Paused || len(second.journal.jobs) != 2 {
		t.Errorf("undone: %v and %v, %d touched", jobs[0].Paused, jobs[1].Paused, len(second.journal.jobs))
	}
}

// TestListsOfManyRecordsAreNotKept, but what else is in them is.
func TestListsOfManyRecordsAreNotKept(t *testing.T) {
	t.Parallel()
	var p entryPool
	p.put(list{entries: make([]store.Entry, 10), jobs: make([]held[pawl.Job], mostRecords+1), touchedSteps: make([]touched[pawl.Step], mostRecords+1)})
	if l := p.take(); cap(l.entries) != 10 || l.jobs != nil || l.touchedSteps != nil {
		t.Errorf("room for %d entries, %d records and %d touched ones is kept", cap(l.entries), cap(l.jobs), cap(l.touchedSteps))
	}
}
