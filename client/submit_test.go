package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/workflow"
)

// A countedEngine counts the reads of registered workflows, and takes what is submitted.
type countedEngine struct {
	link.Engine
	reads map[pawl.WorkflowName]int
	def   *workflow.Definition
	got   []pawl.Submission
}

func (e *countedEngine) Lookup(_ context.Context, n pawl.WorkflowName, _ int) (*pawl.Version, *workflow.Definition, error) {
	if e.reads[n]++; n.Name == "nope" {
		return nil, nil, errors.New("there is none")
	}
	return &pawl.Version{Version: e.reads[n]}, e.def, nil
}

func (e *countedEngine) Submit(_ context.Context, subs ...pawl.Submission) ([]pawl.Submitted, error) {
	e.got = append(e.got, subs...)
	return make([]pawl.Submitted, len(subs)), nil
}

// TestOneVersionForACall: the jobs of one call that name the same workflow are of the same version, which
// is read once.
func TestOneVersionForACall(t *testing.T) {
	t.Parallel()
	def, err := workflow.Parse("test.yaml", []byte("name: one\nsteps: [{id: a, handler: a}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	e := &countedEngine{reads: map[pawl.WorkflowName]int{}, def: def}
	jobs := client.Over(e, client.Config{}, nil).Jobs
	for call := 1; call <= 2; call++ {
		done, err := jobs.SubmitAll(t.Context(), client.Submission{Name: "one"}, client.Submission{Name: "nope"}, client.Submission{Name: "one", Workspace: "w"}, client.Submission{Name: "one"}, client.Submission{Name: "nope"})
		if err != nil || done[0].Err != nil || done[1].Err == nil || done[4].Err == nil {
			t.Fatalf("%v %+v", err, done)
		}
		for n, reads := range e.reads {
			if reads != call {
				t.Errorf("%v was read %d times by %d calls", n, reads, call)
			}
		}
		for _, s := range e.got {
			if s.Version != call {
				t.Errorf("%+v is of version %d, want %d", s, s.Version, call)
			}
		}
		e.got = nil
	}
}
