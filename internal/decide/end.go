package decide

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// Exhausted returns why a step in retryable_error gets no further attempt, or "".
func Exhausted(d *workflow.Definition, s *pawl.Step) string {
	if s.Losses >= MaxLosses {
		return fmt.Sprintf("its worker died %d times", s.Losses)
	}
	if most := d.Nodes[s.Ord.Node()-1].Retry.MaxAttempts; s.Attempts >= most {
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
	if why := Exhausted(d.Definition, s); why != "" {
		last := *d.lastFailure(s)
		last.Permanent, last.Reason, last.Delay = true, why, 0
		s.Error, s.CompletedAt, s.DueAt, s.DueEvent = &last, d.Now, 0, ""
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

// notBefore returns when a step may be tried again: what its handler asked for,
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

// Limits of a snooze.
const (
	MinSnooze = time.Millisecond
	MaxSnooze = workflow.MaxTimeout
)

// Snoozed is the reason of an interrupt that the step's handler asked for.
const Snoozed = "snoozed"

// interrupted enqueues a step again whose attempt does not count, or lets it snooze
// until its time. It fires as a backoff does.
func (d *Decision) interrupted(s *pawl.Step) error {
	due := s.DueAt
	s.DueAt, s.DueEvent = 0, ""
	if due <= d.Now || d.stopping() {
		return d.again(s)
	}
	s.DueAt, s.DueEvent = due, lifecycle.StepEnqueue
	d.Board.Save(s)
	return nil
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
	if d.node(s.Ord).Hook != workflow.NoHook {
		return d.hookEnded(s)
	}
	d.countOut(s)
	if s.State == lifecycle.StepCancelled || d.stopping() {
		return nil // what depends on it is cancelled by whatever ends the job
	}
	for _, n := range d.node(s.Ord).Dependents {
		next, err := d.nodeStep(n)
		if err != nil {
			return err
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
	p, err := d.step(s.Ord.Parent())
	if err != nil {
		return err
	}
	p.Live--
	d.Board.Save(p)
	d.Board.Fold(s)
	return d.advance(p)
}

// countOut takes a node from those that are open.
func (d *Decision) countOut(s *pawl.Step) {
	d.job().Open--
	d.Board.SaveJob()
	d.Board.Fold(s)
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
	case !ok:
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
	note := Note{}
	if f != nil {
		note = failureNote(s, f, note)
	}
	if err := d.Board.Move(s, lifecycle.StepFailPermanently, note); err != nil {
		return err
	}
	if can, err := d.canWeigh(s); err != nil {
		return err
	} else if !can {
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
	if d.node(s.Ord).Hook != workflow.NoHook {
		return d.hookEnded(s)
	}
	d.countOut(s)
	if d.Definition.OnError == workflow.Halt || d.stopping() {
		return d.End(lifecycle.JobFailed, f, Note{Reason: reasonOf(f)})
	}
	d.blame(f)
	behind, err := d.behind(s.Ord.Node())
	for _, next := range behind {
		if next.Mark != pawl.Blocked {
			d.block(next)
		}
	}
	return err
}

// behind returns the nodes that cannot begin because the given ones have failed:
// what needs them, and what needs that, as far as nobody has settled it.
func (d *Decision) behind(failed ...int) (map[int]*pawl.Step, error) {
	found := make(map[int]*pawl.Step)
	for len(failed) > 0 {
		n := failed[0]
		failed = failed[1:]
		for _, m := range d.Definition.Nodes[n-1].Dependents {
			s, err := d.nodeStep(m)
			if err != nil {
				return nil, err
			}
			if found[m] == nil && s.State == lifecycle.StepPending {
				found[m] = s
				failed = append(failed, m)
			}
		}
	}
	return found, nil
}

// block holds back a step behind a failed one, until the rest of the job has
// drained: an operator may still resolve what failed (T7, T13).
func (d *Decision) block(s *pawl.Step) {
	s.Mark = pawl.Blocked
	d.Board.Save(s)
	d.job().Open--
	d.job().Blocked++
	d.Board.SaveJob()
}

// unblock takes back what block did.
func (d *Decision) unblock(s *pawl.Step) {
	s.Mark = pawl.Clear
	d.Board.Save(s)
	d.job().Open++
	d.job().Blocked--
	d.Board.SaveJob()
}

// blocked returns the steps in sight that are behind failed ones, ascending.
func (d *Decision) blocked() []*pawl.Step {
	var blocked []*pawl.Step
	d.Board.Steps(func(s *pawl.Step) {
		if s.Mark == pawl.Blocked {
			blocked = append(blocked, s)
		}
	})
	return byOrd(blocked)
}

// cancelBlocked cancels what is behind failed steps, all of which is in sight.
func (d *Decision) cancelBlocked() error {
	for _, s := range d.blocked() {
		if err := d.cancel(s, Note{Reason: "a step it needs failed"}); err != nil {
			return err
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
	p, err := d.step(s.Ord.Parent())
	if err != nil {
		return err
	}
	p.Live--
	if p.State == lifecycle.StepInProgress && p.DueEvent == "" {
		p.DueEvent, p.Error = lifecycle.StepFailPermanently, f
	}
	d.Board.Save(p)
	d.Board.Fold(s)
	if d.Definition.OnError == workflow.Drain {
		d.blame(f)
	} else if err := d.End(lifecycle.JobFailed, f, Note{Reason: reasonOf(f)}); err != nil {
		return err
	}
	return d.advance(p)
}

// lastFailure returns why s failed last.
func (d *Decision) lastFailure(s *pawl.Step) *pawl.Failure {
	if s.Error != nil {
		return s.Error
	}
	return orUnknown(d.Answers.Errors[s.Ord])
}

// failure returns why s failed, naming the step.
func (d *Decision) failure(s *pawl.Step) *pawl.Failure {
	f := d.lastFailure(s)
	if f.Step != "" {
		return f
	}
	named := *f
	named.Step = d.Definition.Key(s.Ord)
	return &named
}

// permanent returns a failure as one after which there is no further attempt.
func permanent(f *pawl.Failure) *pawl.Failure {
	if f = orUnknown(f); f.Permanent {
		return f
	}
	final := *f
	final.Permanent = true
	return &final
}

// reasonOf says in the clear why a job fails: its message is payload.
func reasonOf(f *pawl.Failure) string {
	switch {
	case f.Step != "":
		return "step " + f.Step + " failed"
	case f.Class == "canceled" || f.Class == pawl.ClassTimeout:
		return f.Message // of whoever canceled it
	}
	return "it failed: " + f.Class
}

// orUnknown is f or, if a step does not say why it failed, that.
func orUnknown(f *pawl.Failure) *pawl.Failure {
	if f != nil {
		return f
	}
	return &pawl.Failure{Class: "unknown", Message: "the step failed", Permanent: true}
}

// skip ends a step that is not to run, and passes that on. What it passes that on
// to may be out of sight, unless s was prepared to start.
func (d *Decision) skip(s *pawl.Step, why string) error {
	if unseen := d.inSight(d.node(s.Ord).Dependents); unseen != nil {
		if _, prepared := d.Answers.Starts[s.Ord]; prepared {
			return unseen
		}
		return d.mark(s)
	}
	s.Mark, s.CompletedAt = pawl.Clear, d.Now
	if err := d.Board.Move(s, lifecycle.StepSkip, Note{Reason: why}); err != nil {
		return err
	}
	return d.ended(s)
}

// Attend looks at the marked steps that were prepared, as far as they still are
// marked, and at the job itself.
func (d *Decision) Attend() error {
	for _, ord := range d.Answers.Marked {
		s, err := d.step(ord)
		if err == nil && s.Mark == pawl.Attention { // else it was dealt with
			err = d.attend(s)
		}
		if err != nil {
			return err
		}
	}
	if err := d.deliver(); err != nil {
		return err
	}
	if unheard, err := d.unheard(); err != nil {
		return err
	} else if !unheard {
		d.job().Mark = pawl.Clear
	}
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
	case s.State == lifecycle.StepInProgress && d.node(s.Ord).Kind == workflow.KindWorkflow:
		return d.childEnded(s)
	case s.State == lifecycle.StepInProgress || s.State == lifecycle.StepEnqueued:
		s.Mark = pawl.Clear
		d.Board.Save(s)
		return nil
	}
	return d.Weigh(s)
}

// Refill starts waiting steps while the job has slots: those that had waited, in
// their order, then those that began to wait in this very transaction.
func (d *Decision) Refill() error {
	if d.held() {
		return nil
	}
	if MayWait(d.Definition, d.job().WorkerCount) {
		if err := d.refillWaiting(); err != nil {
			return err
		}
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

func (d *Decision) refillWaiting() error {
	waiting, err := d.Board.Waiting()
	if err != nil {
		return err
	}
	for _, ord := range waiting {
		s, err := d.step(ord)
		if err == nil {
			err = d.refill(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *Decision) refill(s *pawl.Step) error {
	j, kind := d.job(), d.node(s.Ord).Kind
	switch {
	case s.Mark != pawl.Waiting || d.held() || j.Active >= j.WorkerCount && !kind.Waits():
		return nil
	case d.isFan(s):
		return d.spread(s)
	case kind.Waits():
		return d.mark(s) // it was held back by a pause, and not evaluated
	}
	return d.enqueue(s)
}

// held reports whether the job may start nothing, whatever its slots.
func (d *Decision) held() bool {
	j := d.job()
	return j.Paused || d.stopping() || j.State != lifecycle.JobRunning
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
	case lifecycle.StepQueueTimeout:
		return d.overdue(s, fmt.Sprintf("no worker took it within %s", d.node(s.Ord).QueueTimeout))
	case lifecycle.StepSuccess, lifecycle.StepFailPermanently:
		return d.waited(s)
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
