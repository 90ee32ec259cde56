package workflow

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// exhausted answers why a step in retryable_error gets no further attempt, or "".
func (d *Decision) exhausted(s *pawl.Step) string {
	if s.Losses >= MaxLosses {
		return fmt.Sprintf("its worker died %d times", s.Losses)
	}
	if most := d.node(s.Ord).Retry.MaxAttempts; s.Attempts >= most {
		return fmt.Sprintf("%d of %d attempts failed", s.Attempts, most)
	}
	return ""
}

// lost is the deadline event of a step whose worker died: it is tried again at
// once, whatever its attempts.
const lost = lifecycle.StepLost

// retry weighs a retryable error: another attempt, now or later, or none (T7).
func (d *Decision) retry(s *pawl.Step) error {
	if d.stopping() {
		return d.cancel(s, Note{Reason: "the job is ending"})
	}
	if why := d.exhausted(s); why != "" {
		s.CompletedAt, s.DueAt, s.DueEvent = d.Now, 0, ""
		if err := d.Board.Move(s, lifecycle.StepExhaust, Note{Reason: why}); err != nil {
			return err
		}
		return d.failed(s)
	}
	due := d.notBefore(s)
	s.DueAt, s.DueEvent = 0, ""
	if due > d.Now {
		s.DueAt, s.DueEvent = due, lifecycle.StepEnqueue
	}
	if err := d.Board.Move(s, lifecycle.StepRetry, Note{Metadata: retryNote(due)}); err != nil {
		return err
	}
	if due > d.Now {
		return nil
	}
	return d.again(s)
}

// notBefore answers when a step may be tried again: what its handler asked for,
// else its backoff.
func (d *Decision) notBefore(s *pawl.Step) int64 {
	switch s.DueEvent {
	case lifecycle.StepRetry:
		return s.DueAt
	case lost:
		return d.Now
	}
	return d.Now + d.node(s.Ord).Retry.Delay(s.Attempts, d.Jitter()).Microseconds()
}

func retryNote(due int64) []byte {
	return []byte(`{"not_before":"` + pawl.Time(due).Format("2006-01-02T15:04:05.000000Z") + `"}`)
}

// again enqueues a step that had been started before.
func (d *Decision) again(s *pawl.Step) error {
	if d.stopping() {
		return d.cancel(s, Note{Reason: "the job is ending"})
	}
	return d.enqueue(s)
}

// ended passes on that a step has ended and did not fail.
func (d *Decision) ended(s *pawl.Step) error {
	if s.Ord.Instance() != 0 {
		return d.instanceEnded(s)
	}
	d.job().Open--
	d.Board.SaveJob()
	if s.State == lifecycle.StepCancelled || d.stopping() {
		return nil // what depends on it is cancelled by whatever ends the job
	}
	for _, n := range d.node(s.Ord).Dependents {
		next := d.Board.Step(pawl.MakeOrd(n, 0))
		if next == nil {
			return fmt.Errorf("step %d is not in sight", n)
		}
		next.Unmet--
		next.Skipped = next.Skipped || s.State == lifecycle.StepSkipped
		d.Board.Save(next)
		if next.Unmet > 0 || next.State != lifecycle.StepPending {
			continue
		}
		if err := d.begin(next); err != nil {
			return err
		}
	}
	return nil
}

// instanceEnded makes the next instances of a fan-out, or ends it.
func (d *Decision) instanceEnded(s *pawl.Step) error {
	p := d.Board.Step(s.Ord.Parent())
	p.Live--
	d.Board.Save(p)
	return d.advance(p)
}

// advance makes the next instances of the fan-out p or, when there are no more
// and all have ended, ends it: failed if one failed, else by gathering outputs.
func (d *Decision) advance(p *pawl.Step) error {
	switch {
	case p.State != lifecycle.StepInProgress:
		return nil
	case p.Made < p.Total && !d.stopping():
		return d.spread(p)
	case p.Live > 0:
		return nil
	case p.DueEvent == lifecycle.StepFailPermanently:
		return d.failPermanently(p, p.Error) // nil leaves the one that instanceFailed has stored
	case d.stopping():
		return d.cancel(p, Note{Reason: "the job is ending"})
	}
	return d.gather(p)
}

// gather completes a fan-out whose instances have all ended well.
func (d *Decision) gather(p *pawl.Step) error {
	answer, ok := d.Answers.Gathers[p.Ord]
	switch {
	case !ok || !d.inSight(d.node(p.Ord).Dependents):
		return d.mark(p)
	case answer.Failure != nil:
		return d.failPermanently(p, answer.Failure)
	}
	return d.succeed(p, answer.Output)
}

