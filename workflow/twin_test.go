package workflow_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// The decision looks at what changed; its twin evaluates the whole graph, node
// after node, without a thought for speed. Random jobs are driven through the
// decision in a random order, everything that must always hold is looked at
// after each transaction, and at the end both have to agree (T7).

var (
	twinCases = flag.Int("twin.cases", 20_000, "random jobs that the decision and its twin are compared on")
	twinSeed  = flag.Uint64("twin.seed", 0, "replay the one job of this seed, and print what happens")
)

// A dice answers a number in [0, n).
type dice func(n int) int

func (d dice) one(in int) bool { return d(in) == 0 }

func seeded(seed uint64) dice { return rand.New(rand.NewPCG(seed, 1)).IntN }

// What an attempt comes to.
const (
	succeeds = iota
	fails
	failsLater // and asks for a delay
	failsForGood
	isLost
	isInterrupted
	timesOut
	inQueue // nobody takes it in time, if there is a time
	endings
)

// A plan is all that a job does not decide by itself.
type plan struct {
	nodes       []nodePlan
	runs        map[pawl.Ord][]int // what the attempts come to; the next one succeeds
	outputFails bool
	pauses      bool
	meddles     bool // an operator settles steps now and then
	cancelAt    int  // the turn at which the job is cancelled, or -1

	settled map[pawl.Ord]fate // what an operator has settled
}

type nodePlan struct {
	isFalse     bool // its `if`
	startFails  bool // its `if` or `foreach`
	items       int  // of a fan-out
	gatherFails bool
	fails       bool // of a step that waits: it is rejected, or nothing comes, or the child fails
	reused      bool // of a step that waits: there is an output already
}

func (p *plan) start(ord pawl.Ord) workflow.StartAnswer {
	n := p.nodes[ord.Node()-1]
	if n.startFails {
		return workflow.StartAnswer{Failure: &pawl.Failure{Class: "expression", Message: "it does not evaluate", Permanent: true}}
	}
	answer := workflow.StartAnswer{If: !n.isFalse || ord.Instance() > 0, Count: n.items, Items: json.RawMessage(fmt.Sprintf("[%d]", n.items))}
	if answer.Waiting = (&workflow.Waiting{Child: &workflow.Born{}}); n.fails {
		answer.Waiting.For = time.Hour
	}
	if n.reused {
		answer.Reused = json.RawMessage(`"reused"`)
	}
	return answer
}

func (p *plan) gather(ord pawl.Ord) workflow.GatherAnswer {
	if p.nodes[ord.Node()-1].gatherFails {
		return workflow.GatherAnswer{Failure: &pawl.Failure{Class: "gather", Message: "the list is too large", Permanent: true}}
	}
	return workflow.GatherAnswer{Output: json.RawMessage(`["gathered"]`)}
}

func (p *plan) output() *workflow.GatherAnswer {
	if p.outputFails {
		return &workflow.GatherAnswer{Failure: &pawl.Failure{Class: "output", Message: "it does not evaluate", Permanent: true}}
	}
	return &workflow.GatherAnswer{Output: json.RawMessage(`"the output"`)}
}

