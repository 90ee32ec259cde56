package rehearsal

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/expressions"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Epoch is when every simulated job begins, in microseconds.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()

// A World is one job in memory: the JobTx on which decisions are made. They see what
// they would see in the engine. It is not safe for concurrent use.
type World struct {
	Definition *workflow.Definition
	Inputs     json.RawMessage
	Now        int64           // in microseconds; the caller moves it
	Jitter     func() float64  // of the backoff of retries; always 0.5 unless set
	Facts      map[string]bool // what a Mind has assumed about conditions, by their text

	// Of a child job, see Attach.
	ParentJob  *World
	ParentStep pawl.Ord

	// SpawnChild makes the child job that s waits for, and returns its id. If it is nil
	// there is none.
	SpawnChild func(w *World, s *pawl.Step, child *workflow.Born) (string, error)

	sight   *decide.Sight // of the decision at hand
	job     pawl.Job
	steps   []*pawl.Step // ascending
	touched map[pawl.Ord]bool
	signals []*pawl.Signal // that no step has taken
	ends    map[pawl.Ord]decide.ChildEnd
	lists   map[string][]json.RawMessage // the items of what is fanned out, shared by clones
	mind    Mind
	trail   *entry // newest first
}

// A Mind decides what cannot be known before a job runs.
type Mind interface {
	// Condition returns the value of an `if`, given the result of evaluating it.
	Condition(w *World, node int, scope *workflow.Scope, truth bool, err error) (bool, error)
	// Items returns the list of a foreach, given the result of evaluating it.
	Items(w *World, node int, scope *workflow.Scope, items []json.RawMessage, err error) ([]json.RawMessage, error)
	// Failed is called for any other expression that fails; if it returns nil, the job
	// continues without the value.
	Failed(w *World, at expressions.Use, node int, scope *workflow.Scope, err error) error
	// Read is called after the expressions of a place have been evaluated, with the
	// error if there is one.
	Read(w *World, at expressions.Use, node int, scope *workflow.Scope, err error)
}

var _ decide.JobTx = (*World)(nil)

// New makes a job that is about to start.
func New(def *workflow.Definition, inputs json.RawMessage, m Mind) *World {
	w := &World{Definition: def, Inputs: inputs, mind: m, Now: Epoch, Jitter: func() float64 { return 0.5 },
		touched: map[pawl.Ord]bool{}, ends: map[pawl.Ord]decide.ChildEnd{}, lists: map[string][]json.RawMessage{}}
	w.job = pawl.Job{ID: pawl.MakeID(pawl.Time(Epoch), 1, 1), Workflow: def.Name, WorkerCount: def.Workers, Open: len(def.Nodes) - len(def.Hooks)}
	w.job.State = lifecycle.JobPending
	for n := range def.Nodes {
		s := &pawl.Step{StepKey: pawl.StepKey{Job: w.job.Key(), Ord: pawl.MakeOrd(n+1, 0)}, Unmet: len(def.Nodes[n].Needs)}
		s.State = lifecycle.StepPending
		w.steps = append(w.steps, s)
	}
	return w
}

// Attach makes w the child job that a step of another job waits for.
func (w *World) Attach(parent *World, at pawl.Ord) {
	w.ParentJob, w.ParentStep, w.job.Parent = parent, at, 1
}

// Clone returns a copy that can be changed without changing w.
func (w *World) Clone() *World {
	c := *w
	arena := make([]pawl.Step, len(w.steps))
	c.steps = make([]*pawl.Step, len(w.steps))
	for i, s := range w.steps {
		arena[i] = *s
		c.steps[i] = &arena[i]
	}
	c.touched = map[pawl.Ord]bool{}
	c.Facts = maps.Clone(w.Facts)
	c.signals = slices.Clone(w.signals)
	c.ends = maps.Clone(w.ends)
	return &c
}

// Compact shares what has not changed with origin, of which w is a clone.
func (w *World) Compact(origin *World) {
	for i, s := range w.steps {
		if was := origin.At(s.Ord); was != nil && !w.touched[s.Ord] {
			w.steps[i] = was
			continue
		}
		own := *s
		w.steps[i] = &own
	}
}

