package decide

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A Stall is why a job or a step would wait for ever: what it waits for has come, and
// nothing marks it. No commit leaves a stall.
type Stall string

// The stalls.
const (
	StallEnd       Stall = "every step of the job has ended"
	StallMark      Stall = "it is marked, but for no time"
	StallReady     Stall = "all that it needs has ended"
	StallSlot      Stall = "its job has a free slot"
	StallOutcome   Stall = "its outcome was not applied"
	StallInstances Stall = "all its instances have ended"
	StallChild     Stall = "its child job has ended"
	StallSignal    Stall = "its signal has come"
)

// StalledJob returns why a running job itself would wait for ever, or "".
func StalledJob(j *pawl.Job) Stall {
	switch {
	case j.State != lifecycle.JobRunning:
	case j.Mark == pawl.Attention && j.MarkAt == 0:
		return StallMark
	case j.Mark == pawl.Clear && j.Open == 0:
		return StallEnd
	}
	return ""
}

// MendReads is for Decision.Mend about these steps, of a job with so many slots.
func MendReads(d *workflow.Definition, steps []pawl.Ord, slots int) ReadSet {
	return ReadSet{Steps: steps, Waiting: waiting(d, slots), Signals: d.Events}
}

// Mend lets everything continue that is stalled: the job, and the suspected steps.
// Ended are the steps whose child job has ended. It returns the stalls that it found;
// the job itself is 0.
func (d *Decision) Mend(suspects []pawl.Ord, ended map[pawl.Ord]bool) (map[pawl.Ord]Stall, error) {
	j, found := d.job(), make(map[pawl.Ord]Stall)
	signals, err := d.signals()
	if err != nil {
		return nil, err
	}
	told := make(map[string]bool, len(signals))
	for _, g := range signals {
		told[g.Name] = true
	}
	var marked []*pawl.Step
	slot, again := false, false
	if stall := StalledJob(j); stall != "" {
		found[0], again = stall, true
	}
	for _, ord := range suspects {
		s, err := d.step(ord)
		if err != nil {
			return nil, err
		}
		switch stall := StalledStep(d.Definition, j, s, ended[ord] || told[d.node(ord).Event]); stall {
		case "":
			continue
		case StallSlot:
			found[ord], slot = stall, true
		case StallSignal:
			found[ord], again = stall, true
		default:
			found[ord], marked = stall, append(marked, s)
		}
	}
	for _, s := range marked {
		if err := d.mark(s); err != nil {
			return nil, err
		}
	}
	if again {
		j.MarkNow()
		d.JobTx.SaveJob()
	}
	if slot {
		return found, d.Refill()
	}
	return found, nil
}

// Awaits returns the kind of s if s waits for a child job or a signal, else "".
func Awaits(d *workflow.Definition, s *pawl.Step) workflow.Kind {
	n := &d.Nodes[s.Ord.Node()-1]
	fan := s.Ord.Instance() == 0 && n.Fans()
	if s.State == lifecycle.StepInProgress && !fan && (n.Kind == workflow.KindWorkflow || n.Kind == workflow.KindEvent) {
		return n.Kind
	}
	return ""
}

// StalledStep returns why a step of a running job would wait for ever, or "". Came reports
// whether what it Awaits has come.
func StalledStep(d *workflow.Definition, j *pawl.Job, s *pawl.Step, came bool) Stall {
	n := &d.Nodes[s.Ord.Node()-1]
	switch {
	case j.State != lifecycle.JobRunning:
	case s.Mark == pawl.Attention:
		if s.MarkAt == 0 {
			return StallMark
		}
	case s.Mark == pawl.Waiting:
		if !j.Paused && j.Ending != lifecycle.JobCanceled && (j.Active < j.WorkerCount || n.Kind.Waits()) {
			return StallSlot
		}
	case s.Mark == pawl.Blocked, s.DueAt != 0:
		if came && Awaits(d, s) == workflow.KindEvent && j.Mark != pawl.Attention {
			return StallSignal
		}
	default:
		return stalledUnmarked(d, n, j, s, came)
	}
	return ""
}

// stalledUnmarked is StalledStep for a step that neither has a mark nor a deadline.
func stalledUnmarked(d *workflow.Definition, n *workflow.Node, j *pawl.Job, s *pawl.Step, came bool) Stall {
	switch {
	case s.State == lifecycle.StepRetryableError:
		return StallOutcome
	case s.State == lifecycle.StepPending && s.Unmet == 0 && s.Claims == 0 && n.Hook == workflow.NoHook:
		return StallReady
	case s.State == lifecycle.StepInProgress && s.Ord.Instance() == 0 && n.Fans() && s.Live == 0:
		return StallInstances
	case came && Awaits(d, s) == workflow.KindWorkflow:
		return StallChild
	case came && Awaits(d, s) == workflow.KindEvent && j.Mark != pawl.Attention:
		return StallSignal
	}
	return ""
}