// shells are definitions of no steps, without and with an output.
func shells(t testing.TB) (shells [2]*workflow.Definition) {
	t.Helper()
	for i, src := range []string{"name: job\nsteps: []\n", "name: job\nsteps: []\noutput: done\n"} {
		def, err := workflow.Parse("shell", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		shells[i] = def
	}
	return shells
}

// invent makes up a workflow and a plan for it.
func invent(roll dice, shells [2]*workflow.Definition) (*workflow.Definition, *plan) {
	def := *shells[roll(2)]
	def.Workers, def.OnError = 1+roll(4), workflow.Halt
	if roll.one(2) {
		def.OnError = workflow.Drain
	}
	if roll.one(4) {
		def.Timeout = 1000 * time.Hour
	}
	p := &plan{runs: make(map[pawl.Ord][]int), cancelAt: -1, outputFails: roll.one(6)}
	if roll.one(4) {
		p.cancelAt = roll(60)
	}
	p.pauses, p.meddles = roll.one(4), roll.one(4)
	p.settled = make(map[pawl.Ord]fate)
	size, trouble := roll(13), 1+roll(12)
	def.Nodes = make([]workflow.Node, size)
	dense := 1 + roll(5)
	for i := range def.Nodes {
		n := &def.Nodes[i]
		*n = workflow.Node{ID: fmt.Sprintf("n%d", i+1), HasIf: roll.one(4), HasForeach: roll.one(4), Parallel: roll(4),
			Retry: workflow.Retry{MaxAttempts: 1 + roll(3), Backoff: workflow.Constant, Base: time.Duration(roll(2)) * time.Second, Cap: time.Minute, Jitter: workflow.NoJitter}}
		if roll.one(3) {
			n.Timeout = time.Minute
		}
		if roll.one(4) {
			n.QueueTimeout = time.Minute
		}
		if roll.one(4) {
			n.Kind, n.Event = waitKinds[roll(len(waitKinds))], n.ID
			def.Events = def.Events || n.Kind == workflow.KindEvent
		}
		for m := range i {
			if roll(dense) == 0 || m == i-1 && roll.one(3) {
				n.Needs = append(n.Needs, m+1)
				def.Nodes[m].Dependents = append(def.Nodes[m].Dependents, i+1)
			}
		}
		np := nodePlan{items: roll(8), isFalse: n.HasIf && roll.one(3), gatherFails: roll.one(20), fails: n.Kind != workflow.KindSleep && roll.one(5), reused: roll.one(10)}
		np.startFails = (n.HasIf || n.HasForeach) && roll.one(20)
		if !n.HasForeach && roll.one(6) {
			n.Matrix = []workflow.Axis{{Name: "x", Values: []any{"a", "b", "c"}[:1+roll(3)]}, {Name: "y", Values: []any{"d", "e"}[:1+roll(2)]}}
			np.items = n.Combinations()
		}
		p.nodes = append(p.nodes, np)
		for k := range np.items + 1 {
			p.runs[pawl.MakeOrd(i+1, k)] = inventRun(roll, trouble)
		}
	}
	if roll.one(3) {
		inventHooks(roll, &def, p, trouble)
	}
	return &def, p
}

var waitKinds = []workflow.Kind{workflow.KindApproval, workflow.KindSleep, workflow.KindEvent, workflow.KindWorkflow}

func inventHooks(roll dice, def *workflow.Definition, p *plan, trouble int) {
	for _, hook := range []workflow.Hook{workflow.HookOnFailure, workflow.HookAlways} {
		for range roll(3) {
			n := len(def.Nodes) + 1
			node := workflow.Node{ID: fmt.Sprintf("h%d", n), Hook: hook, HasIf: roll.one(4),
				Retry: workflow.Retry{MaxAttempts: 1 + roll(3), Backoff: workflow.Constant, Base: time.Second, Cap: time.Minute, Jitter: workflow.NoJitter}}
			p.nodes = append(p.nodes, nodePlan{isFalse: node.HasIf && roll.one(3), startFails: node.HasIf && roll.one(10)})
			def.Nodes, def.Hooks = append(def.Nodes, node), append(def.Hooks, n)
			p.runs[pawl.MakeOrd(n, 0)] = inventRun(roll, trouble)
		}
	}
}

func inventRun(roll dice, trouble int) []int {
	var run []int
	for len(run) < 6 && roll(trouble+1) == 0 {
		run = append(run, roll(endings))
	}
	return run
}

// A fate is how a step ends.
type fate struct {
	state                    machine.State
	attempts, claims, losses int
}

// fates is the twin: how every step ends, and the job, if nothing stops it
// before its time.
func (p *plan) fates(def *workflow.Definition) (map[pawl.Ord]fate, machine.State) {
	all := make(map[pawl.Ord]fate)
	job := lifecycle.JobCompleted
	if def.HasOutput() && p.outputFails {
		job = lifecycle.JobFailed
	}
	for _, n := range slices.Concat(def.Levels()...) {
		f := p.fate(def, n, all)
		all[pawl.MakeOrd(n, 0)] = f
		if f.state == lifecycle.StepPermanentError {
			job = lifecycle.JobFailed
		}
	}
	return all, job
}

// hookFates is the twin of the hooks of a job that ends in the given state.
func (p *plan) hookFates(def *workflow.Definition, job machine.State) map[pawl.Ord]fate {
	all := make(map[pawl.Ord]fate)
	for _, n := range def.Hooks {
		ord := pawl.MakeOrd(n, 0)
		all[ord] = p.work(def, ord)
		if def.Nodes[n-1].Hook == workflow.HookOnFailure && job != lifecycle.JobFailed {
			all[ord] = fate{state: lifecycle.StepSkipped}
		}
		if f, ok := p.settled[ord]; ok {
			all[ord] = f
		}
	}
	return all
}

func (p *plan) fate(def *workflow.Definition, n int, all map[pawl.Ord]fate) fate {
	node, ord := &def.Nodes[n-1], pawl.MakeOrd(n, 0)
	if f, ok := p.settled[ord]; ok {
		if f.claims > 0 && node.Fans() && p.work(def, ord).state == lifecycle.StepComplete {
			p.instances(def, n, all)
		}
		return f
	}
	skipped := false
	for _, need := range node.Needs {
		switch all[pawl.MakeOrd(need, 0)].state {
		case lifecycle.StepPermanentError, lifecycle.StepCancelled:
			return fate{state: lifecycle.StepCancelled}
		case lifecycle.StepSkipped:
			skipped = true
		}
	}
	if skipped && !node.HasIf {
		return fate{state: lifecycle.StepSkipped}
	}
	if f := p.work(def, ord); !node.Fans() || f.state != lifecycle.StepComplete {
		return f
	}
	return p.instances(def, n, all)
}

// work is how a step ends that is started; of a fan-out, whether it is.
func (p *plan) work(def *workflow.Definition, ord pawl.Ord) fate {
	node, np := &def.Nodes[ord.Node()-1], p.nodes[ord.Node()-1]
	once := fate{state: lifecycle.StepComplete, attempts: 1, claims: 1}
	switch {
	case ord.Instance() > 0:
	case (node.HasIf || node.HasForeach) && np.startFails:
		return fate{state: lifecycle.StepPermanentError, attempts: 1, claims: 1}
	case node.HasIf && np.isFalse:
		return fate{state: lifecycle.StepSkipped}
	case node.Fans():
		return once
	}
	if !node.Kind.Waits() {
		return run(node, p.runs[ord])
	}
	if np.fails && !np.reused {
		once.state = lifecycle.StepPermanentError
	}
	return once
}

// instances is how a fan-out ends that is started, and its instances.
func (p *plan) instances(def *workflow.Definition, n int, all map[pawl.Ord]fate) fate {
	np := p.nodes[n-1]
	f := fate{state: lifecycle.StepComplete, attempts: 1, claims: 1}
	if np.items > 0 && np.gatherFails {
		f.state = lifecycle.StepPermanentError
	}
	for k := range np.items {
		ord := pawl.MakeOrd(n, k+1)
		instance, settled := p.settled[ord]
		if !settled {
			instance = p.work(def, ord)
		}
		all[ord] = instance
		if instance.state == lifecycle.StepPermanentError {
			f.state = lifecycle.StepPermanentError
		}
	}
	return f
}

// run counts through the attempts of one step.
func run(n *workflow.Node, endings []int) fate {
	most := n.Retry.MaxAttempts
	f := fate{state: lifecycle.StepPermanentError}
	for _, ending := range append(slices.Clone(endings), succeeds) {
		f.attempts++
		if ending != inQueue || n.QueueTimeout == 0 {
			f.claims++
		}
		switch ending {
		case succeeds:
			f.state = lifecycle.StepComplete
			return f
		case failsForGood:
			return f
		case fails, failsLater, timesOut, inQueue:
			if f.attempts == most {
				return f
			}
		case isInterrupted:
			f.attempts--
		case isLost:
			f.attempts--
			if f.losses++; f.losses == 3 {
				return f
			}
		}
	}
	panic("a run ends with a success")
}

// A play drives one job through the decision.
type play struct {
	*trial
	plan                               *plan
	roll                               dice
	prepared                           []*attendance    // to be decided later, when they may be stale
	queued                             map[pawl.Ord]int // how often a step was not taken in time
	canceled, hooksCanceled, unstarted bool             // and it was not too late
	log                                func(format string, args ...any)
}

// An act is something that may happen next.
type act struct {
	name string
	do   func() error
}

// maxTurns is far beyond what the largest job takes: whoever gets there is stuck.
const maxTurns = 5000

// play goes on until nothing can happen any more.
func (p *play) play() error {
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

// acts answers all that may happen. Time passes only when nothing else does, or
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
				return p.operate(ord, func(d *workflow.Decision, s *pawl.Step) error { return d.Reject(s, workflow.Note{Actor: "ann"}) })
			})
		case n.Kind == workflow.KindApproval && !fails:
			add("approve "+key, func() error {
				return p.operate(ord, func(d *workflow.Decision, s *pawl.Step) error {
					return d.Approve(s, json.RawMessage(`{}`), workflow.Note{Actor: "ann"})
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

func (p *play) childEnd(ord pawl.Ord, fails bool) workflow.ChildEnd {
	if fails || p.children[ord].asked {
		return workflow.ChildEnd{Failure: &pawl.Failure{Class: "child", Message: "the child failed", Permanent: true}}
	}
	return workflow.ChildEnd{Output: json.RawMessage(`1`)}
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

// intervene settles a step, and tells the twin. A refusal changes nothing.
func (p *play) intervene(verb string, ord pawl.Ord) error {
	err := p.operate(ord, func(d *workflow.Decision, s *pawl.Step) error {
		switch verb {
		case "skip":
			return d.Skip(s, workflow.Note{Actor: "ann"})
		case "resolve":
			return d.Resolve(s, json.RawMessage(`"resolved"`), workflow.Note{Actor: "ann"})
		}
		return d.Retry(s, workflow.Note{Actor: "ann"})
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
			return p.fire(s.Ord, p.roll.one(4))
		})
	}
	if asked {
		add("stopped "+key, func() error {
			return p.report(p.roll.one(2), outcome{ord: s.Ord, blind: p.roll.one(4), Report: workflow.Report{Event: lifecycle.StepCancel}})
		})
	}
	if r, ok := p.reportOf(s); ok {
		add(fmt.Sprintf("report %s %s", key, r.Event), func() error { return p.report(p.roll.one(2), r) })
	}
}

// ending answers what the attempt comes to that is on, or is going to be.
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

// reportOf answers what the worker of a step says of it, unless it is dead.
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
			return p.fire(ord, p.roll.one(4))
		})
	}
}

