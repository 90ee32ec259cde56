package simulate

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/expressions"
	"github.com/pawl-dev/pawl/internal/rehearsal"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// arrangeStep puts on the agenda what follows from the state of a step.
func (s *simulation) arrangeStep(w *rehearsal.World, step *pawl.Step) {
	node := w.Definition.Node(step.Ord.Node())
	switch {
	case step.State == lifecycle.StepEnqueued:
		s.arrangeClaim(w, step, node)
	case step.State != lifecycle.StepInProgress || w.IsFan(step):
	case step.DueEvent == lifecycle.StepCancel:
		s.arrangeStop(w, step, node)
	case node.Kind == workflow.KindApproval:
		s.arrangePerson(w, step)
	case node.Kind == workflow.KindEvent:
		s.arrangeSignal(w, step, node)
	}
}

// arrangeClaim arranges for a worker to take a step.
func (s *simulation) arrangeClaim(w *rehearsal.World, step *pawl.Step, node *workflow.Node) {
	ord, claims := step.Ord, step.Claims
	delay := s.within(claimWithin)
	if node.QueueTimeout > 0 && s.with(Slow, rateSlow) {
		delay += node.QueueTimeout
	}
	s.after(delay, func() error { return s.claim(w, ord, claims) })
}

func (s *simulation) claim(w *rehearsal.World, ord pawl.Ord, claims int) error {
	step := w.At(ord)
	if step.State != lifecycle.StepEnqueued || step.Claims != claims {
		return nil // cancelled meanwhile, or its time in the queue passed
	}
	s.worker++
	worker := pawl.Worker{ID: pawl.MakeID(pawl.Time(s.now), s.worker, 7)}
	if err := w.Claim(step, &worker); err != nil {
		return err
	}
	if s.with(Duplicate, rateDuplicate) {
		s.refuse(w, ord, "the claim arrives twice")
	}
	if err := w.Render(step); err != nil {
		return w.Report(step, decide.Report{Event: lifecycle.StepFailPermanently, Failure: rehearsal.ExpressionFailure(err), Note: decide.Note{Reason: err.Error()}})
	}
	s.arrangeEnd(w, step)
	return nil
}

// refuse records that a message was refused, and why.
func (s *simulation) refuse(w *rehearsal.World, ord pawl.Ord, what string) {
	step := w.At(ord)
	event := lifecycle.StepClaim
	if strings.Contains(what, "report") {
		event = lifecycle.StepSuccess
	}
	s.result.Refused++
	if _, err := lifecycle.Step.Next(step.State, event); err != nil {
		w.Say(ord, "%s, and is refused: %v", what, err)
		return
	}
	w.Say(ord, "%s, and is refused: claim %d is the step's", what, step.Claims)
}

// arrangeEnd makes up how an attempt ends.
func (s *simulation) arrangeEnd(w *rehearsal.World, step *pawl.Step) {
	node, limit := w.Definition.Node(step.Ord.Node()), workflow.DefaultTimeout
	if node.Timeout > 0 {
		limit = node.Timeout
	}
	took := min(s.lasting(meanWork), limit/2)
	switch {
	case s.with(Kill, rateKill):
		reason := "its worker died"
		s.end(w, step, took+notice, decide.Report{Event: lifecycle.StepLost, Failure: rehearsal.Failure("lost", reason, false), Note: decide.Note{Reason: reason}})
	case s.with(Slow, rateSlow), s.chance(rateTimeout):
		reason := fmt.Sprintf("it took longer than %s", limit)
		s.end(w, step, limit, decide.Report{Event: lifecycle.StepTimeout, Failure: rehearsal.Failure("timeout", reason, false), Note: decide.Note{Reason: reason}})
	case s.chance(rateFatal):
		s.end(w, step, took, failing(lifecycle.StepFailPermanently, "it failed for good"))
	case s.chance(rateFail):
		s.end(w, step, took, failing(lifecycle.StepFail, "it failed"))
	default:
		s.end(w, step, took, decide.Report{Event: lifecycle.StepSuccess, Output: s.madeUp(w, step.Ord)})
	}
}

// end reports how an attempt ended, unless the step has another claim by then.
func (s *simulation) end(w *rehearsal.World, step *pawl.Step, in time.Duration, r decide.Report) {
	ord, claim := step.Ord, step.Claims
	deliver := func() error {
		now := w.At(ord)
		if now.State != lifecycle.StepInProgress || now.Claims != claim {
			if s.faults[Duplicate] || s.faults[Slow] {
				s.refuse(w, ord, fmt.Sprintf("the report of claim %d comes too late", claim))
			}
			return nil
		}
		return w.Report(now, r)
	}
	s.after(in, deliver)
	if s.with(Duplicate, rateDuplicate) {
		s.after(in+s.within(claimWithin), func() error {
			s.refuse(w, ord, fmt.Sprintf("the report of claim %d arrives twice", claim))
			return nil
		})
	}
}

// madeUp makes up an output that fits how it is used.
func (s *simulation) madeUp(w *rehearsal.World, ord pawl.Ord) json.RawMessage {
	list := s.minds[w.Definition].Results(ord.Node(), ord.Instance() > 0, true)
	return list[s.rng.IntN(len(list))]
}

// arrangeStop arranges for a worker that is asked to stop to do so, or not in time.
func (s *simulation) arrangeStop(w *rehearsal.World, step *pawl.Step, node *workflow.Node) {
	ord, claim := step.Ord, step.Claims
	if node.Kind == workflow.KindWorkflow {
		s.stopChild(w, ord)
		return
	}
	if s.chance(rateNever) || s.faults[Slow] {
		return // until its grace is over
	}
	s.after(s.within(5*time.Second), func() error {
		now := w.At(ord)
		if now.State != lifecycle.StepInProgress || now.Claims != claim {
			return nil
		}
		return w.Report(now, decide.Report{Event: lifecycle.StepCancel, Note: decide.Note{Reason: "its worker stopped it"}})
	})
}

