package decide

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Limits of a decision.
const (
	FanOutPage  = 500              // instances made in one commit
	MaxLosses   = 3                // deaths of its worker at which a step is given up (T7)
	CancelGrace = 10 * time.Second // after it a cancelled step ends without its worker (T1)
	StopGrace   = 10 * time.Second // what a worker has to stop a timed-out step before the engine does
)

// A JobTx is one job as a decision sees and moves it. The package that commits the
// moves implements it. A record that a decision changes without a move is passed to
// Save; a move saves its record, too.
//
// Reading what was not asked for (ReadSet) returns a *NotAskedError. What was asked for
// and does not exist is nil, without an error.
type JobTx interface {
	Job() *pawl.Job                    // nil: the job is not locked, and outcomes are stored with a mark
	Step(pawl.Ord) (*pawl.Step, error) // nil, nil: there is none
	Steps(func(*pawl.Step))            // all in sight, in any order
	Open() error                       // nil: every step that has not ended is in sight
	Waiting() ([]pawl.Ord, error)      // the steps that wait for a slot, in the order in which they get one
	Parent() (*pawl.Step, error)       // the step of the parent job that waits for this job; nil, nil: there is none
	Signals() ([]*pawl.Signal, error)  // those that no step has taken, oldest first

	Make(pawl.Ord) *pawl.Step // a new step, pending
	Move(*pawl.Step, machine.Event, Note) error
	MoveJob(machine.Event, Note) error
	// Fold counts a step out of its job, or an instance out of its fan-out. The trail
	// of the step ends there, unless a later move counts it out again.
	Fold(*pawl.Step)
	Save(*pawl.Step)
	SaveJob()

	// Spawn makes the child job that s waits for, and returns its public id.
	Spawn(s *pawl.Step, child *workflow.Born) (id string, err error)
	// Take gives a signal to a step.
	Take(*pawl.Signal, *pawl.Step)
}

// A Note is what an audit entry says besides the move itself.
type Note struct {
	Reason    string
	Actor     string // empty: the engine
	RequestID string
	Metadata  []byte // compact JSON object, or nil

	// Payload, which is sealed in the entry and not part of it. Output of a program,
	// and errors, belong only here.
	Failure *pawl.Failure   // kept beside the entry
	Data    json.RawMessage // of a signal
}

// A Decision decides the consequences of what happened to one job. It has no clock, no
// I/O and no randomness. Its work is proportional to what changed: it reads the
// outcome, the steps that depend on it, and the job's counters, never the whole graph.
//
// If it needs an expression evaluated first, or something that is out of sight
// (ReadSet), it leaves a mark (pawl.Attention), and Evaluate decides again.
type Decision struct {
	Definition *workflow.Definition
	JobTx      JobTx
	Now        int64          // microseconds
	Jitter     func() float64 // in [0,1)
	Answers    Answers
}

// Answers are what was evaluated outside the transaction.
type Answers struct {
	Marked  []pawl.Ord                 // the marked steps that they concern, ascending
	Starts  map[pawl.Ord]StartAnswer   // of marked steps that are pending
	Gathers map[pawl.Ord]GatherAnswer  // of marked fan-outs whose instances have ended
	Errors  map[pawl.Ord]*pawl.Failure // of marked steps that have failed for good, or are going to
	Ends    map[pawl.Ord]ChildEnd      // of marked steps whose child job has ended
	Lives   map[pawl.Ord]bool          // the marked steps whose child job has not, and is locked
	Waits   map[pawl.Ord]pawl.Wait     // what approvals wait for
	Heard   int64                      // the Seq of the last signal whose listeners were brought into sight
	Ending  bool                       // no node is open: what the end of the job needs was asked for
	Output  *GatherAnswer              // of the job
}

// A StartAnswer has the values of `if` and `foreach` of a step, or what the step is
// going to wait for.
type StartAnswer struct {
	If      bool
	Items   json.RawMessage   // a list
	Count   int               // of Items
	Waiting *workflow.Waiting // of a step that waits, or an instance of it
	Reused  json.RawMessage   // the output of the job that this one continues: there is nothing to wait for
	Failure *pawl.Failure     // an expression failed
}

