package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// patient is a workflow that waits until it is told to go on.
const patient = "name: waiting\nsteps: [{id: told, event: {name: go_on}}]\n"

// below submits a job of a definition below another.
func (p *process) below(parent pawl.ID, src string, change func(*pawl.Submission)) (pawl.ID, error) {
	p.t.Helper()
	sub := pawl.Submission{Definition: define(p.t, src).Canonical(), Actor: "test", Parent: parent}
	if change != nil {
		change(&sub)
	}
	done, err := p.engine.Submit(p.t.Context(), sub)
	must(p.t, err)
	return done[0].ID, done[0].Err
}

func (p *process) mustBelow(parent pawl.ID, src string) pawl.ID {
	p.t.Helper()
	id, err := p.below(parent, src, nil)
	must(p.t, err)
	return id
}

// TestCancelingAParentCancelsWhatWasSubmittedBelowIt: at every depth, also if the process that
// cancels dies before it could do more, and never one that is no descendant.
func TestCancelingAParentCancelsWhatWasSubmittedBelowIt(t *testing.T) { // J6
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{})
		other := p.mustBelow(pawl.ID{}, patient)
		family := []pawl.ID{p.mustBelow(pawl.ID{}, patient)}
		for range engine.MaxDepth {
			family = append(family, p.mustBelow(family[len(family)-1], patient))
		}
		sibling := p.mustBelow(family[0], patient)
		for depth, id := range family {
			if v := p.job(id); v.Depth != depth || depth > 0 && (v.ParentJobID == nil || *v.ParentJobID != family[depth-1].Public(pawl.JobPrefix)) {
				t.Errorf("depth %d of %d, below %v", v.Depth, depth, v.ParentJobID)
			}
		}
		if v := p.job(family[0]); len(v.ChildJobs) != 2 {
			t.Errorf("children %v", v.ChildJobs)
		}
		if _, err := p.below(family[engine.MaxDepth], patient, nil); pawl.KindOf(err) != pawl.Invalid || !strings.Contains(err.Error(), "depth") {
			t.Errorf("below the deepest: %v", err)
		}
		p.stop() // from here on nobody evaluates
		passive := engine.New(engine.Config{Store: db.open(), Passive: true})
		_, err := passive.Cancel(t.Context(), family[0], note("over"))
		must(t, err)
		passive.Close()
		late := start(t, db.open(), setup{})
		for _, id := range append(family, sibling) {
			if v := late.wait(id); v.Status != lifecycle.JobCanceled {
				t.Errorf("a descendant at depth %d is %s", v.Depth, v.Status)
			}
		}
		if v := late.job(other); lifecycle.Job.Ended(v.Status) {
			t.Errorf("another job is %s", v.Status)
		}
		if _, err := late.below(family[0], patient, nil); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("below a job that has ended: %v", err)
		}
		until(t, "nothing is marked", func() bool {
			j, err := late.store.Job(t.Context(), family[0].JobKey())
			must(t, err)
			return j.Mark == pawl.Clear && !j.Children
		})
		verify(t, late.store)
	})
}

// TestNoChildEscapes: children that are submitted while their parent is canceled are refused
// or canceled.
func TestNoChildEscapes(t *testing.T) { // J6
	onShared(t, func(t *testing.T, db *database) {
		p, far := start(t, db.open(), setup{}), start(t, db.open(), setup{})
		parent := p.mustBelow(pawl.ID{}, patient)
		var all sync.WaitGroup
		var mu sync.Mutex
		var made []pawl.ID
		for _, q := range []*process{p, far} {
			all.Go(func() {
				for {
					id, err := q.below(parent, patient, nil)
					if err != nil {
						if pawl.KindOf(err) != pawl.Conflict {
							t.Error(err)
						}
						return
					}
					mu.Lock()
					made = append(made, id)
					mu.Unlock()
				}
			})
		}
		until(t, "there are children", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(made) > 10
		})
		_, err := far.engine.Cancel(t.Context(), parent, note("over"))
		must(t, err)
		all.Wait()
		for _, id := range made {
			if v := p.wait(id); v.Status != lifecycle.JobCanceled {
				t.Errorf("a child is %s", v.Status)
			}
		}
	})
}

// TestAParentThatEndsLeavesItsChildren: it waits for none of them, and only cancellation
// reaches them.
func TestAParentThatEndsLeavesItsChildren(t *testing.T) { // J6
	t.Parallel()
	p := startProcess(t, aFile(t).open(), map[string]worker.Handler{"h": nop})
	parent := p.mustBelow(pawl.ID{}, patient)
	child := p.mustBelow(parent, patient)
	_, err := p.engine.Signal(t.Context(), parent, "go_on", nil, note(""))
	must(t, err)
	if v := p.wait(parent); v.Status != lifecycle.JobCompleted {
		t.Errorf("the parent is %s", v.Status)
	}
	if v := p.job(child); lifecycle.Job.Ended(v.Status) {
		t.Errorf("the child is %s", v.Status)
	}
}