func (p *play) cancel() error {
	hooks := p.job.Hooks == pawl.HooksRun
	late := lifecycle.Job.Ended(p.job.State) || !hooks && p.job.Ending == lifecycle.JobFailed && p.def.OnError == workflow.Halt
	p.unstarted = p.job.State == lifecycle.JobPending
	err := p.trial.cancel("the plan says so")
	if late && pawl.KindOf(err) == pawl.Conflict {
		return nil
	}
	p.canceled, p.hooksCanceled = !late && !hooks, hooks
	return err
}

// check looks at everything that holds at any time.
func (w *trial) check() error {
	open, active, blocked := 0, 0, 0
	live, made := make(map[int]int), make(map[int]int)
	for _, ord := range w.ords {
		s := w.steps[ord]
		if err := w.checkStep(s); err != nil {
			return fmt.Errorf("%s, %s: %w", w.def.Key(ord), s.State, err)
		}
		held := isEnqueued(s) || w.isRunning(s) || isMarked(s) && s.Worker != 0
		if held {
			active++
		}
		if isBlocked(s) {
			blocked++
		}
		switch {
		case ord.Instance() == 0 && (w.isHook(s) != (w.job.Hooks != pawl.HooksNotYet)):
		case ord.Instance() == 0 && !isWeighed(s) && !isBlocked(s):
			open++
		case ord.Instance() > 0:
			made[ord.Node()]++
			if !isWeighed(s) {
				live[ord.Node()]++
			}
		}
	}
	for i, n := range w.def.Nodes {
		p := w.steps[pawl.MakeOrd(i+1, 0)]
		if p.Live != live[i+1] || p.Made != made[i+1] || p.Made > p.Total || n.Parallel > 0 && p.Live > n.Parallel {
			return fmt.Errorf("%s: %d live, %d made of %d, want %d live, %d made, at most %d live", n.ID, p.Live, p.Made, p.Total, live[i+1], made[i+1], n.Parallel)
		}
	}
	switch {
	case w.job.Blocked != blocked:
		return fmt.Errorf("the job says %d are blocked: there are %d", w.job.Blocked, blocked)
	case w.job.State != lifecycle.JobCanceled && w.job.Open != open:
		return fmt.Errorf("the job says %d are open: there are %d", w.job.Open, open)
	case w.stopping() && w.job.DueAt != 0:
		return fmt.Errorf("the job is ending, and still has a deadline")
	case w.job.Active != active || active > w.job.WorkerCount:
		return fmt.Errorf("the job says %d are active of at most %d: there are %d", w.job.Active, w.job.WorkerCount, active)
	}
	return w.checkSlots()
}