// succeed completes a step that the engine owns.
func (d *Decision) succeed(s *pawl.Step, output json.RawMessage) error {
	s.Output, s.CompletedAt, s.Mark = output, d.Now, pawl.Clear
	if err := d.Board.Move(s, lifecycle.StepSuccess, Note{}); err != nil {
		return err
	}
	return d.ended(s)
}

// failHere fails a pending step before any worker has seen it.
func (d *Decision) failHere(s *pawl.Step, f *pawl.Failure) error {
	if err := d.take(s); err != nil {
		return err
	}
	return d.failPermanently(s, f)
}

func (d *Decision) failPermanently(s *pawl.Step, f *pawl.Failure) error {
	s.Error, s.CompletedAt, s.Mark, s.DueEvent = f, d.Now, pawl.Clear, ""
	if err := d.Board.Move(s, lifecycle.StepFailPermanently, Note{Metadata: reportNote(s, f)}); err != nil {
		return err
	}
	if !d.canWeigh(s) {
		return d.mark(s)
	}
	return d.failed(s)
}

// failed passes a permanent error on: to the fan-out, and to the job (T7).
func (d *Decision) failed(s *pawl.Step) error {
	f := d.failure(s)
	if s.Ord.Instance() != 0 {
		return d.instanceFailed(s, f)
	}
	d.job().Open--
	d.Board.SaveJob()
	if d.Definition.OnError == Halt || d.stopping() {
		return d.End(lifecycle.JobFailed, f, Note{Reason: f.Message})
	}
	d.blame(f)
	for _, n := range d.Definition.Descendants(s.Ord.Node()) {
		if next := d.Board.Step(pawl.MakeOrd(n, 0)); next.State == lifecycle.StepPending {
			if err := d.cancel(next, Note{Reason: "a step it needs failed"}); err != nil {
				return err
			}
		}
	}
	return nil
}

// blame notes the first failure of a job that goes on to drain.
func (d *Decision) blame(f *pawl.Failure) {
	if j := d.job(); j.Ending == "" {
		j.Ending, j.Error = lifecycle.JobFailed, f
		d.Board.SaveJob()
	}
}

// instanceFailed lets the fan-out of an instance fail as soon as its other
// instances have ended: cancelled, or run to their end if the job drains.
func (d *Decision) instanceFailed(s *pawl.Step, f *pawl.Failure) error {
	p := d.Board.Step(s.Ord.Parent())
	p.Live--
	if p.State == lifecycle.StepInProgress && p.DueEvent == "" {
		p.DueEvent, p.Error = lifecycle.StepFailPermanently, f
	}
	d.Board.Save(p)
	if d.Definition.OnError == Drain {
		d.blame(f)
	} else if err := d.End(lifecycle.JobFailed, f, Note{Reason: f.Message}); err != nil {
		return err
	}
	return d.advance(p)
}

// failure answers why s failed, naming the step.
func (d *Decision) failure(s *pawl.Step) *pawl.Failure {
	f := s.Error
	if f == nil {
		f = orUnknown(d.Answers.Errors[s.Ord])
	}
	if f.Step != "" {
		return f
	}
	named := *f
	named.Step = d.Definition.Key(s.Ord)
	return &named
}

// orUnknown is f or, if a step does not say why it failed, that.
func orUnknown(f *pawl.Failure) *pawl.Failure {
	if f != nil {
		return f
	}
	return &pawl.Failure{Class: "unknown", Message: "the step failed", Permanent: true}
}

// Key answers how people know a step: load, or load[3] for an instance (which
// count from 0).
func (d *Definition) Key(ord pawl.Ord) string {
	id := d.Nodes[ord.Node()-1].ID
	if i := ord.Instance(); i > 0 {
		return fmt.Sprintf("%s[%d]", id, i-1)
	}
	return id
}

// skip ends a step that is not to run, and passes that on.
func (d *Decision) skip(s *pawl.Step, why string) error {
	if !d.inSight(d.node(s.Ord).Dependents) {
		return d.mark(s)
	}
	s.Mark, s.CompletedAt = pawl.Clear, d.Now
	if err := d.Board.Move(s, lifecycle.StepSkip, Note{Reason: why}); err != nil {
		return err
	}
	return d.ended(s)
}

// End begins the end of a running job, as FAILED or CANCELED, and ends it at
// once if no worker holds a step of it. All its open steps must be in sight.
func (d *Decision) End(as machine.State, f *pawl.Failure, note Note) error {
	j := d.job()
	if d.stopping() {
		return nil
	}
	j.Ending = as
	if f != nil {
		j.Error = f
	}
	j.DueAt, j.DueEvent = 0, ""
	d.Board.SaveJob()
	if err := d.cancelOpen(note); err != nil {
		return err
	}
	if j.Open > 0 {
		return d.Board.MoveJob(lifecycle.JobHalt, note)
	}
	return nil // finish follows
}

