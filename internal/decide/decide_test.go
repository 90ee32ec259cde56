package decide_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A trial is one job in memory: what a store would hold of it, and its trail.
// A decision sees exactly what its read set brings.
type trial struct {
	def   *workflow.Definition
	judge judge
	job   pawl.Job
	steps map[pawl.Ord]*pawl.Step
	ords  []pawl.Ord // of steps, ascending
	trail []move
	now   int64

	parent   *pawl.Step // of a child job: the step that waits for it
	children map[pawl.Ord]*child
	signals  []*pawl.Signal
	leaves   func(*pawl.Step) bool // what workers leave in the queue

	length map[pawl.Ord]int                                      // of the trails of steps
	folded map[pawl.Ord]int                                      // how long they were when they were counted out
	narrow func(command string, r decide.ReadSet) decide.ReadSet // of what a command asks for; nil: all of it
}

// A child is the child job of a step.
type child struct {
	end   *decide.ChildEnd // nil while it runs
	asked bool             // to be cancelled
}

// A judge returns the values of expressions.
type judge interface {
	start(pawl.Ord) decide.StartAnswer
	gather(pawl.Ord) decide.GatherAnswer
	output() *decide.GatherAnswer
}

// A move is one row of the trail.
type move struct {
	ord      pawl.Ord // 0: the job
	from, to machine.State
	event    machine.Event
	note     decide.Note
}

var trialWorker = pawl.Worker{ID: pawl.MakeID(time.Unix(1767225600, 0), 7, 7)}

// newTrial submits a job.
func newTrial(def *workflow.Definition, j judge) *trial {
	w := &trial{def: def, judge: j, now: 1767225600e6, steps: make(map[pawl.Ord]*pawl.Step), children: make(map[pawl.Ord]*child),
		length: make(map[pawl.Ord]int), folded: make(map[pawl.Ord]int)}
	w.job = pawl.Job{ID: pawl.MakeID(time.Unix(1767225600, 0), 1, 1), WorkerCount: def.Workers, Open: len(def.Nodes) - len(def.Hooks)}
	w.job.State = lifecycle.JobPending
	w.trail = []move{{event: lifecycle.JobSubmit, to: lifecycle.JobSubmitted}, {event: lifecycle.JobValidate, from: lifecycle.JobSubmitted, to: lifecycle.JobPending}}
	for n := range def.Nodes {
		ord := pawl.MakeOrd(n+1, 0)
		s := &pawl.Step{StepKey: pawl.StepKey{Job: w.job.Key(), Ord: ord}, Unmet: len(def.Nodes[n].Needs)}
		s.State = lifecycle.StepPending
		w.steps[ord], w.ords = s, append(w.ords, ord)
		w.trail = append(w.trail, move{ord: ord, event: lifecycle.StepCreate, to: lifecycle.StepPending})
		w.length[ord]++
	}
	return w
}

// A desk is the JobTx of one transaction. It holds copies without their bodies,
// as the store reads them, and only of the steps in sight.
type desk struct {
	of       *trial
	sight    *decide.Sight
	job      pawl.Job
	unlocked bool // Job returns nil, and the job must not change
	jobSaved bool
	steps    []*pawl.Step // in the order in which they came into sight
	saved    map[pawl.Ord]bool
	moves    []move
	fault    error // of how the desk was used

	parent   *pawl.Step // nil: there is none
	children []pawl.Ord // that were made
	taken    map[*pawl.Signal]pawl.Ord
	folded   map[pawl.Ord]int
}

var _ decide.JobTx = (*desk)(nil)

// desk returns the JobTx of a command that asks for what is in reads.
func (w *trial) desk(command string, reads ...decide.ReadSet) *desk {
	r := merge(reads...)
	if w.narrow != nil {
		r = w.narrow(command, r)
	}
	b := &desk{of: w, job: w.job, saved: make(map[pawl.Ord]bool), taken: make(map[*pawl.Signal]pawl.Ord), folded: make(map[pawl.Ord]int)}
	if w.parent != nil {
		c := *w.parent
		b.parent = &c
	}
	b.job.Output, b.job.Error = nil, nil
	all := make([]*pawl.Step, len(w.ords))
	for i, ord := range w.ords {
		all[i] = w.steps[ord]
	}
	b.sight = r.Sight(all)
	for _, s := range all {
		if b.sight.Sees(s.Ord) {
			c := *s
			c.Input, c.Output, c.Error = nil, nil, nil
			b.steps = append(b.steps, &c)
		}
	}
	return b
}

