package decide_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A play drives one job through the decision.
type play struct {
	*trial
	plan                               *plan
	roll                               dice
	prepared                           []*attendance    // to be decided later, when they may be stale
	queued                             map[pawl.Ord]int // how often a step was not taken in time
	canceled, hooksCanceled, unstarted bool             // and it was not too late
	late                               bool             // it was canceled by its timeout
	log                                func(format string, args ...any)
}

// adopt makes the job the child of another.
func (p *play) adopt() {
	p.job.Parent, p.job.ParentStep = 7, pawl.MakeOrd(1, 0)
	p.parent = &pawl.Step{StepKey: pawl.StepKey{Job: 7, Ord: p.job.ParentStep}}
	p.parent.State = lifecycle.StepInProgress
}

// preset gives some of the first steps a result, as in a job that continues
// another.
func (p *play) preset() error {
	p.job.Continues = 8
	for n := range p.def.Nodes {
		ord := pawl.MakeOrd(n+1, 0)
		if node := &p.def.Nodes[n]; len(node.Needs) > 0 || node.Hook != workflow.NoHook || !p.roll.one(2) {
			continue
		}
		err := p.operate(ord, func(d *decide.Decision, s *pawl.Step) error {
			return d.Preset(s, json.RawMessage(`"known"`), decide.Note{Actor: "ann"})
		})
		if err != nil {
			return err
		}
		p.plan.settled[ord] = fate{state: lifecycle.StepResolvedManually}
	}
	return nil
}

// An act is something that may happen next.
type act struct {
	name string
	do   func() error
}

// maxTurns is far more than the largest job takes: a job that gets there is stuck.
const maxTurns = 5000

// play continues until nothing more can happen.
func (p *play) play() error {
	if p.plan.continues {
		if err := p.preset(); err != nil {
			return err
		}
	}
	for turn := 0; ; turn++ {
		acts := p.acts(turn)
		if len(acts) == 0 {
			return p.over()
		}
		if turn == maxTurns {
			return fmt.Errorf("stuck: still busy after %d turns, with %s", turn, acts[0].name)
		}
		a := acts[p.roll(len(acts))]
		p.now += int64(p.roll(1000))
		p.log("%3d %s", turn, a.name)
		from := len(p.trail)
		err := a.do()
		for _, m := range p.trail[from:] {
			p.log("        %s", p.line(m))
		}
		if err == nil {
			err = p.check()
		}
		if err != nil {
			return fmt.Errorf("turn %d, %s: %w", turn, a.name, err)
		}
	}
}

// acts returns all that may happen. Time passes only when nothing else does, or
// now and then.
func (p *play) acts(turn int) []act {
	var acts []act
	add := func(name string, do func() error) { acts = append(acts, act{name, do}) }
	if p.plan.cancelAt == turn {
		return []act{{"cancel", p.cancel}}
	}
	if p.job.State == lifecycle.JobPending {
		add("start", p.start)
	}
	p.claims(add)
	p.outcomes(add)
	if p.job.Mark == pawl.Attention || len(p.selected(isMarked)) > 0 {
		add("attend", func() error { return p.attend(p.prepare()) })
		if len(p.prepared) < 3 && p.roll.one(4) {
			add("prepare", func() error { p.prepared = append(p.prepared, p.prepare()); return nil })
		}
	}
	if n := len(p.prepared); n > 0 {
		add("attend late", func() error {
			i := p.roll(n)
			a := p.prepared[i]
			if p.roll.one(2) { // else it comes again
				p.prepared = slices.Delete(p.prepared, i, i+1)
			}
			return p.attend(a)
		})
	}
	p.waits(add)
	p.meddle(add)
	p.deadlines(add, len(acts) == 0)
	p.pauses(add, len(acts) == 0)
	return acts
}