func (w *World) find(ord pawl.Ord) (int, bool) {
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

// All returns the steps by ord, in sight or not. The list must not be changed.
func (w *World) All() []*pawl.Step { return w.steps }

// At returns the step at ord, in sight or not, or nil.
func (w *World) At(ord pawl.Ord) *pawl.Step {
	if i, ok := w.find(ord); ok {
		return w.steps[i]
	}
	return nil
}

// Job returns the job.
func (w *World) Job() *pawl.Job { return &w.job }

// Step returns the step at ord, if it is in sight.
func (w *World) Step(ord pawl.Ord) (*pawl.Step, error) {
	if err := w.sight.Step(ord); err != nil {
		return nil, err
	}
	return w.At(ord), nil
}

// Steps calls f for every step in sight, in order.
func (w *World) Steps(f func(*pawl.Step)) {
	for _, s := range slices.Clone(w.steps) {
		if w.sight.Sees(s.Ord) {
			f(s)
		}
	}
}

// Open returns nil if every open step is in sight.
func (w *World) Open() error { return w.sight.Open() }

// Waiting returns the steps that wait for a slot.
func (w *World) Waiting() ([]pawl.Ord, error) { return w.sight.Waiting() }

// Make adds an instance.
func (w *World) Make(ord pawl.Ord) *pawl.Step {
	s := &pawl.Step{StepKey: pawl.StepKey{Job: w.job.Key(), Ord: ord}}
	s.State = lifecycle.StepPending
	i, _ := w.find(ord)
	w.steps = slices.Insert(w.steps, i, s)
	w.sight.Add(ord)
	w.touched[ord] = true
	return s
}

// Move applies an event to a step.
func (w *World) Move(s *pawl.Step, event machine.Event, note decide.Note) error {
	to, err := lifecycle.Step.Next(s.State, event)
	if err != nil {
		return fmt.Errorf("%s: %w", w.Definition.Key(s.Ord), err)
	}
	w.tell(entry{ord: s.Ord, from: s.State, to: to, event: event, why: note.Reason})
	s.State, s.UpdatedAt, w.touched[s.Ord] = to, w.Now, true
	return nil
}

// Fold does nothing: a rehearsal keeps no digests.
func (w *World) Fold(*pawl.Step) {}

// MoveJob applies an event to the job.
func (w *World) MoveJob(event machine.Event, note decide.Note) error {
	to, err := lifecycle.Job.Next(w.job.State, event)
	if err != nil {
		return err
	}
	w.tell(entry{from: w.job.State, to: to, event: event, why: note.Reason})
	w.job.State = to
	return nil
}

// Save records that a step has changed.
func (w *World) Save(s *pawl.Step) { w.touched[s.Ord] = true }

// SaveJob does nothing: the job is changed in place.
func (w *World) SaveJob() {}

// Parent returns the step that waits for the job, if it is a child.
func (w *World) Parent() (*pawl.Step, error) {
	if w.ParentJob == nil {
		return nil, nil
	}
	return w.ParentJob.At(w.ParentStep), w.sight.Parent()
}

// Spawn makes a child job.
func (w *World) Spawn(s *pawl.Step, child *workflow.Born) (string, error) {
	if w.SpawnChild == nil {
		return "", nil
	}
	return w.SpawnChild(w, s, child)
}

// Signals returns those that no step has taken.
func (w *World) Signals() ([]*pawl.Signal, error) { return w.signals, w.sight.Signals() }

// Take gives a signal to a step.
func (w *World) Take(signal *pawl.Signal, s *pawl.Step) {
	w.signals = slices.DeleteFunc(slices.Clone(w.signals), func(other *pawl.Signal) bool { return other == signal })
	w.touched[s.Ord] = true
}

func (w *World) decision(reads decide.ReadSet, a decide.Answers) *decide.Decision {
	w.sight = reads.Sight(w.steps)
	return &decide.Decision{Definition: w.Definition, JobTx: w, Now: w.Now, Jitter: w.Jitter, Answers: a}
}

// do runs one decision and everything that follows from it by itself.
func (w *World) do(reads decide.ReadSet, f func(*decide.Decision) error) error {
	d := w.decision(reads, decide.Answers{})
	if err := f(d); err != nil {
		return err
	}
	if err := d.Refill(); err != nil {
		return err
	}
	return w.settle()
}

// Start starts the job.
func (w *World) Start() error {
	if err := w.decision(decide.StartReads(w.Definition, &w.job), decide.Answers{}).Start(decide.Note{}); err != nil {
		return err
	}
	return w.settle()
}

// Claim gives an enqueued step to a worker. See Render.
func (w *World) Claim(s *pawl.Step, worker *pawl.Worker) error {
	return w.decision(decide.StepReads(s.Ord), decide.Answers{}).Claim(s, worker)
}

// Report ends an attempt of a step.
func (w *World) Report(s *pawl.Step, r decide.Report) error {
	return w.do(decide.ReportReads(w.Definition, s.Ord, w.job.WorkerCount), func(d *decide.Decision) error { return d.Report(s, r) })
}

// Fire applies the deadline of a step.
func (w *World) Fire(s *pawl.Step) error {
	return w.do(decide.FireReads(w.Definition, s.Ord, w.job.WorkerCount), func(d *decide.Decision) error { return d.Fire(s) })
}

// Cancel cancels the job.
func (w *World) Cancel(reason string) error {
	return w.stop(func(d *decide.Decision) error { return d.Cancel(decide.Note{Reason: reason}) })
}

// TimeOut applies the deadline of the job.
func (w *World) TimeOut() error { return w.stop((*decide.Decision).TimeOut) }

func (w *World) stop(f func(*decide.Decision) error) error {
	if err := f(w.decision(decide.CancelReads(), decide.Answers{})); err != nil {
		return err
	}
	return w.settle()
}

// Approve approves an approval, with the values of its form.
func (w *World) Approve(s *pawl.Step, form json.RawMessage, note decide.Note) error {
	return w.do(decide.OperateReads(s.Ord), func(d *decide.Decision) error { return d.Approve(s, form, note) })
}

// Reject rejects an approval.
func (w *World) Reject(s *pawl.Step, note decide.Note) error {
	return w.do(decide.OperateReads(s.Ord), func(d *decide.Decision) error { return d.Reject(s, note) })
}

// EndChild ends the child job that the step at ord waits for. A step has one end.
func (w *World) EndChild(ord pawl.Ord, end decide.ChildEnd) error {
	s := w.At(ord)
	w.ends[ord] = end
	s.Mark = pawl.Attention
	w.Save(s)
	return w.settle()
}

// ChildEnded reports whether EndChild was called for a step.
func (w *World) ChildEnded(ord pawl.Ord) bool {
	_, ended := w.ends[ord]
	return ended
}

// Send stores a signal, which the running job takes at once if a step waits for it.
func (w *World) Send(signal *pawl.Signal) error {
	w.signals = append(w.signals, signal)
	if w.job.State != lifecycle.JobRunning {
		return nil
	}
	w.job.MarkNow()
	return w.settle()
}

// Ended reports whether the job has ended.
func (w *World) Ended() bool { return lifecycle.Job.Ended(w.job.State) }

// maxRounds bounds how often settle evaluates marks.
const maxRounds = 10_000

// settle evaluates marked steps until none is left that can be.
func (w *World) settle() error {
	for range maxRounds {
		answers, any, err := w.answers()
		if err != nil || !any {
			return err
		}
		d := w.decision(decide.EvaluateReads(w.Definition, &w.job, w.listeners(), &answers), answers)
		if err := d.Evaluate(); err != nil {
			return err
		}
		if err := d.Refill(); err != nil {
			return err
		}
	}
	return fmt.Errorf("the marks of job %s do not come to rest", w.Definition.Name)
}

// listeners returns the steps that wait for a signal.
func (w *World) listeners() (ords []pawl.Ord) {
	for _, s := range w.steps {
		if s.State == lifecycle.StepInProgress && !w.IsFan(s) && w.Definition.Node(s.Ord.Node()).Kind == workflow.KindEvent {
			ords = append(ords, s.Ord)
		}
	}
	return ords
}

// waitsForChild reports whether s waits for a child job.
func (w *World) waitsForChild(s *pawl.Step) bool {
	return w.Definition.Node(s.Ord.Node()).Kind == workflow.KindWorkflow && !w.IsFan(s) && s.State == lifecycle.StepInProgress
}

// IsFan reports whether s is the node of a fan-out, and not an instance.
func (w *World) IsFan(s *pawl.Step) bool {
	return s.Ord.Instance() == 0 && w.Definition.Node(s.Ord.Node()).Fans()
}

// Check returns which invariant of a job is broken, or nil.
func (w *World) Check() error {
	active := 0
	for _, s := range w.steps {
		held := s.State == lifecycle.StepEnqueued || s.State == lifecycle.StepInProgress && s.Worker != 0
		if held {
			active++
		}
		if w.Ended() && !lifecycle.Step.Ended(s.State) {
			return fmt.Errorf("job %s is %s, and its step %s is %s", w.Definition.Name, w.job.State, w.Definition.Key(s.Ord), s.State)
		}
	}
	switch {
	case active != w.job.Active:
		return fmt.Errorf("job %s counts %d active steps, and there are %d", w.Definition.Name, w.job.Active, active)
	case active > w.job.WorkerCount:
		return fmt.Errorf("job %s has %d active steps; at most %d are allowed", w.Definition.Name, active, w.job.WorkerCount)
	}
	return nil
}
