package decide_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// In every test of this package a decision sees what its read set brings and
// nothing more (desk), so that TestTwin and TestMoveTwin show that the read sets
// are enough. Here they are made too small, which has to be noticed.

// everything brings all there is into sight.
func everything(w *trial) func(string, decide.ReadSet) decide.ReadSet {
	return func(string, decide.ReadSet) decide.ReadSet {
		return decide.ReadSet{Steps: w.ords, Nodes: true, Open: true, Waiting: 1000, Signals: true, Parent: true}
	}
}

// T7: with all of the job in sight every job has the same outcome, which is what the
// twin says.
func TestTwinSeesEverything(t *testing.T) {
	t.Parallel()
	shells := shells(t)
	for seed := uint64(1); seed <= 1000; seed++ {
		g := newPlay(seeded(seed), shells, quiet)
		g.narrow = everything(g.trial)
		if err := g.play(); err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, g.describe())
		}
	}
}

// A field is a part of a read set.
type field struct {
	name string // in errors
	part string
	has  func(*workflow.Definition, *decide.ReadSet) bool
	drop func(*workflow.Definition, *decide.ReadSet)
}

// without drops the places for which f holds.
func without(part string, f func(d *workflow.Definition, first, ord pawl.Ord) bool) field {
	drop := func(d *workflow.Definition, r *decide.ReadSet) {
		r.Steps = slices.DeleteFunc(slices.Clone(r.Steps), func(ord pawl.Ord) bool { return f(d, r.Steps[0], ord) })
	}
	return field{"Steps", part, func(d *workflow.Definition, r *decide.ReadSet) bool {
		was := len(r.Steps)
		less := *r
		if was > 0 {
			drop(d, &less)
		}
		return len(less.Steps) < was
	}, drop}
}

var fields = []field{
	without("the step itself", func(_ *workflow.Definition, first, ord pawl.Ord) bool { return ord == first }),
	without("the fan-out of an instance", func(d *workflow.Definition, first, ord pawl.Ord) bool {
		return first.Instance() > 0 && ord == first.Parent()
	}),
	without("dependents", func(d *workflow.Definition, _, ord pawl.Ord) bool {
		n := d.Node(ord.Node())
		return len(n.Needs) > 0 && ord.Instance() == 0 && !n.Fans()
	}),
	without("hooks", func(d *workflow.Definition, _, ord pawl.Ord) bool { return d.Node(ord.Node()).Hook != workflow.NoHook }),
	{"Steps", "all nodes", func(_ *workflow.Definition, r *decide.ReadSet) bool { return r.Nodes },
		func(_ *workflow.Definition, r *decide.ReadSet) { r.Nodes = false }},
	{"Open", "open steps", func(_ *workflow.Definition, r *decide.ReadSet) bool { return r.Open },
		func(_ *workflow.Definition, r *decide.ReadSet) { r.Open = false }},
	{"Waiting", "waiting steps", func(_ *workflow.Definition, r *decide.ReadSet) bool { return r.Waiting > 0 },
		func(_ *workflow.Definition, r *decide.ReadSet) { r.Waiting = 0 }},
	{"Waiting", "waiting steps by the slots of the definition", func(d *workflow.Definition, r *decide.ReadSet) bool {
		return r.Waiting > 0 && !decide.MayWait(d, d.Workers)
	}, func(_ *workflow.Definition, r *decide.ReadSet) { r.Waiting = 0 }},
	{"Signals", "signals", func(_ *workflow.Definition, r *decide.ReadSet) bool { return r.Signals },
		func(_ *workflow.Definition, r *decide.ReadSet) { r.Signals = false }},
	{"Parent", "the parent step", func(_ *workflow.Definition, r *decide.ReadSet) bool { return r.Parent },
		func(_ *workflow.Definition, r *decide.ReadSet) { r.Parent = false }},
}

// A mutant is a command that asks for less.
type mutant struct {
	command string
	field   int
}

func (m mutant) String() string {
	return fmt.Sprintf("%s without %s", m.command, fields[m.field].part)
}

// played plays a job of that seed, every fourth of which moves.
func played(t testing.TB, seed uint64, shells [2]*workflow.Definition, narrow func(*trial) func(string, decide.ReadSet) decide.ReadSet) error {
	if seed%4 != 0 {
		g := newPlay(seeded(seed), shells, quiet)
		g.narrow = narrow(g.trial)
		return g.play()
	}
	m, err := newMover(t, seeded(seed), quiet)
	if err != nil {
		return err
	}
	m.narrow = narrow(m.trial)
	return m.travel()
}