// arrangePerson arranges for a person to decide about an approval, or for none.
func (s *simulation) arrangePerson(w *rehearsal.World, step *pawl.Step) {
	ord := step.Ord
	if step.DueAt > 0 && s.chance(rateNever) {
		return // it expires
	}
	in, reject, form := s.lasting(meanPerson), s.chance(rateReject), s.madeUp(w, ord)
	s.after(in, func() error {
		now := w.At(ord)
		if now.State != lifecycle.StepInProgress {
			return nil
		}
		note := decide.Note{Actor: "somebody"}
		if reject {
			note.Reason = "a person rejects it"
			return w.Reject(now, note)
		}
		note.Reason = "a person approves it: " + string(form)
		return w.Approve(now, form, note)
	})
}

// early sends some signals before a step waits for them.
func (s *simulation) early(w *rehearsal.World) {
	for n := 1; n <= len(w.Definition.Nodes); n++ {
		if node := w.Definition.Node(n); node.Kind == workflow.KindEvent && s.chance(rateEarly) {
			s.sent[w][node.Event]++
			s.after(s.within(time.Minute), func() error { return s.signal(w, n, "the signal %s comes") })
		}
	}
}

// arrangeSignal sends the signal that a step waits for, unless one has been sent
// that it will get.
func (s *simulation) arrangeSignal(w *rehearsal.World, step *pawl.Step, node *workflow.Node) {
	n := step.Ord.Node()
	switch {
	case s.sent[w][node.Event] > 0:
		s.sent[w][node.Event]--
	case step.DueAt > 0 && s.chance(rateNever):
	default:
		s.after(s.lasting(meanPerson), func() error { return s.signal(w, n, "the signal %s comes") })
	}
	if step.DueAt == 0 { // this step gets one in the end, even if others take some
		s.after(24*time.Hour, func() error {
			if w.At(step.Ord).State != lifecycle.StepInProgress {
				return nil
			}
			return s.signal(w, n, "the signal %s comes again")
		})
	}
}

func (s *simulation) signal(w *rehearsal.World, n int, words string) error {
	if w.Ended() {
		return nil
	}
	node := w.Definition.Node(n)
	w.Say(pawl.MakeOrd(n, 0), words, node.Event)
	return w.Send(&pawl.Signal{Name: node.Event, At: s.now, Actor: "somebody", Data: s.madeUp(w, pawl.MakeOrd(n, min(1, instances(node))))})
}

// instances returns 1 for a step that has some, or 0.
func instances(node *workflow.Node) int {
	if node.Fans() {
		return 1
	}
	return 0
}

// spawn makes a child job. Of a registered workflow only its end is simulated.
func (s *simulation) spawn(w *rehearsal.World, step *pawl.Step, child *workflow.Born) (string, error) {
	ord := step.Ord
	if child.Definition != nil && child.Inputs != nil {
		if _, err := s.reading(child.Definition); err != nil {
			return "", err
		}
		s.open(child.Definition, child.Inputs, w, ord)
		return "", nil
	}
	end := decide.ChildEnd{Output: s.madeUp(w, ord)}
	if s.chance(rateChild) {
		end = decide.ChildEnd{Failure: rehearsal.Failure("child", "its child job failed", true)}
	}
	s.after(s.lasting(3*meanWork), func() error { return s.endChild(w, ord, end) })
	return "", nil
}

// stopChild cancels the child job that a step waits for.
func (s *simulation) stopChild(w *rehearsal.World, ord pawl.Ord) {
	s.after(s.within(claimWithin), func() error {
		for _, child := range s.worlds {
			if child.ParentJob != w || child.ParentStep != ord {
				continue
			}
			if child.Ended() || child.Job().Ending != "" {
				return nil
			}
			return child.Cancel("the parent's step was cancelled")
		}
		return s.endChild(w, ord, decide.ChildEnd{Failure: rehearsal.Failure("canceled", "its child job was canceled", true)})
	})
}

func failing(event machine.Event, reason string) decide.Report {
	return decide.Report{Event: event, Failure: rehearsal.Failure("exit", reason, event == lifecycle.StepFailPermanently), Note: decide.Note{Reason: reason}}
}

var _ rehearsal.Mind = (*simulation)(nil)

// Condition treats an `if` as true if it cannot be evaluated with the made-up values.
func (s *simulation) Condition(w *rehearsal.World, node int, scope *workflow.Scope, truth bool, err error) (bool, error) {
	if err == nil || s.minds[w.Definition].MissingAt(expressions.UseIf, node, scope) {
		return truth, err
	}
	w.Say(pawl.MakeOrd(node, 0), "its condition cannot be evaluated with made-up values, and is taken as true")
	return true, nil
}

func (s *simulation) Items(w *rehearsal.World, node int, scope *workflow.Scope, items []json.RawMessage, err error) ([]json.RawMessage, error) {
	if err == nil || s.minds[w.Definition].MissingAt(expressions.UseForeach, node, scope) {
		return items, err
	}
	w.Say(pawl.MakeOrd(node, 0), "its foreach cannot be evaluated with made-up values, and is taken as two items")
	return []json.RawMessage{json.RawMessage("null"), json.RawMessage("null")}, nil
}

func (s *simulation) Failed(w *rehearsal.World, at expressions.Use, node int, scope *workflow.Scope, err error) error {
	if s.minds[w.Definition].MissingAt(at, node, scope) {
		return err
	}
	return nil
}

func (s *simulation) Read(*rehearsal.World, expressions.Use, int, *workflow.Scope, error) {}
