package verify

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// epoch is when every simulated job begins, in microseconds.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// A world is one job in memory: the JobTx on which decisions are made. They see what
// they would see in the engine. It is not safe for concurrent use.
type world struct {
	def     *workflow.Definition
	sight   *decide.Sight // of the decision at hand
	job     pawl.Job
	inputs  json.RawMessage
	steps   []*pawl.Step // ascending
	touched map[pawl.Ord]bool
	signals []*pawl.Signal // that no step has taken
	ends    map[pawl.Ord]decide.ChildEnd
	lists   map[string][]json.RawMessage // the items of what is fanned out, shared by clones
	now     int64
	jitter  func() float64
	mind    mind
	trail   *entry          // newest first
	facts   map[string]bool // values of conditions that cannot be known, by their text

	parent     *world // of a child job
	parentStep pawl.Ord
	spawn      func(w *world, s *pawl.Step, child *workflow.Born) (string, error)
}

// A mind decides what cannot be known before a job runs.
type mind interface {
	// condition returns the value of an `if`, given the result of evaluating it.
	condition(w *world, node int, scope *workflow.Scope, truth bool, err error) (bool, error)
	// items returns the list of a foreach, given the result of evaluating it.
	items(w *world, node int, scope *workflow.Scope, items []json.RawMessage, err error) ([]json.RawMessage, error)
	// failed is called for any other expression that fails; if it returns nil, the job
	// continues without the value.
	failed(w *world, at use, node int, scope *workflow.Scope, err error) error
	// read is called after the expressions of a place have been evaluated, with the
	// error if there is one.
	read(w *world, at use, node int, scope *workflow.Scope, err error)
}

var _ decide.JobTx = (*world)(nil)

// newWorld makes a job that is about to start.
func newWorld(def *workflow.Definition, inputs json.RawMessage, m mind) *world {
	w := &world{def: def, inputs: inputs, mind: m, now: epoch, jitter: func() float64 { return 0.5 },
		touched: map[pawl.Ord]bool{}, ends: map[pawl.Ord]decide.ChildEnd{}, lists: map[string][]json.RawMessage{}}
	w.job = pawl.Job{ID: pawl.MakeID(pawl.Time(epoch), 1, 1), Workflow: def.Name, WorkerCount: def.Workers, Open: len(def.Nodes) - len(def.Hooks)}
	w.job.State = lifecycle.JobPending
	for n := range def.Nodes {
		s := &pawl.Step{StepKey: pawl.StepKey{Job: w.job.Key(), Ord: pawl.MakeOrd(n+1, 0)}, Unmet: len(def.Nodes[n].Needs)}
		s.State = lifecycle.StepPending
		w.steps = append(w.steps, s)
	}
	return w
}

// attach makes w the child job that a step of another job waits for.
func (w *world) attach(parent *world, at pawl.Ord) {
	w.parent, w.parentStep, w.job.Parent = parent, at, 1
}

// clone returns a copy that can be changed without changing w.
func (w *world) clone() *world {
	c := *w
	arena := make([]pawl.Step, len(w.steps))
	c.steps = make([]*pawl.Step, len(w.steps))
	for i, s := range w.steps {
		arena[i] = *s
		c.steps[i] = &arena[i]
	}
	c.touched = map[pawl.Ord]bool{}
	c.facts = maps.Clone(w.facts)
	c.signals = slices.Clone(w.signals)
	c.ends = maps.Clone(w.ends)
	return &c
}

// compact shares what has not changed with origin, of which w is a clone.
func (w *world) compact(origin *world) {
	for i, s := range w.steps {
		if was := origin.step(s.Ord); was != nil && !w.touched[s.Ord] {
			w.steps[i] = was
			continue
		}
		own := *s
		w.steps[i] = &own
	}
}

func (w *world) find(ord pawl.Ord) (int, bool) {
	return slices.BinarySearchFunc(w.steps, ord, func(s *pawl.Step, ord pawl.Ord) int {
		switch {
		case s.Ord < ord:
			return -1
		case s.Ord > ord:
			return 1
		}
		return 0
	})
}

// all returns the steps by ord, in sight or not. The list must not be changed.
func (w *world) all() []*pawl.Step { return w.steps }

// step returns the step at ord, in sight or not, or nil.
func (w *world) step(ord pawl.Ord) *pawl.Step {
	if i, ok := w.find(ord); ok {
		return w.steps[i]
	}
	return nil
}

// Job returns the job.
func (w *world) Job() *pawl.Job { return &w.job }

