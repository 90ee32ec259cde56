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
	endings
)

// A plan is all that a job does not decide by itself.
type plan struct {
	nodes       []nodePlan
	runs        map[pawl.Ord][]int // what the attempts come to; the next one succeeds
	outputFails bool
	pauses      bool
	cancelAt    int // the turn at which the job is cancelled, or -1
}

type nodePlan struct {
	isFalse     bool // its `if`
	startFails  bool // its `if` or `foreach`
	items       int
	gatherFails bool
}

func (p *plan) start(ord pawl.Ord) workflow.StartAnswer {
	n := p.nodes[ord.Node()-1]
	if n.startFails {
		return workflow.StartAnswer{Failure: &pawl.Failure{Class: "expression", Message: "it does not evaluate", Permanent: true}}
	}
	return workflow.StartAnswer{If: !n.isFalse, Count: n.items, Items: json.RawMessage(fmt.Sprintf("[%d]", n.items))}
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
	p.pauses = roll.one(4)
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
		for m := range i {
			if roll(dense) == 0 || m == i-1 && roll.one(3) {
				n.Needs = append(n.Needs, m+1)
				def.Nodes[m].Dependents = append(def.Nodes[m].Dependents, i+1)
			}
		}
		np := nodePlan{items: roll(8), isFalse: n.HasIf && roll.one(3), gatherFails: roll.one(20)}
		np.startFails = (n.HasIf || n.HasForeach) && roll.one(20)
		p.nodes = append(p.nodes, np)
		for k := range np.items + 1 {
			p.runs[pawl.MakeOrd(i+1, k)] = inventRun(roll, trouble)
		}
	}
	return &def, p
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
	for i := range def.Nodes {
		f := p.fate(def, i+1, all)
		all[pawl.MakeOrd(i+1, 0)] = f
		if f.state == lifecycle.StepPermanentError {
			job = lifecycle.JobFailed
		}
	}
	return all, job
}

func (p *plan) fate(def *workflow.Definition, n int, all map[pawl.Ord]fate) fate {
	node, np := &def.Nodes[n-1], p.nodes[n-1]
	skipped := false
	for _, need := range node.Needs {
		switch all[pawl.MakeOrd(need, 0)].state {
		case lifecycle.StepPermanentError, lifecycle.StepCancelled:
			return fate{state: lifecycle.StepCancelled}
		case lifecycle.StepSkipped:
			skipped = true
		}
	}
	switch {
	case skipped && !node.HasIf:
		return fate{state: lifecycle.StepSkipped}
	case (node.HasIf || node.HasForeach) && np.startFails:
		return fate{state: lifecycle.StepPermanentError, attempts: 1, claims: 1}
	case node.HasIf && np.isFalse:
		return fate{state: lifecycle.StepSkipped}
	case !node.HasForeach:
		return run(node.Retry.MaxAttempts, p.runs[pawl.MakeOrd(n, 0)])
	}
	f := fate{state: lifecycle.StepComplete, attempts: 1, claims: 1}
	if np.items > 0 && np.gatherFails {
		f.state = lifecycle.StepPermanentError
	}
	for k := range np.items {
		instance := run(node.Retry.MaxAttempts, p.runs[pawl.MakeOrd(n, k+1)])
		all[pawl.MakeOrd(n, k+1)] = instance
		if instance.state == lifecycle.StepPermanentError {
			f.state = lifecycle.StepPermanentError
		}
	}
	return f
}

