package engine_test

import (
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/engine"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
)

// TestReasonsAreLimited: every command refuses a reason that is too long, or no text, with
// an error that names it (T13).
func TestReasonsAreLimited(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		e, ctx := p.engine, t.Context()
		mint := storetest.NewMint()
		job, worker := mint.ID(1), mint.ID(2)
		plan := pawl.SchedulePlan{Name: "nightly", Workflow: "w", Cron: "@daily"}
		verbs := map[string]func(c pawl.Change) error{
			"cancel":       func(c pawl.Change) error { return errorOf(e.Cancel(ctx, job, c)) },
			"pause":        func(c pawl.Change) error { return errorOf(e.PauseJob(ctx, job, c)) },
			"resume":       func(c pawl.Change) error { return errorOf(e.ResumeJob(ctx, job, c)) },
			"retry":        func(c pawl.Change) error { return errorOf(e.RetryJob(ctx, job, pawl.Retry{}, c)) },
			"move":         func(c pawl.Change) error { _, err := e.MoveJob(ctx, job, 1, false, c); return err },
			"signal":       func(c pawl.Change) error { return errorOf(e.Signal(ctx, job, "go", nil, c)) },
			"redact":       func(c pawl.Change) error { _, err := e.RedactJob(ctx, job, "", c, nil); return err },
			"retry step":   func(c pawl.Change) error { return errorOf(e.RetryStep(ctx, job, "a", c)) },
			"skip step":    func(c pawl.Change) error { return errorOf(e.SkipStep(ctx, job, "a", c)) },
			"resolve step": func(c pawl.Change) error { return errorOf(e.ResolveStep(ctx, job, "a", nil, c)) },
			"approve":      func(c pawl.Change) error { return errorOf(e.Approve(ctx, job, "a", nil, c)) },
			"reject":       func(c pawl.Change) error { return errorOf(e.Reject(ctx, job, "a", c)) },
			"pause worker": func(c pawl.Change) error { return errorOf(e.PauseWorker(ctx, worker, c)) },
			"terminate":    func(c pawl.Change) error { return errorOf(e.TerminateWorker(ctx, worker, c)) },
			"put schedule": func(c pawl.Change) error { return errorOf(e.PutSchedule(ctx, plan, false, c)) },
			"move schedule": func(c pawl.Change) error {
				return errorOf(e.MoveSchedule(ctx, pawl.ScheduleName{Name: "nightly"}, lifecycle.SchedulePause, c))
			},
			"trigger": func(c pawl.Change) error {
				return errorOf(e.TriggerSchedule(ctx, pawl.ScheduleName{Name: "nightly"}, c))
			},
			"quotas":   func(c pawl.Change) error { return e.SetQuotas(ctx, []pawl.Quota{{Name: "queue/q", Slots: 1}}, c) },
			"register": func(c pawl.Change) error { _, _, err := e.RegisterWorkflow(ctx, "", plain(t), "", c); return err },
			"prune":    func(c pawl.Change) error { _, err := e.Prune(ctx, 1<<50, c, nil); return err },
		}
		for name, do := range verbs {
			for what, reason := range map[string]string{"too long": strings.Repeat("r", engine.MaxReason+1), "no text": "\xff"} {
				err := do(pawl.Change{Actor: "ann", Reason: reason})
				if pawl.KindOf(err) != pawl.Invalid || !strings.HasPrefix(err.Error(), "reason: ") {
					t.Errorf("%s, a reason that is %s: %v; want an error of kind Invalid that names the reason", name, what, err)
				}
			}
		}
	})
}

func plain(t *testing.T) []byte {
	return define(t, "name: plain\nsteps: [{id: a, handler: h}]\n").Canonical()
}