// merge returns what several commands of one transaction ask for.
func merge(reads ...decide.ReadSet) (all decide.ReadSet) {
	for _, r := range reads {
		all.Steps = append(all.Steps, r.Steps...)
		all.Waiting = max(all.Waiting, r.Waiting)
		all.Nodes, all.Open = all.Nodes || r.Nodes, all.Open || r.Open
		all.Signals, all.Parent = all.Signals || r.Signals, all.Parent || r.Parent
	}
	return all
}

func (b *desk) Job() *pawl.Job {
	if b.unlocked {
		return nil
	}
	return &b.job
}

func (b *desk) Step(ord pawl.Ord) (*pawl.Step, error) {
	for _, s := range b.steps {
		if s.Ord == ord {
			return s, nil
		}
	}
	return nil, b.sight.Step(ord)
}

func (b *desk) Open() error                  { return b.sight.Open() }
func (b *desk) Waiting() ([]pawl.Ord, error) { return b.sight.Waiting() }

func (b *desk) Steps(f func(*pawl.Step)) {
	for _, s := range b.steps {
		f(s)
	}
}

func (b *desk) Make(ord pawl.Ord) *pawl.Step {
	if there, _ := b.Step(ord); b.of.steps[ord] != nil || there != nil {
		b.fault = fmt.Errorf("step %v is made twice", ord)
	}
	b.sight.Add(ord)
	s := &pawl.Step{StepKey: pawl.StepKey{Job: b.job.Key(), Ord: ord}}
	s.State = lifecycle.StepPending
	b.steps, b.saved[ord] = append(b.steps, s), true
	b.moves = append(b.moves, move{ord: ord, event: lifecycle.StepCreate, to: lifecycle.StepPending})
	return s
}

func (b *desk) Move(s *pawl.Step, event machine.Event, note decide.Note) error {
	to, err := lifecycle.Step.Next(s.State, event)
	if err != nil {
		return fmt.Errorf("%s: %w", b.of.def.Key(s.Ord), err)
	}
	b.moves = append(b.moves, move{ord: s.Ord, from: s.State, to: to, event: event, note: note})
	s.State, s.UpdatedAt, b.saved[s.Ord] = to, b.of.now, true
	return nil
}

func (b *desk) Fold(s *pawl.Step) {
	if b.unlocked {
		b.fault = fmt.Errorf("step %v is counted out of a job that is not locked", s.Ord)
	}
	if s.Ord.Instance() != 0 {
		if _, err := b.Step(s.Ord.Parent()); err != nil {
			b.fault = fmt.Errorf("step %v is counted out: %w", s.Ord, err)
		}
	}
	b.folded[s.Ord] = b.of.length[s.Ord]
	for _, m := range b.moves {
		if m.ord == s.Ord {
			b.folded[s.Ord]++
		}
	}
}

func (b *desk) MoveJob(event machine.Event, note decide.Note) error {
	to, err := lifecycle.Job.Next(b.job.State, event)
	if err != nil {
		return err
	}
	b.moves = append(b.moves, move{from: b.job.State, to: to, event: event, note: note})
	b.job.State, b.jobSaved = to, true
	return nil
}

func (b *desk) Save(s *pawl.Step) {
	if s != b.parent {
		b.saved[s.Ord] = true
	}
}
func (b *desk) SaveJob() { b.jobSaved = true }

func (b *desk) Parent() (*pawl.Step, error) {
	if b.job.Parent == 0 {
		return nil, nil
	}
	return b.parent, b.sight.Parent()
}

func (b *desk) Spawn(s *pawl.Step, _ *workflow.Born) (string, error) {
	if b.of.children[s.Ord] != nil || slices.Contains(b.children, s.Ord) {
		b.fault = fmt.Errorf("step %v has two child jobs", s.Ord)
	}
	b.children = append(b.children, s.Ord)
	return fmt.Sprintf("j_%d", s.Ord), nil
}

func (b *desk) Signals() ([]*pawl.Signal, error) {
	var free []*pawl.Signal
	for _, s := range b.of.signals {
		if s.Taken == 0 && b.taken[s] == 0 {
			free = append(free, s)
		}
	}
	return free, b.sight.Signals()
}

func (b *desk) Take(signal *pawl.Signal, s *pawl.Step) { b.taken[signal] = s.Ord }