// run counts through the attempts of one step.
func run(most int, endings []int) fate {
	f := fate{state: lifecycle.StepPermanentError}
	for _, ending := range append(slices.Clone(endings), succeeds) {
		f.claims++
		f.attempts++
		switch ending {
		case succeeds:
			f.state = lifecycle.StepComplete
			return f
		case failsForGood:
			return f
		case fails, failsLater, timesOut:
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
	plan     *plan
	roll     dice
	prepared []*attendance // to be decided later, when they may be stale
	canceled bool          // and it was not too late
	log      func(format string, args ...any)
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
	p.deadlines(add, len(acts) == 0)
	p.pauses(add, len(acts) == 0)
	return acts
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

func (p *play) ending(s *pawl.Step) int {
	if run := p.plan.runs[s.Ord]; s.Claims <= len(run) {
		return run[s.Claims-1]
	}
	return succeeds
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
		if s.DueEvent == lifecycle.StepTimeout {
			continue
		}
		if s.DueAt > p.now && !idle && !p.roll.one(8) {
			return
		}
		idle = false
		add(fmt.Sprintf("fire %s %s", p.def.Key(ord), s.DueEvent), func() error {
			p.now = max(p.now, s.DueAt)
			return p.fire(ord, p.roll.one(4))
		})
	}
}

func (p *play) cancel() error {
	late := lifecycle.Job.Ended(p.job.State) || p.job.Ending == lifecycle.JobFailed && p.def.OnError == workflow.Halt
	err := p.trial.cancel("the plan says so")
	if late && pawl.KindOf(err) == pawl.Conflict {
		return nil
	}
	p.canceled = !late
	return err
}

// check looks at everything that holds at any time.
func (w *trial) check() error {
	open, active := 0, 0
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
		switch {
		case ord.Instance() == 0 && !isWeighed(s):
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
	case w.job.Open != open:
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
	case len(waiting) > 0 && !w.job.Paused && w.job.Active < w.job.WorkerCount:
		return fmt.Errorf("%s waits for a slot: %d of %d are taken", w.def.Key(waiting[0]), w.job.Active, w.job.WorkerCount)
	}
	return nil
}

func (w *trial) checkStep(s *pawl.Step) error {
	n := w.def.Node(s.Ord.Node())
	switch {
	case s.Attempts < 0 || s.Attempts > max(n.Retry.MaxAttempts, 1) || s.Losses > workflow.MaxLosses || s.Attempts > s.Claims:
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
	case w.stopping() && !w.isStopping(s):
		return fmt.Errorf("it goes on, and its job is ending")
	}
	return w.checkNeeds(s, n)
}

// isStopping holds of the steps of a job that is ending: ended, or about to be
// weighed, or asked to stop, or the parent of such.
func (w *trial) isStopping(s *pawl.Step) bool {
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
		case isWeighed(state) && state.State == lifecycle.StepComplete:
		case isWeighed(state) && state.State == lifecycle.StepSkipped:
			skipped = true
		default:
			unmet++
		}
	}
	moved := s.Claims > 0 || s.State != lifecycle.StepPending && s.State != lifecycle.StepCancelled
	switch {
	case !w.stopping() && s.Unmet != unmet:
		return fmt.Errorf("%d needs are unmet, and it says %d", unmet, s.Unmet)
	case moved && unmet > 0:
		return fmt.Errorf("%d needs are unmet", unmet)
	case s.Claims > 0 && skipped && !n.HasIf:
		return fmt.Errorf("a step it needs was skipped")
	case s.State == lifecycle.StepSkipped && !skipped && !n.HasIf:
		return fmt.Errorf("none of its needs was skipped")
	case !w.stopping() && !isMarked(s) && s.State == lifecycle.StepPending && s.Mark == pawl.Clear && unmet == 0 && s.DueAt == 0 && w.job.State != lifecycle.JobPending:
		return fmt.Errorf("it is ready, and nothing is going to start it")
	}
	return nil
}

// over looks at a job to which nothing more can happen.
func (p *play) over() error {
	switch j := &p.job; {
	case !lifecycle.Job.Ended(j.State):
		return fmt.Errorf("stuck: nothing can happen, and the job is %s:\n%s", j.State, p.describe())
	case j.Active != 0 || j.Open != 0 || j.Mark != pawl.Clear || j.DueAt != 0 || j.CompletedAt == 0:
		return fmt.Errorf("the job has ended with %+v", jobRow(j))
	case (j.Error == nil) != (j.State == lifecycle.JobCompleted):
		return fmt.Errorf("the job is %s with error %v", j.State, j.Error)
	case j.Error != nil && j.Error.Class == "unknown":
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
	for _, f := range fates {
		failed = failed || f.state == lifecycle.StepPermanentError
	}
	stopped := p.canceled || failed && p.def.OnError == workflow.Halt
	if p.canceled {
		job = lifecycle.JobCanceled
	}
	if p.job.State != job {
		return fmt.Errorf("the job is %s, want %s", p.job.State, job)
	}
	for ord, want := range fates {
		if err := p.compareStep(p.steps[ord], want, stopped); err != nil {
			return fmt.Errorf("%s: %w", p.def.Key(ord), err)
		}
	}
	if len(fates) < len(p.steps) {
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
	g := &play{trial: newTrial(def, p), plan: p, roll: roll, log: log}
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
