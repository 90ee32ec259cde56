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

// TestStepsOutliveTheirResponse, whose room the next one takes. Steps that are alike share what they do.
func TestStepsOutliveTheirResponse(t *testing.T) {
	t.Parallel()
	var all talks
	w := &pawl.Worker{ID: pawl.MakeID(time.Now(), 1, 1)}
	all.begin(nil, w, nil)
	c := all.of(w.Key())
	deliver := func(job uint32, key, handler string, env map[string]string) *link.StepInput {
		t.Helper()
		_, doubts := c.request(nil, 1, 0)
		step := pawl.MakeID(time.UnixMilli(1), job, 2).Step(pawl.MakeOrd(1, 0))
		sent := &exchange.Answer{Steps: []exchange.Step{{Claim: exchange.Of(step, link.Stop{StepKey: step.StepKey(), Claim: 1}), Key: key, Handler: handler,
			Work: exchange.Work{Kind: "handler", Env: env, With: []byte(`{"to":1}`)}, Input: []byte(`{"of":"` + key + `"}`)}},
			Results: []string{}, Stops: []exchange.Claim{}, Gone: []exchange.Claim{}}
		a := exchange.QuickAnswer(sent.AppendJSON(nil))
		got, err := c.learn(nil, a, doubts)
		if err != nil || len(got) != 1 {
			t.Fatalf("%d steps, %v", len(got), err)
		}
		a.Over()
		in, _, err := (&Engine{}).StepInput(t.Context(), &got[0])
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	first, second, other := deliver(1, "first", "mail", nil), deliver(2, "second", "mail", nil), deliver(3, "other", "print", nil)
	for key, in := range map[string]*link.StepInput{"first": first, "second": second, "other": other} {
		if in.Key != key || string(in.Input()) != `{"of":"`+key+`"}` {
			t.Errorf("step %s has become %s, with input %s", key, in.Key, in.Input())
		}
	}
	if first.Work != second.Work || first.Node != second.Node {
		t.Error("two steps that are alike share nothing")
	}
	if other.Work.Handler != "print" || other.Node.Handler != "print" || first.Work.Handler != "mail" {
		t.Errorf("the handlers are %s and %s; want print and mail", other.Work.Handler, first.Work.Handler)
	}
	env := map[string]string{"TO": "ann"} // which a task may change while the next step is compared with it
	if one, two := deliver(4, "fourth", "mail", env), deliver(5, "fifth", "mail", env); one.Work == two.Work || two.Work.Env["TO"] != "ann" {
		t.Error("two steps share the variables of their environments")
	}
}