// Each part of each read set is needed: a decision that is given less says what it
// was not given, before anything else goes wrong.
func TestReadSetsAreNotTooLarge(t *testing.T) {
	t.Parallel()
	const seeds = 2000
	shells := shells(t)
	found := make(map[mutant][]uint64) // seeds whose jobs ask for that
	for seed := uint64(1); seed <= seeds; seed++ {
		asked := make(map[mutant]bool)
		err := played(t, seed, shells, func(w *trial) func(string, decide.ReadSet) decide.ReadSet {
			return func(command string, r decide.ReadSet) decide.ReadSet {
				for i, f := range fields {
					if f.has(w.def, &r) {
						asked[mutant{command, i}] = true
					}
				}
				return r
			}
		})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for m := range asked {
			found[m] = append(found[m], seed)
		}
	}
	mutants := slices.SortedFunc(maps.Keys(found), func(a, b mutant) int { return strings.Compare(a.String(), b.String()) })
	for _, m := range mutants {
		t.Run(m.String(), func(t *testing.T) {
			t.Parallel()
			m.mustBeCaught(t, shells, found[m])
		})
	}
}

func (m mutant) mustBeCaught(t *testing.T, shells [2]*workflow.Definition, seeds []uint64) {
	f := fields[m.field]
	narrow := func(w *trial) func(string, decide.ReadSet) decide.ReadSet {
		return func(command string, r decide.ReadSet) decide.ReadSet {
			if command == m.command && f.has(w.def, &r) {
				f.drop(w.def, &r)
			}
			return r
		}
	}
	caught, tried := 0, 0
	for ; caught < 3 && tried < len(seeds); tried++ {
		seed := seeds[tried]
		err := played(t, seed, shells, narrow)
		var unasked *decide.NotAskedError
		switch {
		case err == nil:
		case !errors.As(err, &unasked) || unasked.Field != f.name:
			t.Fatalf("seed %d: %v; want an error that names %s", seed, err, f.name)
		default:
			caught++
		}
	}
	if caught == 0 {
		t.Errorf("none of %d jobs that ask for it can tell", tried)
	}
}

// T7: more waits fail at the same time than one attendance takes. What it does not
// take has ended, and need not be in sight for the rest to be cancelled.
func TestManyFailAtOnce(t *testing.T) {
	t.Parallel()
	const items = 2*maxMarked + 100
	def := *shells(t)[0]
	def.Workers = 1
	def.Nodes = []workflow.Node{{ID: "each", HasForeach: true, Kind: workflow.KindApproval}, {ID: "last", Needs: []int{1}}}
	def.Nodes[0].Dependents = []int{2}
	w := newTrial(&def, &plan{nodes: []nodePlan{{items: items, fails: true}, {}}})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(w.start())
	attend := func() {
		for a := w.prepare(); a != nil; a = w.prepare() {
			must(w.attend(a))
		}
	}
	attend()
	w.now += 2 * 3600e6
	for _, ord := range w.due() {
		must(w.fire(ord))
	}
	if n := len(w.selected(isMarked)); n < maxMarked+1 {
		t.Fatalf("%d are marked, which is not enough for this test", n)
	}
	attend()
	must(w.check())
	if w.job.State != lifecycle.JobFailed {
		t.Errorf("the job is %s", w.job.State)
	}
}

// J7: a job in which steps wait for slots that are free, as earlier versions left some,
// continues when it is paused and resumed.
func TestResumingGivesFreeSlots(t *testing.T) {
	t.Parallel()
	def := *shells(t)[0]
	def.Workers, def.Nodes = workflow.MaxWorkers, make([]workflow.Node, 5)
	w := newTrial(&def, nil)
	w.job.State, w.job.WorkerCount = lifecycle.JobRunning, 2
	for _, s := range w.steps {
		s.Mark = pawl.Waiting
	}
	for _, paused := range []bool{true, false} {
		if err := w.pause(paused); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(w.selected(isEnqueued)); n != 2 {
		t.Errorf("%d steps are enqueued, want 2", n)
	}
}
