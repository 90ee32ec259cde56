package explain

import (
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// TestWhyAFreeSlotIsNotTaken: the reason of a step that waits for a slot of its job says
// that all are in use only if they are.
func TestWhyAFreeSlotIsNotTaken(t *testing.T) { // J7
	def, err := workflow.Parse("test.yaml", []byte("name: two\nsteps: [{id: a, handler: h}, {id: b, handler: h}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	job := &pawl.Job{WorkerCount: 2, Record: pawl.Record{State: lifecycle.JobRunning}}
	waits := &pawl.Step{StepKey: pawl.StepKey{Ord: pawl.MakeOrd(2, 0)}, Mark: pawl.Waiting, Record: pawl.Record{State: lifecycle.StepPending}}
	q := &inquiry{scene: &scene{}, job: job, id: "j_1", def: def}
	for _, c := range []struct {
		active     int
		by         []string
		text, hint string
	}{
		{0, nil, "0 of 2 slots of the job are in use, and it was not given a free one", "pawl job pause j_1 && pawl job resume j_1"},
		{2, []string{"a", "c"}, "all 2 slots of the job are in use: a, c", ""},
	} {
		job.Active, q.taken, q.active = c.active, c.active, c.by
		if r, err := q.ofStep(waits); err != nil || r.Text != c.text || r.Hint != c.hint {
			t.Errorf("%d active: %q, hint %q, %v; want %q, hint %q", c.active, r.Text, r.Hint, err, c.text, c.hint)
		}
	}
}