// Cancel ends a job that an operator or a deadline wants canceled.
func (d *Decision) Cancel(note Note) error {
	j := d.job()
	f := &pawl.Failure{Class: "canceled", Message: note.Reason, Permanent: true}
	if j.State == lifecycle.JobRunning {
		if d.stopping() {
			return pawl.Errorf(pawl.Conflict, "job %s is already ending, as %s", j.ID.Public(pawl.JobPrefix), j.Ending)
		}
		if err := d.End(lifecycle.JobCanceled, f, note); err != nil {
			return err
		}
		return d.finish()
	}
	// The table refuses the job before its steps are touched, if it has to.
	if _, err := lifecycle.Job.Next(j.State, lifecycle.JobCancel); err != nil {
		if refusal, ok := err.(*machine.Refusal); ok {
			refusal.Entity = j.ID.Public(pawl.JobPrefix)
		}
		return err
	}
	j.Ending, j.Error, j.CompletedAt = lifecycle.JobCanceled, f, d.Now
	if err := d.cancelOpen(note); err != nil {
		return err
	}
	return d.Board.MoveJob(lifecycle.JobCancel, note)
}

// cancelOpen cancels every step in sight that has not ended: at once, or by
// asking the worker that holds it.
func (d *Decision) cancelOpen(note Note) error {
	var open, parents []*pawl.Step
	d.Board.Steps(func(s *pawl.Step) {
		switch {
		case lifecycle.Step.Ended(s.State):
		case d.isFan(s):
			parents = append(parents, s)
		default:
			open = append(open, s)
		}
	})
	for _, s := range append(byOrd(open), byOrd(parents)...) {
		if err := d.cancel(s, note); err != nil {
			return err
		}
	}
	return nil
}

// cancel ends one step that has not ended. A worker that holds it is asked to
// stop, and has CancelGrace to do so; a fan-out waits for its instances.
func (d *Decision) cancel(s *pawl.Step, note Note) error {
	if lifecycle.Step.Ended(s.State) {
		return nil
	}
	if d.isFan(s) && s.Live > 0 {
		if s.Mark == pawl.Waiting {
			s.Mark = pawl.Clear
			d.Board.Save(s)
		}
		return nil
	}
	if d.isFan(s) && s.DueEvent == lifecycle.StepFailPermanently {
		return d.advance(s) // no instance is left: it failed before it could be cancelled
	}
	if s.State == lifecycle.StepInProgress && !d.isFan(s) {
		if s.DueEvent == lifecycle.StepCancel {
			return nil
		}
		s.DueAt, s.DueEvent = d.Now+CancelGrace.Microseconds(), lifecycle.StepCancel
		return d.Board.Move(s, lifecycle.StepCancelRequested, note)
	}
	if s.State == lifecycle.StepEnqueued || s.Mark == pawl.Attention && s.Worker != 0 {
		d.job().Active-- // of an outcome that was not weighed, too
		d.Board.SaveJob()
	}
	s.Mark, s.DueAt, s.DueEvent, s.CompletedAt = pawl.Clear, 0, "", d.Now
	if err := d.Board.Move(s, lifecycle.StepCancel, note); err != nil {
		return err
	}
	return d.ended(s)
}

// finish ends a job whose nodes have all ended.
func (d *Decision) finish() error {
	j := d.job()
	if j.Open > 0 || j.State != lifecycle.JobRunning {
		return nil
	}
	d.Board.SaveJob()
	switch j.Ending {
	case lifecycle.JobCanceled:
		return d.close(lifecycle.JobCancel)
	case lifecycle.JobFailed:
		return d.close(lifecycle.JobError)
	}
	if !d.Definition.HasOutput() {
		return d.close(lifecycle.JobSuccess)
	}
	switch answer := d.Answers.Output; {
	case answer == nil:
		j.Mark = pawl.Attention
		return nil
	case answer.Failure != nil:
		j.Error = answer.Failure
		return d.close(lifecycle.JobError)
	default:
		j.Output = answer.Output
		return d.close(lifecycle.JobSuccess)
	}
}

func (d *Decision) close(event machine.Event) error {
	j := d.job()
	j.Mark, j.DueAt, j.DueEvent, j.CompletedAt = pawl.Clear, 0, "", d.Now
	note := Note{}
	if j.Error != nil {
		note.Reason = j.Error.Message
	}
	return d.Board.MoveJob(event, note)
}

// Attend looks at everything in sight that is marked, and at the job itself.
func (d *Decision) Attend() error {
	var marked []*pawl.Step
	d.Board.Steps(func(s *pawl.Step) {
		if s.Mark == pawl.Attention {
			marked = append(marked, s)
		}
	})
	for _, s := range byOrd(marked) {
		if s.Mark != pawl.Attention {
			continue // an earlier one has dealt with it
		}
		if err := d.attend(s); err != nil {
			return err
		}
	}
	d.job().Mark = pawl.Clear
	d.Board.SaveJob()
	return d.finish()
}

