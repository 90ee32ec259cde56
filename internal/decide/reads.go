package decide

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A ReadSet says what has to be in sight for a decision, besides the job itself. It is
// the only definition of that: the engine makes its queries from it, and so do the
// simulator and the tests.
//
// Reading beyond it is an error (*NotAskedError), and never "there is none". Four
// things may be out of sight, because they are seldom needed and expensive: what a
// failure touches, what a skipped step passes on, the hooks, and what is blocked. The
// decision then leaves a mark, and Evaluate decides with all of that in sight.
type ReadSet struct {
	Steps   []pawl.Ord // these, as far as they exist
	Nodes   bool       // every step that is not an instance
	Open    bool       // every step that has not ended
	Waiting int        // how many of the steps marked Waiting, by (priority descending, ord); 0: none
	Signals bool       // those that no step has taken
	Parent  bool       // the step of the parent job that waits for this one, if it is a child
}

// A NotAskedError is returned when a decision reads what its query did not ask
// for. It is a fault of this program, not of the job.
type NotAskedError struct {
	What  string // such as "step 3.2"
	Field string // of the query, such as "Steps"
}

func (e *NotAskedError) Error() string {
	return fmt.Sprintf("%s was read, but the query did not ask for it (%s)", e.What, e.Field)
}

// Names of what a query asks for, in errors.
const (
	fieldSteps   = "Steps"
	fieldOpen    = "Open"
	fieldWaiting = "Waiting"
	fieldSignals = "Signals"
	fieldParent  = "Parent"
)

// StepNotAsked, OpenNotAsked, WaitingNotAsked, SignalsNotAsked and ParentNotAsked
// are the errors of a JobTx.
func StepNotAsked(ord pawl.Ord) error {
	return &NotAskedError{fmt.Sprintf("step %d.%d", ord.Node(), ord.Instance()), fieldSteps}
}

// OpenNotAsked is the error of JobTx.Open.
func OpenNotAsked() error { return &NotAskedError{"every open step", fieldOpen} }

// WaitingNotAsked is the error of JobTx.Waiting.
func WaitingNotAsked() error { return &NotAskedError{"what waits for a slot", fieldWaiting} }

// SignalsNotAsked is the error of JobTx.Signals.
func SignalsNotAsked() error { return &NotAskedError{"the list of signals", fieldSignals} }

// ParentNotAsked is the error of JobTx.Parent.
func ParentNotAsked() error { return &NotAskedError{"the parent step", fieldParent} }

// StepReads is for a step alone: to claim it, or to store an outcome without its job.
func StepReads(ord pawl.Ord) ReadSet { return ReadSet{Steps: []pawl.Ord{ord}} }

// StartReads is for Decision.Start. A job that continues another may start
// anywhere.
func StartReads(d *workflow.Definition, j *pawl.Job) ReadSet {
	if j.Continues != 0 {
		return ReadSet{Nodes: true, Parent: true}
	}
	return ReadSet{Steps: ords(d.Roots()), Parent: true}
}

// ReportReads is for Decision.Report about the step at ord, of a job with so many
// slots.
func ReportReads(d *workflow.Definition, ord pawl.Ord, slots int) ReadSet {
	return ReadSet{Steps: Reach(d, ord, false), Waiting: waiting(d, slots), Parent: true}
}

// FireReads is for Decision.Fire about the step at ord, of a job with so many
// slots.
func FireReads(d *workflow.Definition, ord pawl.Ord, slots int) ReadSet {
	r := ReportReads(d, ord, slots)
	r.Signals = d.Nodes[ord.Node()-1].Kind == workflow.KindEvent
	return r
}

// CancelReads is for Decision.Cancel.
func CancelReads() ReadSet { return ReadSet{Open: true, Parent: true} }

// OperateReads is for what operators do to the job or, unless ord is 0, to the
// step at ord.
func OperateReads(ord pawl.Ord) ReadSet {
	r := ReadSet{Nodes: true, Waiting: pawl.MaxNodes, Parent: true}
	if ord.Instance() > 0 {
		r.Steps = []pawl.Ord{ord}
	}
	return r
}

// MoveReads is for Decision.MoveTo.
func MoveReads() ReadSet { return OperateReads(0) }

// EvaluateReads is for Decision.Evaluate with these answers; listeners are the steps
// that wait for signals that have come.
func EvaluateReads(d *workflow.Definition, j *pawl.Job, listeners []pawl.Ord, a *Answers) ReadSet {
	r := ReadSet{Waiting: waiting(d, j.WorkerCount), Signals: d.Events, Parent: true}
	for _, ord := range a.Marked {
		r.Steps = append(r.Steps, Reach(d, ord, true)...)
		r.Open = r.Open || d.OnError == workflow.Halt && a.fails(ord)
	}
	for _, ord := range listeners {
		r.Steps = append(r.Steps, Reach(d, ord, false)...)
	}
	if a.Ending {
		r.Open, r.Steps = true, append(r.Steps, ords(d.Hooks)...)
	}
	return r
}