// waits adds what people and child jobs do for the steps that wait for them.
func (p *play) waits(add func(string, func() error)) {
	for _, ord := range p.selected(func(s *pawl.Step) bool { return p.trial.waits(s) && s.State == lifecycle.StepInProgress }) {
		n, key, fails := p.def.Node(ord.Node()), p.def.Key(ord), p.plan.nodes[ord.Node()-1].fails
		switch {
		case n.Kind == workflow.KindApproval && fails && p.roll.one(2): // else it expires
			add("reject "+key, func() error {
				return p.operate(ord, func(d *decide.Decision, s *pawl.Step) error { return d.Reject(s, decide.Note{Actor: "ann"}) })
			})
		case n.Kind == workflow.KindApproval && !fails:
			add("approve "+key, func() error {
				return p.operate(ord, func(d *decide.Decision, s *pawl.Step) error {
					return d.Approve(s, json.RawMessage(`{}`), decide.Note{Actor: "ann"})
				})
			})
		case n.Kind == workflow.KindWorkflow && p.children[ord].end == nil:
			add("end child of "+key, func() error { p.endChild(ord, p.childEnd(ord, fails)); return nil })
		}
	}
	for i := range p.def.Nodes {
		if n := &p.def.Nodes[i]; n.Kind == workflow.KindEvent && !p.plan.nodes[i].fails && p.wants(i+1) && !lifecycle.Job.Ended(p.job.State) {
			add("signal "+n.ID, func() error { return p.signal(n.Event, "1") })
		}
	}
}

// wants reports whether a node that waits for signals has not been sent enough.
func (p *play) wants(n int) bool {
	most, sent := 1, 0
	if p.def.Node(n).Fans() {
		most = p.plan.nodes[n-1].items
	}
	for _, s := range p.signals {
		if s.Name == p.def.Node(n).Event {
			sent++
		}
	}
	return sent < most
}

func (p *play) childEnd(ord pawl.Ord, fails bool) decide.ChildEnd {
	if fails || p.children[ord].asked {
		return decide.ChildEnd{Failure: &pawl.Failure{Class: "child", Message: "the child failed", Permanent: true}}
	}
	return decide.ChildEnd{Output: json.RawMessage(`1`)}
}

// meddle adds what an operator does to steps, when that is legal (T13).
func (p *play) meddle(add func(string, func() error)) {
	if !p.plan.meddles || len(p.ords) == 0 || !p.roll.one(6) {
		return
	}
	s := p.steps[p.ords[p.roll(len(p.ords))]]
	verb := []string{"skip", "resolve", "retry"}[p.roll(3)]
	add(fmt.Sprintf("%s %s", verb, p.def.Key(s.Ord)), func() error { return p.intervene(verb, s.Ord) })
}

// intervene settles a step, and does the same in the twin. A refusal changes nothing.
func (p *play) intervene(verb string, ord pawl.Ord) error {
	err := p.operate(ord, func(d *decide.Decision, s *pawl.Step) error {
		switch verb {
		case "skip":
			return d.Skip(s, decide.Note{Actor: "ann"})
		case "resolve":
			return d.Resolve(s, json.RawMessage(`"resolved"`), decide.Note{Actor: "ann"})
		}
		return d.Retry(s, decide.Note{Actor: "ann"})
	})
	switch {
	case err != nil && pawl.KindOf(err) == pawl.Conflict:
		return nil
	case err != nil || verb == "retry":
		return err
	}
	s := p.steps[ord]
	p.plan.settled[ord] = fate{s.State, s.Attempts, s.Claims, s.Losses}
	return nil
}

func (p *play) pauses(add func(string, func() error), idle bool) {
	switch {
	case p.job.State != lifecycle.JobRunning:
	case p.job.Paused && (idle || p.roll.one(8)):
		add("resume", func() error { return p.pause(false) })
	case !p.job.Paused && p.plan.pauses && p.roll.one(5):
		add("pause", func() error { return p.pause(true) })
	}
}

func (p *play) claims(add func(string, func() error)) {
	for _, ord := range p.selected(isEnqueued) {
		if p.ending(p.steps[ord]) == inQueue {
			continue // until its deadline
		}
		add("claim "+p.def.Key(ord), func() error { return p.claim(ord) })
	}
}

// outcomes adds what may become of the steps that workers hold.
func (p *play) outcomes(add func(string, func() error)) {
	running := p.selected(p.isRunning)
	for _, ord := range running {
		p.outcome(add, p.steps[ord])
	}
	if len(running) < 2 || !p.roll.one(3) {
		return
	}
	add("exchange", func() error {
		var reports []outcome
		for _, ord := range running {
			if r, ok := p.reportOf(p.steps[ord]); ok && len(reports) < 3 {
				reports = append(reports, r)
			}
		}
		return p.report(true, reports...)
	})
}