// A ChildEnd is how a child job ended.
type ChildEnd struct {
	Output  json.RawMessage
	Failure *pawl.Failure // nil if it is COMPLETED
}

// A GatherAnswer is an output, or why there is none.
type GatherAnswer struct {
	Output  json.RawMessage
	Failure *pawl.Failure
}

// A Report is the outcome of a claim (T3, T6).
type Report struct {
	Event   machine.Event // success, fail, fail_permanently, timeout, interrupt, cancel, lost
	Output  json.RawMessage
	Failure *pawl.Failure
	Snooze  time.Duration // of an interrupt that the handler asked for: how long the step waits at least; 0: not at all
	Note    Note
}

func (d *Decision) job() *pawl.Job { return d.JobTx.Job() }

func (d *Decision) node(ord pawl.Ord) *workflow.Node { return &d.Definition.Nodes[ord.Node()-1] }

// isFan reports whether s is the node of a fan-out, and not an instance.
func (d *Decision) isFan(s *pawl.Step) bool {
	return s.Ord.Instance() == 0 && d.node(s.Ord).Fans()
}

// waits reports whether s waits for something other than a worker.
func (d *Decision) waits(s *pawl.Step) bool { return d.node(s.Ord).Kind.Waits() && !d.isFan(s) }

// stopping reports whether the job's end has begun and nothing new may start;
// hooks still do.
func (d *Decision) stopping() bool {
	j := d.job()
	if j.Hooks != pawl.HooksNotYet {
		return j.Hooks == pawl.HooksCancelled
	}
	return j.Ending == lifecycle.JobCanceled || j.Ending == lifecycle.JobFailed && d.Definition.OnError == workflow.Halt
}

// Start moves a pending job to RUNNING and starts the steps without needs. In a job
// that continues another, these are the steps whose needs have results already (J2,
// T2).
func (d *Decision) Start(note Note) error {
	j := d.job()
	first, err := d.first()
	if err != nil {
		return err
	}
	if err := d.JobTx.MoveJob(lifecycle.JobAllocateResources, note); err != nil {
		return err
	}
	j.StartedAt = d.Now
	if d.Definition.Timeout > 0 {
		j.DueAt, j.DueEvent = d.Now+d.Definition.Timeout.Microseconds(), lifecycle.JobCancel
	}
	for _, s := range first {
		if err := d.begin(s); err != nil {
			return err
		}
	}
	return d.finish()
}

// first returns the steps with which the job starts.
func (d *Decision) first() (steps []*pawl.Step, err error) {
	for n := range d.Definition.Nodes {
		node := &d.Definition.Nodes[n]
		if node.Hook != workflow.NoHook || len(node.Needs) > 0 && d.job().Continues == 0 {
			continue
		}
		s, err := d.nodeStep(n + 1)
		if err != nil {
			return nil, err
		}
		if s.State == lifecycle.StepPending && s.Unmet == 0 { // else it has its result, or the job has moved and left it behind
			steps = append(steps, s)
		}
	}
	return steps, nil
}

// begin starts a step whose needs are met: it skips it, fans it out, or enqueues it. If
// that needs an expression, or steps out of sight, it marks the step.
func (d *Decision) begin(s *pawl.Step) error {
	if d.stopping() {
		return d.cancel(s, Note{Reason: "the job is ending"})
	}
	if !d.hasIf(s) && s.Skipped {
		return d.skip(s, "a step it needs was skipped")
	}
	answer, ok := d.Answers.Starts[s.Ord]
	switch {
	case !ok && d.asks(s):
		return d.mark(s)
	case answer.Failure != nil:
		return d.failHere(s, answer.Failure)
	case d.hasIf(s) && !answer.If:
		return d.skip(s, "its condition is false")
	case d.isFan(s):
		return d.fan(s, answer)
	case d.waits(s):
		return d.wait(s, answer)
	}
	return d.enqueue(s)
}

// asks reports whether s cannot be started before something is evaluated.
func (d *Decision) asks(s *pawl.Step) bool {
	return d.hasIf(s) || d.isFan(s) && d.node(s.Ord).HasForeach || d.waits(s)
}

