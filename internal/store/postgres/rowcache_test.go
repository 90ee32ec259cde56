package postgres

import (
	"reflect"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestWhatHeldAJobHoldsAnother: when a job has ended, what held it holds the next one,
// which has nothing of it; and who has been handed the first keeps it as it was.
func TestWhatHeldAJobHoldsAnother(t *testing.T) {
	t.Parallel()
	var c rowCache
	jobs := make([]*pawl.Job, 2)
	for i := range jobs {
		jobs[i] = &pawl.Job{ID: pawl.MakeID(time.Now(), uint32(i), 0), Workflow: []string{"first", "second"}[i]}
		jobs[i].State = lifecycle.JobRunning
	}
	step := pawl.StepKey{Job: jobs[0].Key(), Ord: pawl.MakeOrd(1, 0)}
	put := func(ch *store.Changes) {
		c.put(&reading{q: &store.Query{}, Facts: &store.Facts{}}, ch, &stamp{xid: 7, at: time.Now()})
	}
	put(&store.Changes{NewJobs: jobs[:1], NewSteps: []*pawl.Step{{StepKey: step, Claims: 3}}})
	first := c.find(&store.Query{Jobs: []rowkey.Job{jobs[0].Key()}, Steps: []pawl.StepKey{step}}, new(rooms))
	if first == nil {
		t.Fatal("a running job is not known")
	}
	held := c.jobs[jobs[0].Key()]
	ended := *jobs[0]
	ended.State = lifecycle.JobCompleted
	put(&store.Changes{Jobs: []store.Update[*pawl.Job]{{Record: &ended}}})
	put(&store.Changes{NewJobs: jobs[1:]})
	if c.jobs[jobs[1].Key()] != held {
		t.Error("what held a job that has ended is not used again")
	}
	if j, s := first.Jobs[jobs[0].Key()], first.Steps[step]; j.Workflow != "first" || s.Claims != 3 {
		t.Errorf("the first job is now %q, its step %+v", j.Workflow, s)
	}
	second := c.find(&store.Query{Jobs: []rowkey.Job{jobs[1].Key()}}, new(rooms))
	if second == nil || second.Jobs[jobs[1].Key()].Workflow != "second" || len(held.steps) > 0 {
		t.Errorf("the second job is %+v with %d steps", second, len(held.steps))
	}
	step.Job = jobs[1].Key()
	if r := c.find(&store.Query{Jobs: []rowkey.Job{step.Job}, Steps: []pawl.StepKey{step}}, new(rooms)); r != nil {
		t.Errorf("the second job has a step: %+v", r.Steps[step])
	}
}

// TestOnlyKeysAreFoundInTheCache: a query that asks for anything but rows by their keys, and what
// waits in a job, is answered by the server.
func TestOnlyKeysAreFoundInTheCache(t *testing.T) {
	t.Parallel()
	keyed := map[string]bool{"Workers": true, "Watched": true, "Jobs": true, "Steps": true, "Waiting": true}
	of := reflect.TypeFor[store.Query]()
	for i := range of.NumField() {
		var q store.Query
		v := reflect.ValueOf(&q).Elem().Field(i)
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		if name := of.Field(i).Name; plainly(&q) != keyed[name] {
			t.Errorf("a query of %s: plainly is %v", name, plainly(&q))
		}
	}
}
