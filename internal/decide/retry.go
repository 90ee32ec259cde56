package decide

import (
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

// retry applies a retryable error: another attempt, now or later, or none (T7).
func (d *Decision) retry(s *pawl.Step) error {
	if d.stopping() {
		return d.cancel(s, Note{Reason: "the job is ending"})
	}
	if why := Exhausted(d.Definition, s); why != "" {
		last := *d.lastFailure(s)
		last.Permanent, last.Reason, last.Delay = true, why, 0
		s.Error, s.CompletedAt, s.DueAt, s.DueEvent = &last, d.Now, 0, ""
		if err := d.JobTx.Move(s, lifecycle.StepExhaust, Note{Reason: why}); err != nil {
			return err
		}
		return d.failed(s)
	}
	due := d.notBefore(s)
	s.DueAt, s.DueEvent = 0, ""
	if due > d.Now {
		s.DueAt, s.DueEvent = due, lifecycle.StepEnqueue
	}
	if err := d.JobTx.Move(s, lifecycle.StepRetry, Note{Metadata: retryNote(due)}); err != nil {
		return err
	}
	if due > d.Now {
		return nil
	}
	return d.again(s)
}

// notBefore returns when a step may be tried again: the time that its handler asked
// for, else that of its backoff.
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
	d.JobTx.Save(s)
	return nil
}

// again enqueues a step that had been started before.
func (d *Decision) again(s *pawl.Step) error {
	if d.stopping() {
		return d.cancel(s, Note{Reason: "the job is ending"})
	}
	return d.enqueue(s)
}