func (d *Decision) attend(s *pawl.Step) error {
	switch {
	case s.State == lifecycle.StepPending && s.Claims == 0: // else it was interrupted
		return d.begin(s)
	case s.State == lifecycle.StepInProgress && d.isFan(s):
		s.Mark = pawl.Clear
		d.Board.Save(s)
		return d.advance(s)
	case s.State == lifecycle.StepInProgress || s.State == lifecycle.StepEnqueued:
		s.Mark = pawl.Clear
		d.Board.Save(s)
		return nil
	}
	return d.Weigh(s)
}

// Refill starts waiting steps while the job has slots: those given, in that
// order, then those in sight, which began to wait in this very transaction.
func (d *Decision) Refill(waiting []pawl.Ord) error {
	for _, ord := range waiting {
		if s := d.Board.Step(ord); s != nil {
			if err := d.refill(s); err != nil {
				return err
			}
		}
	}
	if !d.hasSlot() {
		return nil
	}
	var rest []*pawl.Step
	d.Board.Steps(func(s *pawl.Step) {
		if s.Mark == pawl.Waiting {
			rest = append(rest, s)
		}
	})
	for _, s := range byOrd(rest) {
		if err := d.refill(s); err != nil {
			return err
		}
	}
	return nil
}

func (d *Decision) refill(s *pawl.Step) error {
	switch {
	case s.Mark != pawl.Waiting || !d.hasSlot():
		return nil
	case d.isFan(s):
		return d.spread(s)
	}
	return d.enqueue(s)
}

// hasSlot reports whether the job may start one more step (J7).
func (d *Decision) hasSlot() bool {
	j := d.job()
	return j.Active < j.WorkerCount && !j.Paused && !d.stopping() && j.State == lifecycle.JobRunning
}

// Fire applies the deadline of a step that has passed (K8).
func (d *Decision) Fire(s *pawl.Step) error {
	if err := d.fire(s); err != nil {
		return err
	}
	return d.finish()
}

func (d *Decision) fire(s *pawl.Step) error {
	switch s.DueEvent {
	case lifecycle.StepEnqueue:
		s.DueAt, s.DueEvent = 0, ""
		d.Board.Save(s)
		return d.again(s)
	case lifecycle.StepRetry, lost:
		return d.Weigh(s)
	case lifecycle.StepTimeout:
		return d.overdue(s, fmt.Sprintf("it took longer than %s", d.node(s.Ord).Timeout))
	case lifecycle.StepCancel:
		return d.overdue(s, fmt.Sprintf("its worker did not stop it within %s", CancelGrace))
	}
	return fmt.Errorf("step %s: there is no deadline for %q", d.Definition.Key(s.Ord), s.DueEvent)
}

// overdue takes a step from a worker that has not ended it in time.
func (d *Decision) overdue(s *pawl.Step, why string) error {
	f := &pawl.Failure{Class: string(s.DueEvent), Message: why}
	return d.Report(s, Report{Event: s.DueEvent, Failure: f, Note: Note{Reason: why}})
}

// Reach answers the nodes that a decision about the step at ord may touch: its
// parent and itself, and its dependents; or, if deep, all that descend from it.
func (d *Definition) Reach(ord pawl.Ord, deep bool) []pawl.Ord {
	reach := []pawl.Ord{ord}
	if ord.Instance() != 0 {
		reach = append(reach, ord.Parent())
	}
	next := d.Nodes[ord.Node()-1].Dependents
	if deep {
		next = d.Descendants(ord.Node())
	} else if ord.Instance() != 0 {
		return reach
	}
	for _, n := range next {
		reach = append(reach, pawl.MakeOrd(n, 0))
	}
	return reach
}

// MayWait reports whether steps of the job can ever wait for a slot of it.
func (d *Definition) MayWait(workers int) bool {
	if len(d.Nodes) > workers {
		return true
	}
	for i := range d.Nodes {
		if d.Nodes[i].HasForeach {
			return true
		}
	}
	return false
}

// OrdOf answers the place of the step that people know by that key: load, or
// load[3].
func (d *Definition) OrdOf(key string) (pawl.Ord, error) {
	id, rest, instance := strings.Cut(key, "[")
	n := d.NodeByID(id)
	if n == 0 {
		return 0, pawl.Errorf(pawl.NotFound, "workflow %s has no step %q", d.Name, id)
	}
	if !instance {
		return pawl.MakeOrd(n, 0), nil
	}
	i, err := strconv.Atoi(strings.TrimSuffix(rest, "]"))
	if err != nil || i < 0 || i >= pawl.MaxInstances {
		return 0, pawl.Errorf(pawl.Invalid, "step %q: want an index such as %s[3]", key, id)
	}
	return pawl.MakeOrd(n, i+1), nil
}