// Step returns the step at ord, if it is in sight.
func (w *world) Step(ord pawl.Ord) (*pawl.Step, error) {
	if err := w.sight.Step(ord); err != nil {
		return nil, err
	}
	return w.step(ord), nil
}

// Steps calls f for every step in sight, in order.
func (w *world) Steps(f func(*pawl.Step)) {
	for _, s := range slices.Clone(w.steps) {
		if w.sight.Sees(s.Ord) {
			f(s)
		}
	}
}

// Open returns nil if every open step is in sight.
func (w *world) Open() error { return w.sight.Open() }

// Waiting returns the steps that wait for a slot.
func (w *world) Waiting() ([]pawl.Ord, error) { return w.sight.Waiting() }

// Make adds an instance.
func (w *world) Make(ord pawl.Ord) *pawl.Step {
	s := &pawl.Step{StepKey: pawl.StepKey{Job: w.job.Key(), Ord: ord}}
	s.State = lifecycle.StepPending
	i, _ := w.find(ord)
	w.steps = slices.Insert(w.steps, i, s)
	w.sight.Add(ord)
	w.touched[ord] = true
	return s
}

// Move applies an event to a step.
func (w *world) Move(s *pawl.Step, event machine.Event, note decide.Note) error {
	to, err := lifecycle.Step.Next(s.State, event)
	if err != nil {
		return fmt.Errorf("%s: %w", w.def.Key(s.Ord), err)
	}
	w.tell(entry{ord: s.Ord, from: s.State, to: to, event: event, why: note.Reason})
	s.State, s.UpdatedAt, w.touched[s.Ord] = to, w.now, true
	return nil
}

// Fold does nothing: a rehearsal keeps no digests.
func (w *world) Fold(*pawl.Step) {}

// MoveJob applies an event to the job.
func (w *world) MoveJob(event machine.Event, note decide.Note) error {
	to, err := lifecycle.Job.Next(w.job.State, event)
	if err != nil {
		return err
	}
	w.tell(entry{from: w.job.State, to: to, event: event, why: note.Reason})
	w.job.State = to
	return nil
}

// Save records that a step has changed.
func (w *world) Save(s *pawl.Step) { w.touched[s.Ord] = true }

// SaveJob does nothing: the job is changed in place.
func (w *world) SaveJob() {}

// Parent returns the step that waits for the job, if it is a child.
func (w *world) Parent() (*pawl.Step, error) {
	if w.parent == nil {
		return nil, nil
	}
	return w.parent.step(w.parentStep), w.sight.Parent()
}

// Spawn makes a child job.
func (w *world) Spawn(s *pawl.Step, child *workflow.Born) (string, error) {
	if w.spawn == nil {
		return "", nil
	}
	return w.spawn(w, s, child)
}

// Signals returns those that no step has taken.
func (w *world) Signals() ([]*pawl.Signal, error) { return w.signals, w.sight.Signals() }

// Take gives a signal to a step.
func (w *world) Take(signal *pawl.Signal, s *pawl.Step) {
	w.signals = slices.DeleteFunc(slices.Clone(w.signals), func(other *pawl.Signal) bool { return other == signal })
	w.touched[s.Ord] = true
}

func (w *world) decision(reads decide.ReadSet, a decide.Answers) *decide.Decision {
	w.sight = reads.Sight(w.steps)
	return &decide.Decision{Definition: w.def, JobTx: w, Now: w.now, Jitter: w.jitter, Answers: a}
}

// do runs one decision and everything that follows from it by itself.
func (w *world) do(reads decide.ReadSet, f func(*decide.Decision) error) error {
	d := w.decision(reads, decide.Answers{})
	if err := f(d); err != nil {
		return err
	}
	if err := d.Refill(); err != nil {
		return err
	}
	return w.settle()
}

// start starts the job.
func (w *world) start() error {
	if err := w.decision(decide.StartReads(w.def, &w.job), decide.Answers{}).Start(decide.Note{}); err != nil {
		return err
	}
	return w.settle()
}

// claim gives an enqueued step to a worker.
func (w *world) claim(s *pawl.Step, worker *pawl.Worker) error {
	return w.decision(decide.StepReads(s.Ord), decide.Answers{}).Claim(s, worker)
}

// report ends an attempt of a step.
func (w *world) report(s *pawl.Step, r decide.Report) error {
	return w.do(decide.ReportReads(w.def, s.Ord, w.job.WorkerCount), func(d *decide.Decision) error { return d.Report(s, r) })
}

