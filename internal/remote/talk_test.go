package remote

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/exchange"
	"github.com/pawl-dev/pawl/internal/link"
)

// TestALateAnswerDeliversNothingAgain: the answer to an exchange that waits comes after a later
// one has had its step delivered again, and after that step was reported.
func TestALateAnswerDeliversNothingAgain(t *testing.T) { // T5
	t.Parallel()
	var all talks
	w := &pawl.Worker{ID: pawl.MakeID(time.Now(), 1, 1)}
	all.begin(nil, w, nil)
	c := all.of(w.Key())
	step := pawl.MakeID(time.Now(), 2, 2).Step(pawl.MakeOrd(1, 0))
	claim := link.Stop{StepKey: step.StepKey(), Claim: 1}
	given := &exchange.Answer{Steps: []exchange.Step{{Claim: exchange.Of(step, claim)}}}
	learn := func(reports []link.Report, a *exchange.Answer, doubts, want int) {
		t.Helper()
		got, err := c.learn(reports, a, doubts)
		if err != nil || len(got) != want {
			t.Fatalf("%d steps, %v; want %d", len(got), err, want)
		}
	}
	waits, doubts := c.request(nil, 1, time.Second)
	again, _ := c.request(nil, 1, 0)
	learn(nil, given, doubts, 1)
	c.ended(again.Turn)
	report, _ := c.request([]link.Report{{Step: claim.StepKey, Claim: 1}}, 1, 0)
	learn([]link.Report{{Step: claim.StepKey, Claim: 1}}, &exchange.Answer{}, doubts, 0)
	c.ended(report.Turn)
	learn(nil, given, doubts, 0)
	if c.ended(waits.Turn); len(c.over) > 0 {
		t.Errorf("%d claims are still remembered; want none without an exchange under way", len(c.over))
	}
}