// hasIf reports whether s has a condition. Instances have none of their own.
func (d *Decision) hasIf(s *pawl.Step) bool { return d.node(s.Ord).HasIf && s.Ord.Instance() == 0 }

// mark leaves a step for the evaluator.
func (d *Decision) mark(s *pawl.Step) error {
	s.MarkNow()
	d.JobTx.Save(s)
	return nil
}

// enqueue dispatches a step, or lets it wait for a slot of its job (T2, J7).
func (d *Decision) enqueue(s *pawl.Step) error {
	j, n := d.job(), d.node(s.Ord)
	s.Priority = j.Priority + n.Priority
	if j.Paused || j.Active >= j.WorkerCount {
		d.awaitSlot(s)
		return nil
	}
	j.Active++
	d.JobTx.SaveJob()
	s.Mark, s.Route, s.EnqueuedAt = pawl.Clear, d.route(s), d.Now
	s.Rank = pawl.RankAt(d.Now, s.Priority)
	s.DueAt, s.DueEvent = 0, ""
	if n.QueueTimeout > 0 {
		s.DueAt, s.DueEvent = d.Now+n.QueueTimeout.Microseconds(), lifecycle.StepQueueTimeout
	}
	return d.JobTx.Move(s, lifecycle.StepEnqueue, Note{})
}

// awaitSlot lets a step wait for a slot of its job. The job is saved, too: a store may know which of
// its steps wait, as long as the job's row has not changed.
func (d *Decision) awaitSlot(s *pawl.Step) {
	s.Mark = pawl.Waiting
	d.JobTx.Save(s)
	d.JobTx.SaveJob()
}

func (d *Decision) route(s *pawl.Step) rowkey.Route {
	return Route(d.Definition, d.job(), s.Ord.Node())
}

// Route returns the route of a node's steps in the job.
func Route(d *workflow.Definition, j *pawl.Job, node int) rowkey.Route {
	n := &d.Nodes[node-1]
	queue := n.Queue
	if j.Private != 0 {
		queue = workflow.DefaultQueue // one process serves them all
	}
	return pawl.Route(j.Workspace, queue, n.Handler, j.Private)
}

// Claim gives an enqueued step to a worker (T3, T5). The claim number is the
// fence; the attempt is what retries count.
func (d *Decision) Claim(s *pawl.Step, worker *pawl.Worker) error {
	s.Claims++
	s.Attempts++
	s.Worker, s.StartedAt, s.Mark = worker.Key(), d.Now, pawl.Clear
	s.Rank = 0
	s.DueAt, s.DueEvent = 0, ""
	if t := d.node(s.Ord).Timeout; t > 0 {
		s.DueAt, s.DueEvent = d.Now+(t+StopGrace).Microseconds(), lifecycle.StepTimeout
	}
	return d.JobTx.Move(s, lifecycle.StepClaim, Note{Actor: worker.ID.Public(pawl.WorkerPrefix), Metadata: claimNote(s)})
}

func claimNote(s *pawl.Step) []byte {
	b := append(make([]byte, 0, 32), `{"attempt":`...)
	b = strconv.AppendInt(b, int64(s.Attempts), 10)
	b = append(b, `,"claim":`...)
	b = strconv.AppendInt(b, int64(s.Claims), 10)
	return append(b, '}')
}

// take makes the engine the owner of a pending step: it needs no worker and no
// slot (T1).
func (d *Decision) take(s *pawl.Step) error {
	s.Mark, s.Worker, s.EnqueuedAt, s.StartedAt = pawl.Clear, 0, d.Now, d.Now
	if err := d.JobTx.Move(s, lifecycle.StepEnqueue, Note{}); err != nil {
		return err
	}
	s.Claims++
	s.Attempts++
	return d.JobTx.Move(s, lifecycle.StepClaim, Note{Metadata: claimNote(s)})
}

// fan makes s the parent of its instances and makes the first of them.
func (d *Decision) fan(s *pawl.Step, answer StartAnswer) error {
	if err := d.take(s); err != nil {
		return err
	}
	s.Total, s.Input = answer.Count, answer.Items
	if n := d.node(s.Ord); !n.HasForeach {
		s.Total = n.Combinations()
	}
	d.JobTx.Save(s)
	if s.Total == 0 {
		return d.succeed(s, json.RawMessage("[]"))
	}
	return d.spread(s)
}