// fire applies the deadline of a step.
func (w *world) fire(s *pawl.Step) error {
	return w.do(decide.FireReads(w.def, s.Ord, w.job.WorkerCount), func(d *decide.Decision) error { return d.Fire(s) })
}

// cancel cancels the job.
func (w *world) cancel(reason string) error {
	return w.stop(func(d *decide.Decision) error { return d.Cancel(decide.Note{Reason: reason}) })
}

// timeOut applies the deadline of the job.
func (w *world) timeOut() error { return w.stop((*decide.Decision).TimeOut) }

func (w *world) stop(f func(*decide.Decision) error) error {
	if err := f(w.decision(decide.CancelReads(), decide.Answers{})); err != nil {
		return err
	}
	return w.settle()
}

// approve gives the positive answer to an approval.
func (w *world) approve(s *pawl.Step, form json.RawMessage, note decide.Note) error {
	return w.do(decide.OperateReads(s.Ord), func(d *decide.Decision) error { return d.Approve(s, form, note) })
}

// reject gives the negative answer to an approval.
func (w *world) reject(s *pawl.Step, note decide.Note) error {
	return w.do(decide.OperateReads(s.Ord), func(d *decide.Decision) error { return d.Reject(s, note) })
}

// endChild ends the child job that the step at ord waits for.
func (w *world) endChild(ord pawl.Ord, end decide.ChildEnd) error {
	s := w.step(ord)
	w.ends[ord] = end
	s.Mark = pawl.Attention
	w.Save(s)
	return w.settle()
}

// childEnded reports whether endChild was called for a step.
func (w *world) childEnded(ord pawl.Ord) bool {
	_, ended := w.ends[ord]
	return ended
}

// send stores a signal, which the running job takes at once if a step waits for it.
func (w *world) send(signal *pawl.Signal) error {
	w.signals = append(w.signals, signal)
	if w.job.State != lifecycle.JobRunning {
		return nil
	}
	w.job.MarkNow()
	return w.settle()
}

// ended reports whether the job has ended.
func (w *world) ended() bool { return lifecycle.Job.Ended(w.job.State) }

// maxRounds bounds how often settle evaluates marks.
const maxRounds = 10_000

// settle evaluates marked steps until none is left that can be.
func (w *world) settle() error {
	for range maxRounds {
		answers, any, err := w.answers()
		if err != nil || !any {
			return err
		}
		d := w.decision(decide.EvaluateReads(w.def, &w.job, w.listeners(), &answers), answers)
		if err := d.Evaluate(); err != nil {
			return err
		}
		if err := d.Refill(); err != nil {
			return err
		}
	}
	return fmt.Errorf("the marks of job %s do not come to rest", w.def.Name)
}

// listeners returns the steps that wait for a signal.
func (w *world) listeners() (ords []pawl.Ord) {
	for _, s := range w.steps {
		if s.State == lifecycle.StepInProgress && !w.isFan(s) && w.def.Node(s.Ord.Node()).Kind == workflow.KindEvent {
			ords = append(ords, s.Ord)
		}
	}
	return ords
}

// waitsForChild reports whether s waits for a child job.
func (w *world) waitsForChild(s *pawl.Step) bool {
	return w.def.Node(s.Ord.Node()).Kind == workflow.KindWorkflow && !w.isFan(s) && s.State == lifecycle.StepInProgress
}

// isFan reports whether s is the node of a fan-out, and not an instance.
func (w *world) isFan(s *pawl.Step) bool {
	return s.Ord.Instance() == 0 && w.def.Node(s.Ord.Node()).Fans()
}

// check returns which invariant of a job is broken, or nil.
func (w *world) check() error {
	active := 0
	for _, s := range w.steps {
		held := s.State == lifecycle.StepEnqueued || s.State == lifecycle.StepInProgress && s.Worker != 0
		if held {
			active++
		}
		if w.ended() && !lifecycle.Step.Ended(s.State) {
			return fmt.Errorf("job %s is %s, and its step %s is %s", w.def.Name, w.job.State, w.def.Key(s.Ord), s.State)
		}
	}
	switch {
	case active != w.job.Active:
		return fmt.Errorf("job %s counts %d active steps, and there are %d", w.def.Name, w.job.Active, active)
	case active > w.job.WorkerCount:
		return fmt.Errorf("job %s has %d active steps; at most %d are allowed", w.def.Name, active, w.job.WorkerCount)
	}
	return nil
}