// checkSlots holds that no step waits for a slot while one is free (J7).
func (w *trial) checkSlots() error {
	waiting := w.selected(func(s *pawl.Step) bool { return s.Mark == pawl.Waiting })
	switch {
	case len(waiting) > 0 && w.stopping():
		return fmt.Errorf("%s waits for a slot of a job that is ending", w.def.Key(waiting[0]))
	case len(waiting) > 0 && !w.job.Paused && w.def.Node(waiting[0].Node()).Kind.Waits():
		return fmt.Errorf("%s waits for a slot, and needs none", w.def.Key(waiting[0]))
	case len(waiting) > 0 && !w.job.Paused && w.job.Active < w.job.WorkerCount:
		return fmt.Errorf("%s waits for a slot: %d of %d are taken", w.def.Key(waiting[0]), w.job.Active, w.job.WorkerCount)
	}
	return nil
}

func (w *trial) checkStep(s *pawl.Step) error {
	n := w.def.Node(s.Ord.Node())
	switch {
	case s.Attempts < 0 || s.Attempts > max(n.Retry.MaxAttempts, 1) || s.Losses > workflow.MaxLosses || s.Attempts > s.Claims && n.QueueTimeout == 0:
		return fmt.Errorf("%d attempts of %d, %d claims, %d losses", s.Attempts, n.Retry.MaxAttempts, s.Claims, s.Losses)
	case lifecycle.Job.Ended(w.job.State) && !isWeighed(s):
		return fmt.Errorf("it has not ended, and its job has")
	case s.State == lifecycle.StepRetryableError && !isMarked(s):
		return fmt.Errorf("nobody weighs it")
	case s.DueEvent == lifecycle.StepTimeout && (n.Timeout == 0 || s.State != lifecycle.StepInProgress):
		return fmt.Errorf("it has a timeout")
	case isWeighed(s) && (s.CompletedAt == 0 || s.DueAt != 0 || s.DueEvent != "" || s.Mark != pawl.Clear):
		return fmt.Errorf("it has ended: completed at %d, due at %d for %q, mark %d", s.CompletedAt, s.DueAt, s.DueEvent, s.Mark)
	case s.State == lifecycle.StepPermanentError && isWeighed(s) && (s.Error == nil || s.Error.Class == "unknown"):
		return fmt.Errorf("it does not say why it failed")
	case isBlocked(s) != w.isBehindFailed(s):
		return fmt.Errorf("mark %d, and behind a failed step: %v", s.Mark, w.isBehindFailed(s))
	case w.stopping() && !w.isStopping(s):
		return fmt.Errorf("it goes on, and its job is ending")
	}
	return w.checkNeeds(s, n)
}