// spread makes as many instances of the fan-out p as its own limit, the job's
// slots and the size of a commit allow.
func (d *Decision) spread(p *pawl.Step) error {
	j, n := d.job(), d.node(p.Ord)
	p.Mark = pawl.Clear
	for made := 0; p.Made < p.Total && (n.Parallel == 0 || p.Live < n.Parallel); made++ {
		if j.Paused || j.Active >= j.WorkerCount && !n.Kind.Waits() {
			d.awaitSlot(p)
			break
		}
		if made == FanOutPage {
			p.MarkNow()
			break
		}
		p.Made++
		p.Live++
		instance := d.JobTx.Make(pawl.MakeOrd(p.Ord.Node(), p.Made))
		start := d.enqueue
		if n.Kind.Waits() {
			start = d.mark
		}
		if err := start(instance); err != nil {
			return err
		}
	}
	d.JobTx.Save(p)
	return nil
}

// Report stores the outcome of a claim and applies it. The caller has checked the
// fence.
func (d *Decision) Report(s *pawl.Step, r Report) error {
	event := r.Event
	if s.DueEvent == lifecycle.StepCancel && event != lifecycle.StepSuccess {
		event = lifecycle.StepCancel // it was asked to stop, and did
	}
	s.DueAt, s.DueEvent = 0, ""
	switch event {
	case lifecycle.StepSuccess:
		s.Output, s.CompletedAt = r.Output, d.Now
	case lifecycle.StepFailPermanently:
		s.Error, s.CompletedAt = permanent(r.Failure), d.Now
		if r.Failure != nil {
			r.Failure = s.Error
		}
	case lifecycle.StepCancel:
		s.Error, s.CompletedAt = r.Failure, d.Now
	case lifecycle.StepQueueTimeout:
		s.Attempts++     // as if it had failed; otherwise it would be tried for ever
		s.Worker = 0     // and it holds no slot any more
		d.job().Active-- // a deadline is applied with its job in sight
		d.JobTx.SaveJob()
		s.Error = orUnknown(r.Failure)
	case lifecycle.StepFail, lifecycle.StepTimeout:
		s.Error = orUnknown(r.Failure)
		if r.Failure != nil && r.Failure.Delay > 0 {
			s.DueAt, s.DueEvent = d.Now+time.Duration(r.Failure.Delay).Microseconds(), lifecycle.StepRetry
		}
	case lifecycle.StepLost:
		s.Losses++
		s.Attempts--
		s.Error = orUnknown(r.Failure)
		s.DueAt, s.DueEvent = d.Now, lost // tried again at once
	case lifecycle.StepInterrupt:
		s.Attempts--
		if r.Snooze > 0 {
			s.DueAt, s.DueEvent = d.Now+r.Snooze.Microseconds(), lifecycle.StepRetry
			r.Note.Reason, r.Note.Metadata = Snoozed, retryNote(s.DueAt)
		}
	}
	if r.Failure != nil {
		r.Note = failureNote(s, r.Failure, r.Note)
	}
	if err := d.JobTx.Move(s, event, r.Note); err != nil {
		return err
	}
	return d.ApplyOutcome(s)
}

// failureNote adds to a note why an attempt failed: as a reason what is not payload.
func failureNote(s *pawl.Step, f *pawl.Failure, n Note) Note {
	b, err := json.Marshal(struct {
		Claim     int           `json:"claim"`
		Class     string        `json:"class"`
		Permanent bool          `json:"permanent"`
		Delay     pawl.Duration `json:"delay,omitzero"`
	}{s.Claims, f.Class, f.Permanent, f.Delay})
	if err == nil {
		n.Metadata = b
	}
	n.Failure = f
	return n
}

// ApplyOutcome applies the outcome of s (T7): all of it or, if something that it needs
// is out of sight, only a mark.
func (d *Decision) ApplyOutcome(s *pawl.Step) error {
	if can, err := d.canApply(s); err != nil {
		return err
	} else if !can {
		return d.mark(s)
	}
	s.Mark = pawl.Clear
	d.JobTx.Save(s)
	if s.Worker != 0 {
		d.job().Active--
		d.JobTx.SaveJob()
	}
	if err := d.follow(s); err != nil {
		return err
	}
	return d.finish()
}