func (p *play) outcome(add func(string, func() error), s *pawl.Step) {
	key, asked := p.def.Key(s.Ord), s.DueEvent == lifecycle.StepCancel
	ending := p.ending(s)
	switch {
	case ending == isLost:
		add("lose "+key, func() error { return p.lose(s.Ord) })
	case ending == timesOut && s.DueEvent == lifecycle.StepTimeout:
		add("overdue "+key, func() error {
			p.now = max(p.now, s.DueAt)
			return p.fire(s.Ord)
		})
	}
	if asked {
		add("stopped "+key, func() error {
			return p.report(p.roll.one(2), outcome{ord: s.Ord, blind: p.roll.one(4), Report: decide.Report{Event: lifecycle.StepCancel}})
		})
	}
	if r, ok := p.reportOf(s); ok {
		add(fmt.Sprintf("report %s %s", key, r.Event), func() error { return p.report(p.roll.one(2), r) })
	}
}

// ending returns the outcome of the current or the next attempt.
func (p *play) ending(s *pawl.Step) int {
	turn := s.Claims + p.queued[s.Ord]
	if s.State == lifecycle.StepInProgress {
		turn--
	}
	run := p.plan.runs[s.Ord]
	if turn >= len(run) {
		return succeeds
	}
	if run[turn] == inQueue && p.def.Node(s.Ord.Node()).QueueTimeout == 0 {
		return fails
	}
	return run[turn]
}

// reportOf returns what the worker of a step says of it, unless it is dead.
func (p *play) reportOf(s *pawl.Step) (outcome, bool) {
	o := outcome{ord: s.Ord, blind: p.roll.one(5)}
	o.Failure = &pawl.Failure{Class: "trial", Message: "it failed"}
	switch p.ending(s) {
	case succeeds:
		o.Event, o.Output, o.Failure = lifecycle.StepSuccess, json.RawMessage(`1`), nil
	case fails:
		o.Event = lifecycle.StepFail
	case failsLater:
		o.Event, o.Failure.Delay = lifecycle.StepFail, pawl.Duration(time.Second)
	case failsForGood:
		o.Event = lifecycle.StepFailPermanently
	case isInterrupted:
		o.Event, o.Failure = lifecycle.StepInterrupt, nil
	case snoozes:
		o.Event, o.Failure, o.Snooze = lifecycle.StepInterrupt, nil, time.Second
	case timesOut:
		o.Event = lifecycle.StepTimeout
	default:
		return o, false
	}
	return o, true
}

// deadlines adds those that have passed and, if nothing else can happen, lets
// the time pass until the next. Attempts take too long only as planned.
func (p *play) deadlines(add func(string, func() error), idle bool) {
	for _, ord := range p.due() {
		s := p.steps[ord]
		if s.DueEvent == lifecycle.StepTimeout || s.DueEvent == lifecycle.StepQueueTimeout && p.ending(s) != inQueue {
			continue
		}
		if s.DueAt > p.now && !idle && !p.roll.one(8) {
			return
		}
		idle = false
		add(fmt.Sprintf("fire %s %s", p.def.Key(ord), s.DueEvent), func() error {
			p.now = max(p.now, s.DueAt)
			if s.DueEvent == lifecycle.StepQueueTimeout {
				p.queued[ord]++
			}
			return p.fire(ord)
		})
	}
}

func (p *play) cancel() error {
	hooks := p.job.Hooks == pawl.HooksRun
	late := lifecycle.Job.Ended(p.job.State) || !hooks && p.job.Ending == lifecycle.JobFailed && p.def.OnError == workflow.Halt
	p.unstarted = p.job.State == lifecycle.JobPending
	if !late && !hooks && !p.unstarted && p.roll.one(2) {
		p.canceled, p.late = true, true
		return p.trial.timeOut()
	}
	err := p.trial.cancel("the plan says so")
	if late && pawl.KindOf(err) == pawl.Conflict {
		return nil
	}
	p.canceled, p.hooksCanceled = !late && !hooks, hooks
	return err
}