// isBehindFailed holds of what a draining job keeps back: a step of its needs, or
// of theirs, has failed, and nobody has settled what lies between.
func (w *trial) isBehindFailed(s *pawl.Step) bool {
	if s.State != lifecycle.StepPending || w.def.OnError != workflow.Drain || s.Ord.Instance() > 0 {
		return false
	}
	return slices.ContainsFunc(w.def.Node(s.Ord.Node()).Needs, func(n int) bool {
		need := w.steps[pawl.MakeOrd(n, 0)]
		return need.State == lifecycle.StepPermanentError && !isMarked(need) || w.isBehindFailed(need)
	})
}

// isStopping holds of the steps of a job that is ending: ended, or about to be
// weighed, or asked to stop, or the parent of such.
func (w *trial) isStopping(s *pawl.Step) bool {
	if w.isHook(s) && w.job.Hooks == pawl.HooksNotYet && w.job.State == lifecycle.JobRunning {
		return s.State == lifecycle.StepPending // it is still to come
	}
	return !isOpen(s) || isMarked(s) || w.isFan(s) && s.Live > 0 || s.State == lifecycle.StepInProgress && s.DueEvent == lifecycle.StepCancel && s.DueAt > 0
}

// checkNeeds holds that no step starts before its needs have ended well (T2).
func (w *trial) checkNeeds(s *pawl.Step, n *workflow.Node) error {
	if s.Ord.Instance() > 0 {
		return nil
	}
	unmet, skipped := 0, false
	for _, need := range n.Needs {
		state := w.steps[pawl.MakeOrd(need, 0)]
		switch {
		case isWeighed(state) && (state.State == lifecycle.StepComplete || state.State == lifecycle.StepResolvedManually):
		case isWeighed(state) && state.State == lifecycle.StepSkipped:
			skipped = true
		default:
			unmet++
		}
	}
	stopping := w.stopping() || w.job.Hooks != pawl.HooksNotYet
	moved := s.Claims > 0 || s.State != lifecycle.StepPending && s.State != lifecycle.StepCancelled
	switch {
	case !stopping && s.Unmet != unmet:
		return fmt.Errorf("%d needs are unmet, and it says %d", unmet, s.Unmet)
	case moved && unmet > 0 && s.State != lifecycle.StepSkipped && s.State != lifecycle.StepResolvedManually:
		return fmt.Errorf("%d needs are unmet", unmet)
	case s.Claims > 0 && skipped && !n.HasIf:
		return fmt.Errorf("a step it needs was skipped")
	case !w.isHook(s) && !stopping && !isMarked(s) && s.State == lifecycle.StepPending && s.Mark == pawl.Clear && unmet == 0 && s.DueAt == 0 && w.job.State != lifecycle.JobPending:
		return fmt.Errorf("it is ready, and nothing is going to start it")
	}
	return nil
}