func (d *Decision) follow(s *pawl.Step) error {
	switch s.State {
	case lifecycle.StepRetryableError:
		return d.retry(s)
	case lifecycle.StepPermanentError:
		return d.failed(s)
	case lifecycle.StepPending:
		return d.interrupted(s)
	}
	return d.ended(s)
}

// canApply reports whether the outcome of s can be applied now. What a failure touches
// may be out of sight, unless s was prepared to fail.
func (d *Decision) canApply(s *pawl.Step) (bool, error) {
	if d.job() == nil {
		return false, nil
	}
	tried := s.State == lifecycle.StepRetryableError
	if s.State != lifecycle.StepPermanentError && !tried || tried && (d.stopping() || Exhausted(d.Definition, s) == "") {
		return true, nil
	}
	if knows, err := d.knowsWhy(s); err != nil || !knows {
		return false, err
	}
	if d.node(s.Ord).Hook != workflow.NoHook || d.stopping() {
		return true, nil
	}
	var unseen error
	if d.Definition.OnError == workflow.Drain {
		unseen = d.inSight(d.Definition.Descendants(s.Ord.Node()))
	} else {
		unseen = d.openInSight(s)
	}
	if unseen != nil && d.Answers.fails(s.Ord) {
		return false, unseen
	}
	return unseen == nil, nil
}

// knowsWhy reports whether the reason for which s failed is known, if it is going to be
// stored with s, its job or its fan-out. The error of a marked step is not in sight,
// and an evaluation that was prepared before the step failed has not read it.
func (d *Decision) knowsWhy(s *pawl.Step) (bool, error) {
	told := d.job().Ending != "" && s.State == lifecycle.StepPermanentError // a hook's failure is not stored with the job
	if s.Ord.Instance() != 0 {
		p, err := d.step(s.Ord.Parent())
		if err != nil {
			return false, err
		}
		told = told && p.DueEvent != ""
	}
	_, read := d.Answers.Errors[s.Ord]
	return told || read || s.Error != nil, nil
}

// step returns a step that has to exist.
func (d *Decision) step(ord pawl.Ord) (*pawl.Step, error) {
	s, err := d.JobTx.Step(ord)
	if s == nil && err == nil {
		err = pawl.Errorf(pawl.Internal, "step %s is missing, or cannot be read", d.Definition.Key(ord))
	}
	return s, err
}

// nodeStep returns the step of a node that is no instance.
func (d *Decision) nodeStep(n int) (*pawl.Step, error) { return d.step(pawl.MakeOrd(n, 0)) }

// inSight returns nil if the given nodes are in sight, or why not.
func (d *Decision) inSight(nodes []int) error {
	for _, n := range nodes {
		if _, err := d.JobTx.Step(pawl.MakeOrd(n, 0)); err != nil {
			return err
		}
	}
	return nil
}

// openInSight returns nil if every open step is in sight, self among them, because
// they were asked for, or because as many are in sight as there are. Open are
// those that have not ended, and those whose outcome has not been applied.
func (d *Decision) openInSight(self *pawl.Step) error {
	unasked := d.JobTx.Open()
	if unasked == nil {
		return nil
	}
	nodes, instances, live := 0, 0, 0 // of those that Open counts
	d.JobTx.Steps(func(s *pawl.Step) {
		over := s != self && s.Mark != pawl.Attention && lifecycle.Step.Ended(s.State)
		if over || s.Mark == pawl.Blocked || d.node(s.Ord).Hook != workflow.NoHook {
			return
		}
		if s.Ord.Instance() != 0 {
			instances++
			return
		}
		nodes++
		live += s.Live
	})
	if nodes == d.job().Open && instances == live {
		return nil
	}
	return unasked
}

// byOrd sorts steps by their place, so that a decision is the same whatever the
// order in which its JobTx holds them.
func byOrd(steps []*pawl.Step) []*pawl.Step {
	slices.SortFunc(steps, func(a, b *pawl.Step) int { return cmp.Compare(a.Ord, b.Ord) })
	return steps
}
