package decide_test

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
	"github.com/pawl-dev/pawl/internal/decide"
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

// A dice returns a number in [0, n).
type dice func(n int) int

func (d dice) one(in int) bool { return d(in) == 0 }

func seeded(seed uint64) dice { return rand.New(rand.NewPCG(seed, 1)).IntN }

// The outcomes of an attempt.
const (
	succeeds = iota
	fails
	failsLater // and asks for a delay
	failsForGood
	isLost
	isInterrupted
	snoozes
	timesOut
	inQueue // no worker takes it in time, if there is a limit
	endings
)

// A plan is all that a job does not decide by itself.
type plan struct {
	nodes       []nodePlan
	runs        map[pawl.Ord][]int // outcomes of the attempts; the next one succeeds
	outputFails bool
	pauses      bool
	meddles     bool // an operator settles steps now and then
	cancelAt    int  // the turn at which the job is cancelled, or -1
	slots       int  // that a quota leaves the job
	continues   bool // another job: some steps have a result at once

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

func (p *plan) start(ord pawl.Ord) decide.StartAnswer {
	n := p.nodes[ord.Node()-1]
	if n.startFails {
		return decide.StartAnswer{Failure: &pawl.Failure{Class: "expression", Message: "it does not evaluate", Permanent: true}}
	}
	answer := decide.StartAnswer{If: !n.isFalse || ord.Instance() > 0, Count: n.items, Items: json.RawMessage(fmt.Sprintf("[%d]", n.items))}
	if answer.Waiting = (&workflow.Waiting{Child: &workflow.Born{}}); n.fails {
		answer.Waiting.For = time.Hour
	}
	if n.reused {
		answer.Reused = json.RawMessage(`"reused"`)
	}
	return answer
}

func (p *plan) gather(ord pawl.Ord) decide.GatherAnswer {
	if p.nodes[ord.Node()-1].gatherFails {
		return decide.GatherAnswer{Failure: &pawl.Failure{Class: "gather", Message: "the list is too large", Permanent: true}}
	}
	return decide.GatherAnswer{Output: json.RawMessage(`["gathered"]`)}
}

func (p *plan) output() *decide.GatherAnswer {
	if p.outputFails {
		return &decide.GatherAnswer{Failure: &pawl.Failure{Class: "output", Message: "it does not evaluate", Permanent: true}}
	}
	return &decide.GatherAnswer{Output: json.RawMessage(`"the output"`)}
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
	if roll.one(4) {
		def.Workers, def.AnyWorkers = workflow.MaxWorkers, true
	}
	p.slots, p.continues = def.Workers, roll.one(8)
	if roll.one(2) {
		p.slots = 1 + roll(min(def.Workers, 4))
	}
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
	for _, hook := range []workflow.Hook{workflow.HookOnFailure, workflow.HookOnCancel, workflow.HookAlways} {
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

// hookFates is the twin of the hooks of a job that ends in the given state, or of one
// that took too long.
func (p *plan) hookFates(def *workflow.Definition, job machine.State, late bool) map[pawl.Ord]fate {
	wanted := map[workflow.Hook]bool{workflow.HookAlways: true}
	wanted[workflow.HookOnFailure] = late || job == lifecycle.JobFailed
	wanted[workflow.HookOnCancel] = !late && job == lifecycle.JobCanceled
	all := make(map[pawl.Ord]fate)
	for _, n := range def.Hooks {
		ord := pawl.MakeOrd(n, 0)
		all[ord] = p.work(def, ord)
		if !wanted[def.Nodes[n-1].Hook] {
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
		case isInterrupted, snoozes:
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

// newPlay makes one job up.
func newPlay(roll dice, shells [2]*workflow.Definition, log func(string, ...any)) *play {
	def, p := invent(roll, shells)
	g := &play{trial: newTrial(def, p), plan: p, roll: roll, log: log, queued: make(map[pawl.Ord]int)}
	g.leaves = func(s *pawl.Step) bool { return g.ending(s) == inQueue }
	g.job.WorkerCount = p.slots
	if roll.one(4) {
		g.adopt()
	}
	return g
}

// once plays one job.
func once(roll dice, shells [2]*workflow.Definition, log func(string, ...any)) error {
	g := newPlay(roll, shells, log)
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