// over looks at a job to which nothing more can happen.
func (p *play) over() error {
	switch j := &p.job; {
	case !lifecycle.Job.Ended(j.State):
		return fmt.Errorf("stuck: nothing can happen, and the job is %s:\n%s", j.State, p.describe())
	case j.Active != 0 || j.Open != 0 && !p.unstarted || j.Blocked != 0 || j.Mark != pawl.Clear || j.DueAt != 0 || j.CompletedAt == 0:
		return fmt.Errorf("the job has ended with %+v", jobRow(j))
	case j.Ending != j.State:
		return fmt.Errorf("the job is %s, and was going to be %s", j.State, j.Ending)
	case p.parent != nil && p.parent.Mark != pawl.Attention:
		return fmt.Errorf("the step of the parent job is not told")
	case j.Error == nil && j.State != lifecycle.JobCompleted:
		return fmt.Errorf("the job is %s with error %v", j.State, j.Error)
	case j.State != lifecycle.JobCompleted && j.Error.Class == "unknown":
		return fmt.Errorf("the job does not say why it failed")
	}
	if err := p.replay(); err != nil {
		return err
	}
	return p.compare()
}

// replay walks every trail, which has to lead to the state of its record (K6).
func (w *trial) replay() error {
	states := make(map[pawl.Ord]machine.State)
	for _, m := range w.trail {
		table := lifecycle.Step
		if m.ord == 0 {
			table = lifecycle.Job
		}
		to, err := table.Next(m.from, m.event)
		if states[m.ord] == "" && m.from == "" && m.event == table.Create {
			to, err = table.Initial, nil
		}
		if err != nil || to != m.to || m.from != states[m.ord] {
			return fmt.Errorf("trail: %s, after %q", w.line(m), states[m.ord])
		}
		states[m.ord] = to
	}
	for ord, s := range w.steps {
		if states[ord] != s.State {
			return fmt.Errorf("%s is %s, and its trail leads to %q", w.def.Key(ord), s.State, states[ord])
		}
	}
	if states[0] != w.job.State || len(states) != len(w.steps)+1 {
		return fmt.Errorf("the job is %s, and its trail leads to %q", w.job.State, states[0])
	}
	return nil
}