// commit writes what was saved. A change that was not saved, or of a job that is
// not locked, is a fault.
func (b *desk) commit() error {
	if b.fault != nil {
		return b.fault
	}
	if !b.jobSaved && jobRow(&b.job) != jobRow(&b.of.job) {
		return fmt.Errorf("the job was changed and not saved: %+v, was %+v", jobRow(&b.job), jobRow(&b.of.job))
	}
	for _, s := range b.steps {
		if err := b.write(s); err != nil {
			return err
		}
	}
	output, failure := b.of.job.Output, b.of.job.Error
	if b.jobSaved {
		b.of.job = b.job
		keep(&b.of.job.Output, output)
		if b.job.Error == nil {
			b.of.job.Error = failure
		}
	}
	b.of.trail = append(b.of.trail, b.moves...)
	for _, m := range b.moves {
		b.of.length[m.ord]++
	}
	maps.Copy(b.of.folded, b.folded)
	for _, ord := range b.children {
		b.of.children[ord] = &child{}
	}
	for signal, ord := range b.taken {
		signal.Taken = ord
	}
	if b.parent != nil {
		b.of.parent = b.parent
	}
	return nil
}

func (b *desk) write(s *pawl.Step) error {
	was := b.of.steps[s.Ord]
	if s.Mark == pawl.Waiting && (was == nil || was.Mark != pawl.Waiting) && !b.jobSaved {
		return fmt.Errorf("%s waits from now on, and its job was not saved", b.of.def.Key(s.Ord))
	}
	switch {
	case was == nil:
		b.of.ords = append(b.of.ords, s.Ord)
		slices.Sort(b.of.ords)
	case !b.saved[s.Ord] && stepRow(s) != stepRow(was):
		return fmt.Errorf("%s was changed and not saved: %+v, was %+v", b.of.def.Key(s.Ord), stepRow(s), stepRow(was))
	case !b.saved[s.Ord]:
		return nil
	default:
		keep(&s.Input, was.Input)
		keep(&s.Output, was.Output)
		if s.Error == nil {
			s.Error = was.Error
		}
	}
	b.of.steps[s.Ord] = s
	return nil
}

// keep lets a body that is nil stay what it was.
func keep(body *json.RawMessage, was json.RawMessage) {
	if *body == nil {
		*body = was
	}
}

// A row is what can be compared of a record.
type row struct {
	pawl.Record
	ending                                             machine.State
	mark                                               pawl.Mark
	skipped                                            bool
	unmet, attempts, claims, losses, total, made, live int
	worker                                             rowkey.Worker
	route                                              rowkey.Route
	enqueuedAt, startedAt, completedAt                 int64
	open, active, blocked                              int
	paused                                             bool
	hooks                                              pawl.HookPhase
}

func stepRow(s *pawl.Step) row {
	return row{Record: s.Record, mark: s.Mark, skipped: s.Skipped, unmet: s.Unmet, attempts: s.Attempts, claims: s.Claims,
		losses: s.Losses, total: s.Total, made: s.Made, live: s.Live, worker: s.Worker, route: s.Route,
		enqueuedAt: s.EnqueuedAt, startedAt: s.StartedAt, completedAt: s.CompletedAt}
}

func jobRow(j *pawl.Job) row {
	return row{Record: j.Record, mark: j.Mark, ending: j.Ending, open: j.Open, active: j.Active, blocked: j.Blocked, paused: j.Paused, hooks: j.Hooks, startedAt: j.StartedAt, completedAt: j.CompletedAt}
}

// do runs one transaction.
func (w *trial) do(b *desk, answers decide.Answers, f func(*decide.Decision) error) error {
	d := &decide.Decision{Definition: w.def, JobTx: b, Now: w.now, Jitter: func() float64 { return 0.5 }, Answers: answers}
	if err := f(d); err != nil {
		return err
	}
	return b.commit()
}

// blindly stores an outcome without the job and its definition, as who does not
// know them does.
func (b *desk) blindly(s *pawl.Step, r decide.Report) error {
	saved := b.jobSaved
	b.unlocked, b.jobSaved = true, false
	defer func() { b.unlocked, b.jobSaved = false, saved }()
	err := (&decide.Decision{JobTx: b, Now: b.of.now}).Report(s, r)
	if err == nil && b.jobSaved {
		err = fmt.Errorf("the job was changed without its lock")
	}
	return err
}

