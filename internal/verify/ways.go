package verify

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rehearsal"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A way is one thing that can happen next.
type way struct {
	words string // its text in a timeline, or ""
	do    func(w *rehearsal.World) error
}

// advance lets the next thing happen.
func (x *explorer) advance(w *rehearsal.World) error {
	w.Now += int64(time.Second / time.Microsecond)
	if claimed, err := x.claim(w); err != nil || claimed && w.Ended() {
		return err
	}
	s := x.actor(w)
	if s == nil {
		if w.Ended() {
			return nil
		}
		return fmt.Errorf("the job is %s, and nothing more can happen", w.Job().State)
	}
	ways := x.waysOf(w, s)
	if w.Job().Ending == "" && w.Job().Hooks == pawl.HooksNotYet {
		ways = append(ways, x.stops(w)...)
	}
	chosen := ways[x.pick(len(ways))]
	if chosen.words != "" {
		w.Say(s.Ord, "%s", chosen.words)
	}
	return chosen.do(w)
}

// claim gives every enqueued step to a worker.
func (x *explorer) claim(w *rehearsal.World) (bool, error) {
	claimed := false
	for {
		i := slices.IndexFunc(w.All(), func(s *pawl.Step) bool { return s.State == lifecycle.StepEnqueued })
		if i < 0 {
			return claimed, nil
		}
		claimed = true
		if err := x.take(w, w.All()[i]); err != nil {
			return claimed, err
		}
	}
}

var worker = pawl.Worker{ID: pawl.MakeID(time.Unix(1767225600, 0), 7, 7)}

// take gives one enqueued step to a worker, which fails it if its work cannot be
// evaluated.
func (x *explorer) take(w *rehearsal.World, s *pawl.Step) error {
	ord := s.Ord
	x.began[ord.Node()] = true
	if err := w.Claim(s, &worker); err != nil {
		return err
	}
	s = w.At(ord)
	if err := w.Render(s); err != nil {
		return w.Report(s, decide.Report{Event: lifecycle.StepFailPermanently, Failure: rehearsal.ExpressionFailure(err)})
	}
	return nil
}

// actor returns the first step that something can happen to.
func actor(w *rehearsal.World) *pawl.Step {
	for _, s := range w.All() {
		switch {
		case s.State == lifecycle.StepInProgress && !w.IsFan(s):
			return s
		case s.State == lifecycle.StepPending && s.DueAt > 0:
			return s
		}
	}
	return nil
}

// stops are the ways in which a job ends before it is done: it takes too long, if it
// has a timeout, or an operator cancels it. If there is no timeout, or no hook for a
// cancel, one of the two is enough.
func (x *explorer) stops(w *rehearsal.World) (ways []way) {
	late := w.Job().DueEvent == lifecycle.JobCancel
	if late {
		ways = append(ways, way{do: func(w *rehearsal.World) error {
			w.Now = max(w.Now, w.Job().DueAt)
			return w.TimeOut()
		}})
	}
	if !late || slices.ContainsFunc(w.Definition.Nodes, func(n workflow.Node) bool { return n.Hook == workflow.HookOnCancel }) {
		ways = append(ways, way{do: func(w *rehearsal.World) error { return w.Cancel("an operator cancels the job") }})
	}
	return ways
}