// compare holds the job against its twin. If it was stopped, what may have
// happened depends on when; what has is still what was going to.
func (p *play) compare() error {
	fates, job := p.plan.fates(p.def)
	failed := false
	for ord, f := range fates { // an instance fails its node, unless an operator resolves that
		failed = failed || ord.Instance() == 0 && f.state == lifecycle.StepPermanentError
	}
	stopped := p.canceled || failed && p.def.OnError == workflow.Halt
	if p.canceled {
		job = lifecycle.JobCanceled
	}
	if p.job.State != job {
		return fmt.Errorf("the job is %s, want %s", p.job.State, job)
	}
	for ord, want := range p.plan.hookFates(p.def, job) {
		if err := p.compareStep(p.steps[ord], want, p.hooksCanceled || p.unstarted && p.canceled); err != nil {
			return fmt.Errorf("hook %s: %w", p.def.Key(ord), err)
		}
	}
	for ord, want := range fates {
		if err := p.compareStep(p.steps[ord], want, stopped); err != nil {
			return fmt.Errorf("%s: %w", p.def.Key(ord), err)
		}
	}
	if len(fates)+len(p.def.Hooks) < len(p.steps) {
		return fmt.Errorf("there are %d steps, want %d", len(p.steps), len(fates))
	}
	return p.compareErrors(failed)
}

func (p *play) compareStep(s *pawl.Step, want fate, stopped bool) error {
	if s == nil && stopped {
		return nil // an instance that never was
	}
	if s == nil {
		return fmt.Errorf("there is no such step, want %s", want.state)
	}
	got := fate{s.State, s.Attempts, s.Claims, s.Losses}
	switch {
	case got == want:
		return nil
	case !stopped || s.Claims > want.claims:
		return fmt.Errorf("it came to %+v, want %+v", got, want)
	case s.State == lifecycle.StepCancelled:
		return nil
	}
	return fmt.Errorf("the job was stopped, and it came to %+v, want %+v or cancelled", got, want)
}