// selected returns the places of the steps for which f holds, ascending.
func (w *trial) selected(f func(*pawl.Step) bool) []pawl.Ord {
	var ords []pawl.Ord
	for _, ord := range w.ords {
		if f(w.steps[ord]) {
			ords = append(ords, ord)
		}
	}
	return ords
}

func isOpen(s *pawl.Step) bool     { return !lifecycle.Step.Ended(s.State) }
func isMarked(s *pawl.Step) bool   { return s.Mark == pawl.Attention }
func isBlocked(s *pawl.Step) bool  { return s.Mark == pawl.Blocked }
func isWeighed(s *pawl.Step) bool  { return !isOpen(s) && !isMarked(s) }
func isEnqueued(s *pawl.Step) bool { return s.State == lifecycle.StepEnqueued }

// isFan reports whether s is the node of a fan-out.
func (w *trial) isFan(s *pawl.Step) bool {
	return s.Ord.Instance() == 0 && w.def.Node(s.Ord.Node()).Fans()
}

// waits reports whether s waits for something else than a worker.
func (w *trial) waits(s *pawl.Step) bool {
	return w.def.Node(s.Ord.Node()).Kind.Waits() && !w.isFan(s)
}

func (w *trial) isHook(s *pawl.Step) bool {
	return w.def.Node(s.Ord.Node()).Hook != workflow.NoHook
}

// isRunning reports whether a worker holds s.
func (w *trial) isRunning(s *pawl.Step) bool {
	return s.State == lifecycle.StepInProgress && !w.isFan(s) && !w.waits(s)
}

func (w *trial) start() error {
	return w.do(w.desk("start", decide.StartReads(w.def, &w.job)), decide.Answers{}, func(d *decide.Decision) error { return d.Start(decide.Note{}) })
}

// claim takes enqueued steps, with the job not locked.
func (w *trial) claim(ords ...pawl.Ord) error {
	var reads []decide.ReadSet
	for _, ord := range ords {
		reads = append(reads, decide.StepReads(ord))
	}
	b := w.desk("claim", reads...)
	return w.do(b, decide.Answers{}, func(d *decide.Decision) error {
		for _, ord := range ords {
			s, err := b.Step(ord)
			if err == nil {
				err = d.Claim(s, &trialWorker)
			}
			if err != nil {
				return err
			}
		}
		if b.jobSaved || jobRow(&b.job) != jobRow(&w.job) {
			return fmt.Errorf("a claim changed the job")
		}
		return nil
	})
}

// An outcome is a report of a step, by an engine that has the job in memory or,
// if blind, has not.
type outcome struct {
	ord   pawl.Ord
	blind bool
	decide.Report
}