// TestSubmissionsOfFamiliesAreChecked: each fault names its field.
func TestSubmissionsOfFamiliesAreChecked(t *testing.T) { // J6, J2
	t.Parallel()
	p := start(t, aFile(t).open(), setup{})
	parent := p.mustBelow(pawl.ID{}, patient)
	depth := func(n int) *int { return &n }
	for what, tt := range map[string]struct {
		parent pawl.ID
		change func(*pawl.Submission)
		kind   pawl.Kind
		field  string
	}{
		"no such parent":     {p.engine.NewID(), nil, pawl.NotFound, "parent_job_id"},
		"another workspace":  {parent, func(s *pawl.Submission) { s.Workspace = "elsewhere" }, pawl.NotFound, "parent_job_id"},
		"private":            {parent, func(s *pawl.Submission) { s.Private = true }, pawl.Invalid, "parent_job_id"},
		"not its depth":      {parent, func(s *pawl.Submission) { s.Depth = depth(2) }, pawl.Invalid, "depth: 2"},
		"depth without":      {pawl.ID{}, func(s *pawl.Submission) { s.Depth = depth(1) }, pawl.Invalid, "depth: 1"},
		"too deep":           {pawl.ID{}, func(s *pawl.Submission) { s.Depth = depth(6) }, pawl.Invalid, "want 0 to 5"},
		"too many workers":   {pawl.ID{}, func(s *pawl.Submission) { s.WorkerCount = 11 }, pawl.Invalid, "worker_count: 11"},
		"metadata of a list": {pawl.ID{}, func(s *pawl.Submission) { s.Metadata = json.RawMessage(`[1]`) }, pawl.Invalid, "metadata"},
		"metadata too large": {pawl.ID{}, func(s *pawl.Submission) {
			s.Metadata = json.RawMessage(`{"a":"` + strings.Repeat("x", pawl.MaxMetadata) + `"}`)
		}, pawl.Invalid, "metadata"},
		"metadata of our own": {pawl.ID{}, func(s *pawl.Submission) { s.Metadata = json.RawMessage(`{"dir":"/"}`) }, pawl.Invalid, "metadata.dir"},
	} {
		if _, err := p.below(tt.parent, patient, tt.change); pawl.KindOf(err) != tt.kind || !strings.Contains(err.Error(), tt.field) {
			t.Errorf("%s: %v, want kind %d and %q", what, err, tt.kind, tt.field)
		}
	}
	// A key is of one submission, with all of it.
	first := func(s *pawl.Submission) { s.RequestID, s.Metadata = "k", json.RawMessage(`{"a": 1}`) }
	a, err := p.below(parent, patient, first)
	must(t, err)
	again, err := p.below(parent, patient, func(s *pawl.Submission) { s.RequestID, s.Metadata = "k", json.RawMessage(`{"a":1}`) })
	if err != nil || again != a {
		t.Errorf("the same again: %v, %v", again, err)
	}
	if _, err := p.below(parent, patient, func(s *pawl.Submission) { first(s); s.WorkerCount = 2 }); pawl.KindOf(err) != pawl.Invalid {
		t.Errorf("another one with its key: %v", err)
	}
}

// TestWorkersAndMetadataOfASubmission: no more steps run at once than it says, and what was
// given is shown, byte for byte, also of the job that continues it.
func TestWorkersAndMetadataOfASubmission(t *testing.T) { // J6, J7
	t.Parallel()
	m := newMeter()
	p := start(t, aFile(t).open(), setup{capacity: 10, handlers: map[string]worker.Handler{"h": func(_ context.Context, task *worker.Task) worker.Result {
		m.during("h")
		if task.Key == "last" {
			return worker.Result{Failure: &pawl.Failure{Class: "no", Message: "no", Permanent: true}}
		}
		return worker.Result{}
	}}})
	wide := "name: wide\nsteps: [{id: each, handler: h, foreach: [1, 2, 3, 4, 5, 6, 7, 8]}, {id: last, handler: h, needs: [each]}]\n"
	id, err := p.below(pawl.ID{}, wide, func(s *pawl.Submission) {
		s.WorkerCount, s.Metadata, s.Dir = 2, json.RawMessage(`{"ticket":12345678901234567890,"team":"billing"}`), t.TempDir()
	})
	must(t, err)
	v := p.wait(id)
	if most := m.peak("h"); v.WorkerCount != 2 || most > 2 {
		t.Errorf("worker_count %d, and %d steps at once", v.WorkerCount, most)
	}
	continued, err := madeBy(p.engine.RetryJob(t.Context(), id, pawl.Retry{}, note("")))
	must(t, err)
	next := p.wait(continued)
	for _, v := range []*pawl.JobView{v, next} {
		var got map[string]json.RawMessage
		must(t, json.Unmarshal(v.Metadata, &got))
		delete(got, "dir")
		if diff := cmp.Diff(map[string]json.RawMessage{"ticket": json.RawMessage("12345678901234567890"), "team": json.RawMessage(`"billing"`)}, got); diff != "" {
			t.Errorf("metadata (-want +got):\n%s", diff)
		}
	}
	if next.WorkerCount != 2 {
		t.Errorf("the job that continues it has %d workers", next.WorkerCount)
	}

}