// fails reports whether the step at ord was prepared to fail.
func (a *Answers) fails(ord pawl.Ord) bool {
	_, failed := a.Errors[ord]
	return failed || a.Starts[ord].Failure != nil || a.Gathers[ord].Failure != nil || a.Ends[ord].Failure != nil
}

// waiting is how many steps may get the slots that become free in a job.
func waiting(d *workflow.Definition, slots int) int {
	if MayWait(d, slots) {
		return slots
	}
	return 0
}

// MayWait reports whether steps of a job with so many slots can ever wait for one
// while it is not paused.
func MayWait(d *workflow.Definition, slots int) bool {
	if len(d.Nodes) > slots {
		return true
	}
	for i := range d.Nodes {
		if d.Nodes[i].Fans() {
			return true
		}
	}
	return false
}

// Reach returns the steps that a decision about the step at ord may touch: its
// fan-out and itself, and its dependents; or, if deep, all that descend from it.
func Reach(d *workflow.Definition, ord pawl.Ord, deep bool) []pawl.Ord {
	n := &d.Nodes[ord.Node()-1]
	next := n.Dependents
	switch {
	case n.Hook != workflow.NoHook:
		next = d.Hooks
	case deep:
		next = d.Descendants(ord.Node())
	case ord.Instance() != 0:
		next = nil
	}
	reach := make([]pawl.Ord, 0, len(next)+2)
	reach = append(reach, ord)
	if ord.Instance() != 0 {
		reach = append(reach, ord.Parent())
	}
	for _, m := range next {
		reach = append(reach, pawl.MakeOrd(m, 0))
	}
	return reach
}

func ords(nodes []int) []pawl.Ord {
	list := make([]pawl.Ord, len(nodes))
	for i, n := range nodes {
		list[i] = pawl.MakeOrd(n, 0)
	}
	return list
}

// A Sight is what a store would return for a read set, taken from a job that is in
// memory as a whole.
type Sight struct {
	reads   ReadSet
	seen    map[pawl.Ord]bool
	waiting []pawl.Ord
}

// Sight returns what the read set selects from all steps of a job, ascending.
func (r ReadSet) Sight(steps []*pawl.Step) *Sight {
	s := &Sight{reads: r, seen: make(map[pawl.Ord]bool, len(r.Steps))}
	for _, ord := range r.Steps {
		s.seen[ord] = true
	}
	var waiting []*pawl.Step
	for _, step := range steps {
		if r.Nodes && step.Ord.Instance() == 0 || r.Open && !lifecycle.Step.Ended(step.State) {
			s.seen[step.Ord] = true
		}
		if step.Mark == pawl.Waiting {
			waiting = append(waiting, step)
		}
	}
	slices.SortStableFunc(waiting, func(a, b *pawl.Step) int { return b.Priority - a.Priority })
	for _, step := range waiting[:min(len(waiting), r.Waiting)] {
		s.waiting, s.seen[step.Ord] = append(s.waiting, step.Ord), true
	}
	return s
}

// Sees reports whether the step at ord is in sight, if it exists.
func (s *Sight) Sees(ord pawl.Ord) bool {
	return s.seen[ord] || s.reads.Nodes && ord.Instance() == 0
}

// Add brings a step that was made into sight.
func (s *Sight) Add(ord pawl.Ord) { s.seen[ord] = true }

// Step is nil if the step at ord is in sight, whether it exists or not.
func (s *Sight) Step(ord pawl.Ord) error {
	if s.Sees(ord) {
		return nil
	}
	return StepNotAsked(ord)
}

// Open is JobTx.Open.
func (s *Sight) Open() error {
	if s.reads.Open {
		return nil
	}
	return OpenNotAsked()
}

// Waiting is JobTx.Waiting.
func (s *Sight) Waiting() ([]pawl.Ord, error) {
	if s.reads.Waiting == 0 {
		return nil, WaitingNotAsked()
	}
	return s.waiting, nil
}

// Signals is nil if the signals are in sight.
func (s *Sight) Signals() error {
	if s.reads.Signals {
		return nil
	}
	return SignalsNotAsked()
}

// Parent is nil if the parent step is in sight.
func (s *Sight) Parent() error {
	if s.reads.Parent {
		return nil
	}
	return ParentNotAsked()
}