// waysOf returns the ways in which a step can continue.
func (x *explorer) waysOf(w *rehearsal.World, s *pawl.Step) []way {
	ord, n := s.Ord, s.Ord.Node()
	node := w.Definition.Node(n)
	x.began[n] = true
	first := !x.ways[n]
	if node.Kind.Waits() && s.DueAt == 0 && x.endless[n] == nil {
		x.endless[n] = w.Timeline().Brief()
	}
	reports := func(words string, r decide.Report) way {
		if r.Failure != nil {
			r.Note.Reason = r.Failure.Message
		}
		return way{words, func(w *rehearsal.World) error { return w.Report(w.At(ord), r) }}
	}
	switch {
	case s.State == lifecycle.StepPending || node.Kind == workflow.KindSleep:
		return []way{{do: func(w *rehearsal.World) error { return x.fire(w, ord) }}}
	case node.Kind == workflow.KindWorkflow:
		return x.childWays(w, s)
	case s.DueEvent == lifecycle.StepCancel:
		return []way{reports("", decide.Report{Event: lifecycle.StepCancel}), reports("it ends before it is asked to stop", decide.Report{Event: lifecycle.StepSuccess, Output: x.results(ord)[0]})}
	case node.Kind == workflow.KindApproval:
		return x.approvalWays(s)
	}
	var ways []way
	for _, output := range x.results(ord) {
		ways = append(ways, reports("", decide.Report{Event: lifecycle.StepSuccess, Output: output}))
	}
	if node.Kind == workflow.KindEvent {
		for i := range ways {
			ways[i].words = "the signal " + node.Event + " comes"
		}
		if node.Expires > 0 {
			ways = append(ways, way{do: func(w *rehearsal.World) error { return x.fire(w, ord) }})
		}
		return ways
	}
	ways = append(ways, reports("", decide.Report{Event: lifecycle.StepFailPermanently, Failure: rehearsal.Failure("exit", "it failed for good", true)}))
	if first {
		x.ways[n] = true
		for _, again := range []decide.Report{
			{Event: lifecycle.StepFail, Failure: rehearsal.Failure("exit", "it failed", false), Note: decide.Note{Reason: "it failed"}},
			{Event: lifecycle.StepTimeout, Failure: rehearsal.Failure("timeout", "it took too long", false), Note: decide.Note{Reason: "it took too long"}},
			{Event: lifecycle.StepLost, Failure: rehearsal.Failure("lost", "its worker died", false), Note: decide.Note{Reason: "its worker died"}},
		} {
			ways = append(ways, way{do: func(w *rehearsal.World) error { return x.exhaust(w, ord, again, 1000) }})
		}
		ways = append(ways, way{do: func(w *rehearsal.World) error {
			return x.exhaust(w, ord, decide.Report{Event: lifecycle.StepInterrupt}, 1)
		}})
	}
	return ways
}

// results returns possible outputs of the step at ord. Of the instances of a fan-out
// only the first varies.
func (x *explorer) results(ord pawl.Ord) []json.RawMessage {
	return x.r.Results(ord.Node(), ord.Instance() > 0, ord.Instance() <= 1)
}

func (x *explorer) approvalWays(s *pawl.Step) []way {
	ord, note := s.Ord, decide.Note{Actor: "somebody"}
	var ways []way
	for _, form := range x.r.Results(ord.Node(), ord.Instance() > 0, true) {
		ways = append(ways, way{"a person approves: " + string(form), func(w *rehearsal.World) error {
			return w.Approve(w.At(ord), form, note)
		}})
	}
	ways = append(ways, way{"a person rejects it", func(w *rehearsal.World) error {
		return w.Reject(w.At(ord), note)
	}})
	if s.DueAt > 0 && !x.ways[ord.Node()] {
		x.ways[ord.Node()] = true
		ways = append(ways, way{do: func(w *rehearsal.World) error { return x.fire(w, ord) }})
	}
	return ways
}

func (x *explorer) childWays(w *rehearsal.World, s *pawl.Step) []way {
	ord := s.Ord
	end := func(words string, e decide.ChildEnd) way {
		return way{words, func(w *rehearsal.World) error { return w.EndChild(ord, e) }}
	}
	if s.DueEvent == lifecycle.StepCancel {
		return []way{end("its child job is canceled", decide.ChildEnd{Failure: rehearsal.Failure("canceled", "the child job was canceled", true)})}
	}
	var ways []way
	for _, output := range x.results(ord) {
		ways = append(ways, end("its child job completes", decide.ChildEnd{Output: output}))
	}
	return append(ways, end("its child job fails", decide.ChildEnd{Failure: rehearsal.Failure("child", "the child job failed", true)}))
}

// fire applies the deadline of a step.
func (x *explorer) fire(w *rehearsal.World, ord pawl.Ord) error {
	s := w.At(ord)
	w.Now = max(w.Now, s.DueAt)
	return w.Fire(s)
}

// exhaust ends a step in the same way in each of its attempts, or that many times.
func (x *explorer) exhaust(w *rehearsal.World, ord pawl.Ord, r decide.Report, times int) error {
	for range times {
		if s := w.At(ord); s.State != lifecycle.StepInProgress || s.DueEvent == lifecycle.StepCancel {
			return nil
		}
		if err := w.Report(w.At(ord), r); err != nil {
			return err
		}
		if s := w.At(ord); s.State == lifecycle.StepPending && s.DueAt > 0 {
			if err := x.fire(w, ord); err != nil {
				return err
			}
		}
		if s := w.At(ord); s.State == lifecycle.StepEnqueued {
			if err := x.take(w, s); err != nil {
				return err
			}
		}
	}
	return nil
}
