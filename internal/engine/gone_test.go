package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/workflow"
)

// TestACallerThatHasLeft: a caller whose context ends during the commit of its command
// returns with that error and reads nothing of the command, which is decided meanwhile. The
// race detector reports it otherwise.
func TestACallerThatHasLeft(t *testing.T) {
	t.Parallel()
	parse := func(text string) *workflow.Definition {
		t.Helper()
		def, err := workflow.Parse("nap.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return def
	}
	nap := parse("name: nap\nsteps: [{id: a, sleep: 1h}]\n")
	next := parse("name: nap\nsteps: [{id: a, sleep: 2h}]\n")
	why := pawl.Change{Actor: "test", Reason: "because"}
	keyed := why
	keyed.RequestID = "request"
	for name, test := range map[string]func(t *testing.T, e *Engine, job pawl.ID) (call func(ctx context.Context) error){
		"start": func(t *testing.T, e *Engine, job pawl.ID) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				_, err := e.evaluator.startJob(ctx, job.JobKey())
				return err
			}
		},
		"move": func(t *testing.T, e *Engine, job pawl.ID) func(ctx context.Context) error {
			if _, _, err := e.RegisterWorkflow(t.Context(), pawl.DefaultWorkspace, next.Canonical(), "", why); err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error {
				_, err := e.MoveJob(ctx, job, 1, false, why)
				return err
			}
		},
		"retry": func(t *testing.T, e *Engine, job pawl.ID) func(ctx context.Context) error {
			if _, err := e.Cancel(t.Context(), job, why); err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error {
				_, err := e.RetryJob(ctx, job, pawl.Retry{}, why)
				return err
			}
		},
		"replay": func(t *testing.T, e *Engine, job pawl.ID) func(ctx context.Context) error {
			if _, err := e.Cancel(t.Context(), job, why); err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error {
				_, err := e.RetryJob(ctx, job, pawl.Retry{}, keyed)
				return err
			}
		},
		"trigger": func(t *testing.T, e *Engine, job pawl.ID) func(ctx context.Context) error {
			name := pawl.ScheduleName{Workspace: pawl.DefaultWorkspace, Name: "s"}
			if _, _, err := e.RegisterWorkflow(t.Context(), pawl.DefaultWorkspace, nap.Canonical(), "", why); err != nil {
				t.Fatal(err)
			}
			if _, err := e.PutSchedule(t.Context(), pawl.SchedulePlan{Name: "s", Workflow: "nap", Cron: "0 0 1 1 *"}, false, why); err != nil {
				t.Fatal(err)
			}
			return func(ctx context.Context) error {
				_, err := e.TriggerSchedule(ctx, name, why)
				return err
			}
		},
		"register": func(t *testing.T, e *Engine, job pawl.ID) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				_, _, err := e.RegisterWorkflow(ctx, pawl.DefaultWorkspace, next.Canonical(), "", keyed)
				return err
			}
		},
		"submit": func(t *testing.T, e *Engine, job pawl.ID) func(ctx context.Context) error {
			return func(ctx context.Context) error {
				_, err := e.Submit(ctx, pawl.Submission{Definition: nap.Canonical(), RequestID: "request"})
				return err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, s := interposedEngine(t)
			a, err := e.Submit(t.Context(), pawl.Submission{Definition: nap.Canonical()})
			if err != nil || a[0].Err != nil {
				t.Fatal(a, err)
			}
			call := test(t, e, a[0].ID)
			ctx, leave := context.WithCancel(t.Context())
			s.do = func(_ context.Context, q *store.Query, decide func(*store.Facts) (*store.Changes, error)) error {
				leave()
				return s.Store.Do(context.Background(), q, decide)
			}
			if err := call(ctx); err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("%v; want that the context has ended", err)
			}
		})
	}
}