// compareErrors holds that a job that failed names a step that did, and that a
// fan-out fails for a reason.
func (p *play) compareErrors(failed bool) error {
	if p.job.State == lifecycle.JobFailed && failed {
		named := p.selected(func(s *pawl.Step) bool {
			return p.def.Key(s.Ord) == p.job.Error.Step && s.State == lifecycle.StepPermanentError
		})
		if len(named) != 1 {
			return fmt.Errorf("the job failed because of %+v: there is no such step", p.job.Error)
		}
	}
	for _, ord := range p.ords {
		s := p.steps[ord]
		if s.State != lifecycle.StepPermanentError || !p.isFan(s) || s.Error.Class == "gather" || s.Error.Class == "expression" {
			continue
		}
		if !slices.ContainsFunc(p.ords, func(o pawl.Ord) bool {
			return o.Parent() == ord && o != ord && p.steps[o].State == lifecycle.StepPermanentError && p.def.Key(o) == s.Error.Step
		}) {
			return fmt.Errorf("%s failed because of %+v: there is no such instance", p.def.Key(ord), s.Error)
		}
	}
	return nil
}

// line writes a row of the trail.
func (w *trial) line(m move) string {
	key := "job"
	if m.ord != 0 {
		key = w.def.Key(m.ord)
	}
	from := string(m.from)
	if from == "" {
		from = "(new)"
	}
	line := fmt.Sprintf("%s: %s -> %s (%s)", key, from, m.to, m.event)
	if m.note.Reason != "" {
		line += ": " + m.note.Reason
	}
	return line
}

// describe writes the definition and what became of its steps.
func (w *trial) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d workers, on_error %s, output %v; job %s ending %q, open %d, active %d, mark %d\n", w.def.Workers, w.def.OnError, w.def.HasOutput(), w.job.State, w.job.Ending, w.job.Open, w.job.Active, w.job.Mark)
	for _, ord := range w.ords {
		s, n := w.steps[ord], w.def.Node(ord.Node())
		fmt.Fprintf(&b, "  %-6s needs %v if %v foreach %v parallel %d max %d: %s mark %d unmet %d due %q made %d/%d live %d claims %d attempts %d\n", w.def.Key(ord), n.Needs, n.HasIf, n.HasForeach,
			n.Parallel, n.Retry.MaxAttempts, s.State, s.Mark, s.Unmet, s.DueEvent, s.Made, s.Total, s.Live, s.Claims, s.Attempts)
	}
	return b.String()
}

// once plays one job.
func once(roll dice, shells [2]*workflow.Definition, log func(string, ...any)) error {
	def, p := invent(roll, shells)
	g := &play{trial: newTrial(def, p), plan: p, roll: roll, log: log, queued: make(map[pawl.Ord]int)}
	g.leaves = func(s *pawl.Step) bool { return g.ending(s) == inQueue }
	if roll.one(4) {
		g.job.Parent, g.job.ParentStep = 7, pawl.MakeOrd(1, 0)
		g.parent = &pawl.Step{StepKey: pawl.StepKey{Job: 7, Ord: g.job.ParentStep}}
		g.parent.State = lifecycle.StepInProgress
	}
	err := g.play()
	if err != nil {
		log("%s", g.describe())
	}
	return err
}

func quiet(string, ...any) {}

// T2, T7, J2, J7: whatever happens, and in whatever order, no job gets stuck, no
// invariant breaks, and every step ends as the twin says.
func TestTwin(t *testing.T) {
	t.Parallel()
	shells := shells(t)
	if *twinSeed != 0 {
		if err := once(seeded(*twinSeed), shells, t.Logf); err != nil {
			t.Fatal(err)
		}
		return
	}
	for seed := uint64(1); seed <= uint64(*twinCases); seed++ {
		if err := once(seeded(seed), shells, quiet); err != nil {
			t.Fatalf("%v\nreplay it with -twin.seed %d", err, seed)
		}
	}
}

// The same, by rapid, which looks for the smallest job that fails.
func TestTwinShrinks(t *testing.T) {
	t.Parallel()
	shells := shells(t)
	rapid.Check(t, func(t *rapid.T) {
		roll := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "roll") }
		if err := once(roll, shells, t.Logf); err != nil {
			t.Fatal(err)
		}
	})
}