// report is an exchange of a worker: outcomes and, if it takes more, what is
// enqueued in sight, in one transaction.
func (w *trial) report(take bool, outcomes ...outcome) error {
	var reads []decide.ReadSet
	for _, o := range outcomes {
		if o.blind {
			reads = append(reads, decide.StepReads(o.ord))
		} else {
			reads = append(reads, decide.ReportReads(w.def, o.ord, w.job.WorkerCount))
		}
	}
	b := w.desk("report", reads...)
	return w.do(b, decide.Answers{}, func(d *decide.Decision) error {
		for _, o := range outcomes {
			if err := b.report(d, o); err != nil {
				return err
			}
		}
		for _, s := range slices.Clone(b.steps) {
			if take && isEnqueued(s) && (w.leaves == nil || !w.leaves(s)) {
				if err := d.Claim(s, &trialWorker); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func (b *desk) report(d *decide.Decision, o outcome) error {
	s, err := b.Step(o.ord)
	switch {
	case err != nil || s.State != lifecycle.StepInProgress:
		return err // or too late: an earlier one had it cancelled
	case o.blind:
		return b.blindly(s, o.Report)
	}
	if err := d.Report(s, o.Report); err != nil {
		return err
	}
	return d.Refill()
}

// lose takes a step from a dead worker, with the job not locked.
func (w *trial) lose(ord pawl.Ord) error {
	b := w.desk("lose", decide.StepReads(ord))
	f := &pawl.Failure{Class: "lost", Message: "its worker ended"}
	return w.do(b, decide.Answers{}, func(*decide.Decision) error {
		s, err := b.Step(ord)
		if err != nil {
			return err
		}
		return b.blindly(s, decide.Report{Event: lifecycle.StepLost, Failure: f})
	})
}

// An attendance is what was read and evaluated before the transaction.
type attendance struct {
	reads   decide.ReadSet
	answers decide.Answers
}

// maxMarked is how many marked steps one attendance takes.
const maxMarked = 500

// prepare returns nil if nothing is marked.
func (w *trial) prepare() *attendance {
	marked := w.selected(isMarked)
	marked = marked[:min(len(marked), maxMarked)]
	if len(marked) == 0 && w.job.Mark != pawl.Attention {
		return nil
	}
	a := &attendance{answers: decide.Answers{Marked: marked, Starts: make(map[pawl.Ord]decide.StartAnswer), Gathers: make(map[pawl.Ord]decide.GatherAnswer),
		Errors: make(map[pawl.Ord]*pawl.Failure), Ends: make(map[pawl.Ord]decide.ChildEnd)}}
	for _, ord := range marked {
		a.step(w, w.steps[ord])
	}
	var listeners []pawl.Ord
	if w.job.Mark == pawl.Attention {
		listeners = w.listeners()
		if n := len(w.signals); n > 0 {
			a.answers.Heard = w.signals[n-1].Seq
		}
		if a.answers.Ending = w.job.Open == 0; a.answers.Ending && w.job.Ending == "" {
			a.answers.Output = w.judge.output()
		}
	}
	a.reads = decide.EvaluateReads(w.def, &w.job, listeners, &a.answers)
	return a
}

// listeners returns the steps that wait for a signal.
func (w *trial) listeners() []pawl.Ord {
	return w.selected(func(s *pawl.Step) bool {
		return w.waits(s) && s.State == lifecycle.StepInProgress && w.def.Node(s.Ord.Node()).Kind == workflow.KindEvent
	})
}

func (a *attendance) step(w *trial, s *pawl.Step) {
	switch {
	case s.State == lifecycle.StepPending && s.Unmet == 0 && s.Claims == 0:
		a.answers.Starts[s.Ord] = w.judge.start(s.Ord)
	case s.State == lifecycle.StepInProgress && w.isFan(s):
		if s.DueEvent == lifecycle.StepFailPermanently {
			a.answers.Errors[s.Ord] = s.Error
		} else if s.Made == s.Total && s.Live == 0 {
			a.answers.Gathers[s.Ord] = w.judge.gather(s.Ord)
		}
	case s.State == lifecycle.StepInProgress && w.def.Node(s.Ord.Node()).Kind == workflow.KindWorkflow:
		c := w.children[s.Ord]
		if c.end != nil {
			a.answers.Ends[s.Ord] = *c.end
		} else if s.DueEvent == lifecycle.StepCancel {
			c.asked = true
		}
	case s.State == lifecycle.StepPermanentError || s.State == lifecycle.StepRetryableError && decide.Exhausted(w.def, s) != "":
		a.answers.Errors[s.Ord] = s.Error
	}
}

func (w *trial) attend(a *attendance) error {
	return w.do(w.desk("attend", a.reads), a.answers, func(d *decide.Decision) error {
		if err := d.Evaluate(); err != nil {
			return err
		}
		return d.Refill()
	})
}

// fire applies the deadline of a step.
func (w *trial) fire(ord pawl.Ord) error {
	b := w.desk("fire", decide.FireReads(w.def, ord, w.job.WorkerCount))
	return w.do(b, decide.Answers{}, func(d *decide.Decision) error {
		s, err := b.Step(ord)
		if err != nil {
			return err
		}
		if err := d.Fire(s); err != nil {
			return err
		}
		return d.Refill()
	})
}

func (w *trial) cancel(reason string) error {
	return w.do(w.desk("cancel", decide.CancelReads()), decide.Answers{}, func(d *decide.Decision) error {
		return d.Cancel(decide.Note{Reason: reason})
	})
}

func (w *trial) timeOut() error {
	return w.do(w.desk("cancel", decide.CancelReads()), decide.Answers{}, (*decide.Decision).TimeOut)
}

// operate is what an operator does to the step at ord, or to the job if that is 0.
func (w *trial) operate(ord pawl.Ord, do func(d *decide.Decision, s *pawl.Step) error) error {
	b := w.desk("operate", decide.OperateReads(ord))
	return w.do(b, decide.Answers{}, func(d *decide.Decision) error {
		var s *pawl.Step
		if ord != 0 {
			var err error
			if s, err = b.Step(ord); err != nil {
				return err
			}
		}
		if err := do(d, s); err != nil {
			return err
		}
		return d.Refill()
	})
}

// pause keeps anything new from being enqueued, and resume ends that.
func (w *trial) pause(paused bool) error {
	return w.operate(0, func(d *decide.Decision, _ *pawl.Step) error {
		if paused {
			return d.Pause(decide.Note{})
		}
		return d.Resume(decide.Note{})
	})
}

// signal sends an event to the job.
func (w *trial) signal(name, data string) error {
	if _, err := lifecycle.Job.Next(w.job.State, lifecycle.JobSignal); err != nil {
		return err
	}
	w.signals = append(w.signals, &pawl.Signal{Seq: int64(len(w.signals) + 1), Name: name, Data: json.RawMessage(data), Actor: "ann"})
	w.trail = append(w.trail, move{from: w.job.State, to: w.job.State, event: lifecycle.JobSignal})
	if w.job.State == lifecycle.JobRunning {
		w.job.Mark = pawl.Attention
	}
	return nil
}

// endChild ends the child job of a step, which marks the step.
func (w *trial) endChild(ord pawl.Ord, end decide.ChildEnd) {
	w.children[ord].end = &end
	w.steps[ord].Mark = pawl.Attention
}

// due returns the steps with deadlines, earliest first.
func (w *trial) due() []pawl.Ord {
	ords := w.selected(func(s *pawl.Step) bool { return s.DueAt > 0 })
	slices.SortStableFunc(ords, func(a, b pawl.Ord) int { return cmp.Compare(w.steps[a].DueAt, w.steps[b].DueAt) })
	return ords
}

// stopping reports whether the end of the job has begun and cancels its steps.
func (w *trial) stopping() bool {
	if w.job.Hooks != pawl.HooksNotYet {
		return w.job.Hooks == pawl.HooksCancelled
	}
	return w.job.Ending == lifecycle.JobCanceled || w.job.Ending == lifecycle.JobFailed && w.def.OnError == workflow.Halt
}

type manyItems struct{ judge }

func (manyItems) start(pawl.Ord) decide.StartAnswer {
	return decide.StartAnswer{If: true, Count: decide.FanOutPage + 100}
}

// T7: a fan-out is made in pages; an unfinished one is marked until it is made.
func TestFanOutPages(t *testing.T) {
	t.Parallel()
	def := *shells(t)[0]
	def.Workers = 2 * decide.FanOutPage
	def.Nodes = []workflow.Node{{ID: "each", HasForeach: true}}
	w := newTrial(&def, manyItems{})
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	fan := pawl.MakeOrd(1, 0)
	for _, want := range []int{decide.FanOutPage, decide.FanOutPage + 100} {
		if err := w.attend(w.prepare()); err != nil {
			t.Fatal(err)
		}
		if s := w.steps[fan]; s.Made != want || s.Live != want || isMarked(s) != (want == decide.FanOutPage) {
			t.Errorf("made %d, live %d, mark %d, want %d of each", s.Made, s.Live, s.Mark, want)
		}
		if err := w.check(); err != nil {
			t.Error(err)
		}
	}
}

// K3, J2: cancelling a job that has ended, or is being cancelled, is a refusal
// that names the job.
func TestCancelRefused(t *testing.T) {
	t.Parallel()
	def := *shells(t)[0]
	def.Nodes = []workflow.Node{{ID: "a"}}
	w := newTrial(&def, nil)
	for i, do := range []func() error{w.start, func() error { return w.claim(pawl.MakeOrd(1, 0)) }, func() error { return w.cancel("first") }} {
		if err := do(); err != nil {
			t.Fatal(i, err)
		}
	}
	for _, when := range []string{"being cancelled", "canceled"} {
		if err := w.cancel("again"); pawl.KindOf(err) != pawl.Conflict || !strings.Contains(err.Error(), w.job.ID.Public(pawl.JobPrefix)) {
			t.Errorf("cancel of a job %s: %v, want a refusal that names it", when, err)
		}
		if when == "being cancelled" {
			if err := w.report(false, outcome{ord: pawl.MakeOrd(1, 0), Report: decide.Report{Event: lifecycle.StepCancel}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.replay(); err != nil || w.job.State != lifecycle.JobCanceled {
		t.Errorf("the job is %s: %v", w.job.State, err)
	}
}
