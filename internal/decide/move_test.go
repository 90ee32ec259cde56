package decide_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// move takes the job to another definition, as the engine does.
func (w *trial) move(next *workflow.Definition, version int) error {
	p, err := w.def.Passage(next)
	if err != nil {
		return err
	}
	b := w.desk("move", decide.MoveReads())
	was := w.def
	err = w.do(b, decide.Answers{}, func(d *decide.Decision) error {
		if _, err := d.MoveTo(&decide.Move{Passage: p, From: version - 1, Version: version}, decide.Note{Actor: "ann"}); err != nil {
			return err
		}
		w.def = p.To
		return d.Refill()
	})
	if err != nil {
		w.def = was
	}
	return err
}

// TestMoveScenarios plays every file of testdata/move: like those of
// testdata/decide, with the versions that the job moves to, by "move VERSION",
// between the first and the commands.
func TestMoveScenarios(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/move/*.txt")
	if err != nil || len(paths) < 10 {
		t.Fatalf("found %d files: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, path, playMoves(t, string(src)))
		})
	}
}

// playMoves returns the file as it should be.
func playMoves(t *testing.T, src string) string {
	t.Helper()
	parts := strings.Split(src, "\n---\n")
	commands := parts[len(parts)-1]
	var versions []*workflow.Definition
	for _, part := range parts[:len(parts)-1] {
		versions = append(versions, parsed(t, part))
	}
	s := &scenario{}
	s.trial = newTrial(versions[0], s)
	var b strings.Builder
	b.WriteString(strings.Join(parts[:len(parts)-1], "\n---\n") + "\n---\n")
	for line := range strings.Lines(commands) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "> ")
		if !ok {
			continue // a row of the trail, as it was
		}
		fmt.Fprintf(&b, "> %s\n", command)
		version := 0
		if _, err := fmt.Sscanf(command, "move %d", &version); err != nil {
			b.WriteString(s.play(command))
			continue
		}
		b.WriteString(s.playMove(versions[version-1], version))
	}
	if err := s.replay(); err != nil {
		t.Error(err)
	}
	return b.String()
}

// playMove returns the rows that a move brings.
func (s *scenario) playMove(next *workflow.Definition, version int) string {
	from := len(s.trail)
	err := s.move(next, version)
	var b strings.Builder
	for _, m := range s.trail[from:] {
		fmt.Fprintf(&b, "  %s\n", s.line(m))
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		fmt.Fprintf(&b, "  error: %s\n", err)
	}
	return b.String()
}

// checkMoved is check, but that more steps may be active than the version allows
// that the job has moved to.
func (w *trial) checkMoved() error {
	was := w.job.WorkerCount
	w.job.WorkerCount = max(was, w.job.Active)
	defer func() { w.job.WorkerCount = was }()
	return w.check()
}

var (
	moveCases = flag.Int("move.cases", 100, "random jobs that move in the middle")
	moveSeed  = flag.Uint64("move.seed", 0, "replay the one job of this seed, and print what happens")
)

// inventFile makes up a workflow. A step needs only those before it.
func inventFile(roll dice) workflow.File {
	f := workflow.File{Name: "flow", Workers: 1 + roll(4), OnError: workflow.Halt}
	for n := range 1 + roll(9) {
		f.Steps = append(f.Steps, inventStep(roll, fmt.Sprintf("n%d", n+1), f.Steps))
	}
	inventRest(roll, &f)
	return f
}

func inventStep(roll dice, id string, before []workflow.Step) workflow.Step {
	s := workflow.Step{ID: id, Handler: "h", Parallel: 0, Retry: workflow.Retry{MaxAttempts: 1 + roll(3), Backoff: workflow.Constant, Jitter: workflow.NoJitter}}
	if roll.one(4) {
		s.If = "true"
	}
	if roll.one(4) {
		s.Foreach, s.Parallel = []any{1}, roll(4)
	}
	for _, b := range before {
		if roll.one(3) {
			s.Needs = append(s.Needs, b.ID)
		}
	}
	if len(s.Needs) > 0 && roll.one(3) {
		s.With = outputOf(s.Needs[0])
	}
	return s
}

func outputOf(id string) string { return "${{ steps." + id + ".output }}" }

// inventRest makes up what a workflow has beside its steps.
func inventRest(roll dice, f *workflow.File) {
	f.Output, f.OnError, f.Workers = nil, workflow.Halt, 1+roll(4)
	if roll.one(3) {
		f.Output = "done"
	}
	if roll.one(2) {
		f.OnError = workflow.Drain
	}
	if roll.one(4) {
		f.Workers = 0
	}
}

// edit returns another version. It leaves the frozen steps alone, but for when it
// does not.
func edit(roll dice, f workflow.File, try int, frozen func(id string) bool) workflow.File {
	var steps []workflow.Step
	careless, short := roll.one(5), roll.one(6)
	for i, s := range f.Steps {
		if short && !frozen(s.ID) {
			continue
		}
		if !short && roll.one(4) {
			steps = append(steps, inventStep(roll, fmt.Sprintf("x%d_%d", try, i), steps))
		}
		if frozen(s.ID) && !careless {
			steps = append(steps, s)
			continue
		}
		switch roll(5) {
		case 0:
			continue
		case 1:
			s = inventStep(roll, s.ID, steps)
		}
		s.Needs = slices.DeleteFunc(slices.Clone(s.Needs), func(id string) bool {
			return !slices.ContainsFunc(steps, func(b workflow.Step) bool { return b.ID == id })
		})
		if s.With = nil; len(s.Needs) > 0 && roll.one(2) {
			s.With = outputOf(s.Needs[0])
		}
		steps = append(steps, s)
	}
	f.Steps = steps
	inventRest(roll, &f)
	return f
}

// A mover is a play whose job moves to other versions on its way.
type mover struct {
	*play
	t     testing.TB
	file  workflow.File
	moved int
	tries int
}

// travel continues until nothing more can happen.
func (m *mover) travel() error {
	for turn := 0; ; turn++ {
		if m.tries < 4 && m.roll.one(6) {
			if err := m.moveOn(); err != nil {
				return fmt.Errorf("turn %d, move: %w\n%s", turn, err, m.describe())
			}
		}
		acts := m.acts(turn)
		if len(acts) == 0 {
			return m.over()
		}
		if turn == maxTurns {
			return fmt.Errorf("stuck: still busy after %d turns, with %s", turn, acts[0].name)
		}
		a := acts[m.roll(len(acts))]
		m.now += int64(m.roll(1000))
		m.log("%3d %s", turn, a.name)
		if err := a.do(); err != nil {
			return fmt.Errorf("turn %d, %s: %w", turn, a.name, err)
		}
		if err := m.checkMoved(); err != nil {
			return fmt.Errorf("turn %d, %s: %w\n%s", turn, a.name, err, m.describe())
		}
	}
}

// hasBegun reports whether anything was done about the step of that id.
func (m *mover) hasBegun(id string) bool {
	s := m.steps[pawl.MakeOrd(m.def.NodeByID(id), 0)]
	return s.State != lifecycle.StepPending || s.Claims > 0 || s.Attempts > 0
}

// moveOn tries another version, which is refused if it has to be, and looks at
// what the move has done.
func (m *mover) moveOn() error {
	m.tries++
	file := edit(m.roll, m.file, m.tries, func(id string) bool { return m.hasBegun(id) })
	next, err := file.Build()
	if err != nil {
		return err
	}
	before := make(map[string]row)
	for n := range m.def.Nodes {
		if id := m.def.Nodes[n].ID; m.hasBegun(id) {
			before[id] = stepRow(m.steps[pawl.MakeOrd(n+1, 0)])
		}
	}
	must, old := m.mustRefuse(next) || m.mustMiss(file), m.def
	err = m.move(next, m.moved+2)
	if refused := pawl.KindOf(err) == pawl.Conflict && err != nil; refused != must || err != nil && !refused {
		return fmt.Errorf("refused is %v, want %v: %w", refused, must, errors.Join(err, errors.New(strings.Join(namesOf(file), " "))))
	}
	if err != nil {
		return nil
	}
	m.log("    moved to %s", idsOf(m.def))
	m.moved++
	m.file, m.prepared = file, nil // what was read before is not decided any more
	for n := range old.Nodes {
		if m.def.Nodes[n].ID != old.Nodes[n].ID {
			return fmt.Errorf("the node %d was %s, and is %s", n+1, old.Nodes[n].ID, m.def.Nodes[n].ID)
		}
		was, began := before[old.Nodes[n].ID]
		is := stepRow(m.steps[pawl.MakeOrd(n+1, 0)])
		if began && (was.State != is.State && was.mark != pawl.Waiting || was.claims != is.claims || was.attempts != is.attempts || was.worker != is.worker || was.startedAt != is.startedAt) {
			return fmt.Errorf("%s has begun, and was touched: %+v, was %+v", old.Nodes[n].ID, is, was)
		}
	}
	m.replan(next)
	return m.checkMoved()
}

func namesOf(f workflow.File) []string {
	var ids []string
	for _, s := range f.Steps {
		ids = append(ids, s.ID)
	}
	return ids
}

// mustRefuse is the dumb twin of what the decision refuses.
func (m *mover) mustRefuse(next *workflow.Definition) bool {
	if lifecycle.Job.Ended(m.job.State) || m.job.Ending != "" {
		return true
	}
	if m.job.Quota != 0 && !next.AnyWorkers && next.Workers > m.job.WorkerCount {
		return true
	}
	changes := m.def.DiffTo(next)
	for _, c := range changes.Steps {
		n := m.def.NodeByID(c.Step)
		if n == 0 || !m.hasBegun(c.Step) {
			continue
		}
		if s := m.steps[pawl.MakeOrd(n, 0)]; c.Change != workflow.Removed || s.State != lifecycle.StepSkipped || isMarked(s) {
			return true
		}
	}
	return false
}

// mustMiss is the dumb twin of what a move refuses since the new version uses the list of
// a fan-out that nothing needed, so that it was not made.
func (m *mover) mustMiss(next workflow.File) bool {
	for _, s := range m.file.Steps {
		needed := slices.ContainsFunc(m.file.Steps, func(b workflow.Step) bool { return slices.Contains(b.Needs, s.ID) })
		used := slices.ContainsFunc(next.Steps, func(b workflow.Step) bool { return b.With == outputOf(s.ID) })
		state := m.steps[pawl.MakeOrd(m.def.NodeByID(s.ID), 0)].State
		if s.Foreach != nil && used && !needed && (state == lifecycle.StepInProgress || state == lifecycle.StepComplete) {
			return true
		}
	}
	return false
}

// replan lets the twin know what the new version has.
func (m *mover) replan(next *workflow.Definition) {
	for n := 1; n <= len(m.def.Nodes); n++ {
		if n > len(m.plan.nodes) {
			m.plan.nodes = append(m.plan.nodes, m.inventPlan(n))
		}
		if next.NodeByID(m.def.Node(n).ID) == 0 {
			m.plan.nodes[n-1] = nodePlan{isFalse: true} // it was left behind
		}
	}
}

func (m *mover) inventPlan(n int) nodePlan {
	np := nodePlan{items: m.roll(5), isFalse: m.roll.one(6), gatherFails: m.roll.one(20), startFails: m.roll.one(30)}
	for k := range np.items + 1 {
		m.plan.runs[pawl.MakeOrd(n, k)] = inventRun(m.roll, 4)
	}
	return np
}

// newMover makes up a job that moves.
func newMover(t testing.TB, roll dice, log func(string, ...any)) (*mover, error) {
	file := inventFile(roll)
	def, err := file.Build()
	if err != nil {
		return nil, err
	}
	p := &plan{runs: make(map[pawl.Ord][]int), cancelAt: -1, outputFails: roll.one(8), pauses: roll.one(4)}
	m := &mover{play: &play{trial: newTrial(def, p), plan: p, roll: roll, log: log}, t: t, file: file}
	if roll.one(4) {
		m.adopt()
	}
	if roll.one(3) {
		m.job.Quota, m.job.WorkerCount = 9, 1+roll(min(def.Workers, 4))
	}
	m.replan(def)
	return m, nil
}

// moveOnce plays one job that moves, and returns how often it did.
func moveOnce(t testing.TB, roll dice, log func(string, ...any)) (int, error) {
	m, err := newMover(t, roll, log)
	if err != nil {
		return 0, err
	}
	err = m.travel()
	if err != nil {
		log("%s", m.describe())
	}
	return m.moved, err
}

// T2, T12, J2: wherever a job is moved on its way, what had begun stays as it
// was, no invariant breaks (every count of unmet needs is what a fresh count
// says), and the job ends as its twin, which knows only what it is pinned to at
// the end.
func TestMoveTwin(t *testing.T) {
	t.Parallel()
	if *moveSeed != 0 {
		if _, err := moveOnce(t, seeded(*moveSeed), t.Logf); err != nil {
			t.Fatal(err)
		}
		return
	}
	moves := 0
	for seed := uint64(1); seed <= uint64(*moveCases); seed++ {
		n, err := moveOnce(t, seeded(seed), quiet)
		if err != nil {
			t.Fatalf("%v\nreplay it with -move.seed %d", err, seed)
		}
		moves += n
	}
	if moves < *moveCases/2 {
		t.Errorf("%d moves in %d jobs: too few to prove anything", moves, *moveCases)
	}
}

// The same, by rapid, which looks for the smallest job that fails.
func TestMoveTwinShrinks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		roll := func(n int) int { return rapid.IntRange(0, n-1).Draw(r, "roll") }
		if _, err := moveOnce(t, roll, r.Logf); err != nil {
			r.Fatal(err)
		}
	})
}

// T12: a refusal names every step that prevents the move, and says why.
func TestMoveObstacles(t *testing.T) {
	t.Parallel()
	w := newTrial(parsed(t, "name: flow\nsteps: [{id: a, handler: h}, {id: b, handler: h}, {id: c, handler: h}, {id: d, handler: h, needs: [a]}]\n"), nil)
	for _, err := range []error{w.start(), w.claim(pawl.MakeOrd(1, 0), pawl.MakeOrd(2, 0))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	next, err := workflow.File{Name: "flow", Inputs: map[string]workflow.InputSchema{"day": {Required: true}}, Steps: []workflow.Step{
		{ID: "a", Handler: "h", With: "x"}, {ID: "c", Handler: "h"}, {ID: "d", Handler: "other"},
	}}.Build()
	if err != nil {
		t.Fatal(err)
	}
	trail := len(w.trail)
	err = w.move(next, 2)
	var why decide.Obstacles
	if pawl.KindOf(err) != pawl.Conflict || !errors.As(err, &why) {
		t.Fatalf("error %v, want a conflict with its reasons", err)
	}
	want := decide.Obstacles{
		`inputs: input "day" is required: want a string`,
		"step a has begun (it is in_progress), and is another one in the new version: with",
		"step b has begun (it is in_progress), and the new version does not have it",
	}
	if diff := cmp.Diff(want, why); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(w.trail) != trail {
		t.Errorf("the refused move left %v", w.trail[trail:])
	}
}

// TestMoveToAVersionThatUsesWhatWasNotKept is refused, and one that uses the output of a
// step that has not begun is not.
func TestMoveToAVersionThatUsesWhatWasNotKept(t *testing.T) { // T13
	t.Parallel()
	command := func(id, use string, needs ...string) workflow.Step {
		return workflow.Step{ID: id, Command: []string{"x", use}, Needs: needs}
	}
	build := func(steps ...workflow.Step) *workflow.Definition {
		d, err := workflow.File{Name: "flow", Steps: steps}.Build()
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a, b := command("a", ""), command("b", "", "a")
	for use, want := range map[string]decide.Obstacles{
		"steps.a.output": {"step a has begun (it is in_progress), and does not keep its output, which the new version uses"},
		"steps.a.status": nil,
		"steps.b.output": nil,
	} {
		w := newTrial(build(a, b), nil)
		for _, err := range []error{w.start(), w.claim(pawl.MakeOrd(1, 0))} {
			if err != nil {
				t.Fatal(err)
			}
		}
		var why decide.Obstacles
		err := w.move(build(a, b, command("c", "${{ "+use+" }}", "b")), 2)
		if errors.As(err, &why); !slices.Equal(why, want) {
			t.Errorf("with %s: %v, want %v", use, err, want)
		}
	}
}
