package console

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// waiting is a job whose steps wait for all that steps can wait for.
func waiting() *pawl.JobView {
	v := busy()
	step := func(key string, w pawl.Wait) pawl.StepView {
		return pawl.StepView{Key: key, Status: lifecycle.StepInProgress, Attempts: 1, Claims: 1, StartedAt: after(0), Wait: &w}
	}
	form := json.RawMessage(`{"copies": {"type": "integer", "required": true}, "by": {"required": true}, "note": {"type": "string"}}`)
	done := step("done", pawl.Wait{Kind: "approval", By: "cli:ann", Reason: "looks\ngood"})
	done.Status, done.CompletedAt = lifecycle.StepComplete, after(time.Second)
	late := step("late", pawl.Wait{Kind: "event", Event: "paid"})
	late.Status = lifecycle.StepCancelled
	v.Steps = []pawl.StepView{
		step("gate", pawl.Wait{Kind: "approval", Prompt: "Publish?", Form: form, Until: after(time.Hour)}),
		{Key: "each", Status: lifecycle.StepInProgress, StartedAt: after(0), Instances: &pawl.Instances{Total: 2, Made: 2, Live: 2}},
		step("each[0]", pawl.Wait{Kind: "approval", Prompt: "Take a?"}),
		step("each[linux,arm64]", pawl.Wait{Kind: "approval", Prompt: "Take b?"}),
		step("paid", pawl.Wait{Kind: "event", Event: "payment_received"}),
		step("cooldown", pawl.Wait{Kind: "sleep", Until: after(time.Minute)}),
		step("cleanup", pawl.Wait{Kind: "workflow", Job: "j_019a3c7e5b7a7c1d8000000040a1b2c4"}),
		done, late,
	}
	return v
}

func TestDrawWaits(t *testing.T) {
	t.Parallel()
	lines := drawTree(waiting(), Frame{Now: noon.Add(5 * time.Second), Given: " --workspace it"})
	golden(t, "tree-waits.txt", strings.Join(lines, "\n")+"\n")
}

func TestTellWaits(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	told := NewTranscript(&b, func() time.Time { return noon })
	told.Given = " --workspace it"
	told.Show(waiting())
	golden(t, "plain-waits.txt", b.String())
}
