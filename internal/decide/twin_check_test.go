package decide_test

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// check looks at everything that holds at any time.
func (w *trial) check() error {
	open, active, blocked := 0, 0, 0
	live, made := make(map[int]int), make(map[int]int)
	for _, ord := range w.ords {
		s := w.steps[ord]
		if err := w.checkStep(s); err != nil {
			return fmt.Errorf("%s, %s: %w", w.def.Key(ord), s.State, err)
		}
		held := isEnqueued(s) || w.isRunning(s) || isMarked(s) && s.Worker != 0
		if held {
			active++
		}
		if isBlocked(s) {
			blocked++
		}
		switch {
		case ord.Instance() == 0 && (w.isHook(s) != (w.job.Hooks != pawl.HooksNotYet)):
		case ord.Instance() == 0 && !isWeighed(s) && !isBlocked(s):
			open++
		case ord.Instance() > 0:
			made[ord.Node()]++
			if !isWeighed(s) {
				live[ord.Node()]++
			}
		}
	}
	for i, n := range w.def.Nodes {
		p := w.steps[pawl.MakeOrd(i+1, 0)]
		if p.Live != live[i+1] || p.Made != made[i+1] || p.Made > p.Total || n.Parallel > 0 && p.Live > n.Parallel {
			return fmt.Errorf("%s: %d live, %d made of %d, want %d live, %d made, at most %d live", n.ID, p.Live, p.Made, p.Total, live[i+1], made[i+1], n.Parallel)
		}
	}
	switch {
	case w.job.Blocked != blocked:
		return fmt.Errorf("the job says %d are blocked: there are %d", w.job.Blocked, blocked)
	case w.job.State != lifecycle.JobCanceled && w.job.Open != open:
		return fmt.Errorf("the job says %d are open: there are %d", w.job.Open, open)
	case w.stopping() && w.job.DueAt != 0:
		return fmt.Errorf("the job is ending, and still has a deadline")
	case w.job.Active != active || active > w.job.WorkerCount:
		return fmt.Errorf("the job says %d are active of at most %d: there are %d", w.job.Active, w.job.WorkerCount, active)
	}
	return w.checkSlots()
}

// checkSlots holds that no step waits for a slot while one is free (J7).
func (w *trial) checkSlots() error {
	waiting := w.selected(func(s *pawl.Step) bool { return s.Mark == pawl.Waiting })
	switch {
	case len(waiting) > 0 && w.stopping():
		return fmt.Errorf("%s waits for a slot of a job that is ending", w.def.Key(waiting[0]))
	case len(waiting) > 0 && !w.job.Paused && w.def.Node(waiting[0].Node()).Kind.Waits():
		return fmt.Errorf("%s waits for a slot, and needs none", w.def.Key(waiting[0]))
	case len(waiting) > 0 && !w.job.Paused && w.job.Active < w.job.WorkerCount:
		return fmt.Errorf("%s waits for a slot: %d of %d are taken", w.def.Key(waiting[0]), w.job.Active, w.job.WorkerCount)
	}
	return nil
}

func (w *trial) checkStep(s *pawl.Step) error {
	n := w.def.Node(s.Ord.Node())
	switch folded := w.folded[s.Ord]; {
	case isWeighed(s) && folded != w.length[s.Ord]:
		return fmt.Errorf("it has ended after %d moves, and was counted out after %d (K6)", w.length[s.Ord], folded)
	case !isWeighed(s) && folded != 0:
		return fmt.Errorf("it has not ended, and was counted out (K6)")
	case s.Attempts < 0 || s.Attempts > max(n.Retry.MaxAttempts, 1) || s.Losses > decide.MaxLosses || s.Attempts > s.Claims && n.QueueTimeout == 0:
		return fmt.Errorf("%d attempts of %d, %d claims, %d losses", s.Attempts, n.Retry.MaxAttempts, s.Claims, s.Losses)
	case lifecycle.Job.Ended(w.job.State) && !isWeighed(s):
		return fmt.Errorf("it has not ended, and its job has")
	case s.State == lifecycle.StepRetryableError && !isMarked(s):
		return fmt.Errorf("nobody weighs it")
	case s.DueEvent == lifecycle.StepTimeout && (n.Timeout == 0 || s.State != lifecycle.StepInProgress):
		return fmt.Errorf("it has a timeout")
	case isWeighed(s) && (s.CompletedAt == 0 || s.DueAt != 0 || s.DueEvent != "" || s.Mark != pawl.Clear):
		return fmt.Errorf("it has ended: completed at %d, due at %d for %q, mark %d", s.CompletedAt, s.DueAt, s.DueEvent, s.Mark)
	case s.State == lifecycle.StepPermanentError && isWeighed(s) && (s.Error == nil || s.Error.Class == "unknown"):
		return fmt.Errorf("it does not say why it failed")
	case s.State == lifecycle.StepPermanentError && isWeighed(s) && !s.Error.Permanent:
		return fmt.Errorf("it has failed for good, and its error says otherwise: %+v", s.Error)
	case s.State == lifecycle.StepPermanentError && isWeighed(s) && !w.isFan(s) && s.Error.Reason != w.exhausted(s):
		return fmt.Errorf("its error says %q, and %q ended its attempts", s.Error.Reason, w.exhausted(s))
	case isBlocked(s) != w.isBehindFailed(s):
		return fmt.Errorf("mark %d, and behind a failed step: %v", s.Mark, w.isBehindFailed(s))
	case w.stopping() && !w.isStopping(s):
		return fmt.Errorf("it goes on, and its job is ending")
	}
	return w.checkNeeds(s, n)
}

// exhausted returns why the trail says that s got no further attempt, or "".
func (w *trial) exhausted(s *pawl.Step) string {
	for _, m := range w.trail {
		if m.ord == s.Ord && m.event == lifecycle.StepExhaust {
			return m.note.Reason
		}
	}
	return ""
}

// isBehindFailed holds of what a draining job keeps back: a step of its needs, or of
// theirs, has failed, and no operator has settled a step in between.
func (w *trial) isBehindFailed(s *pawl.Step) bool {
	if s.State != lifecycle.StepPending || w.def.OnError != workflow.Drain || s.Ord.Instance() > 0 {
		return false
	}
	return slices.ContainsFunc(w.def.Node(s.Ord.Node()).Needs, func(n int) bool {
		need := w.steps[pawl.MakeOrd(n, 0)]
		return need.State == lifecycle.StepPermanentError && !isMarked(need) || w.isBehindFailed(need)
	})
}

// isStopping holds of the steps of a job that is ending: ended, or about to be
// applied, or asked to stop, or the parent of such.
func (w *trial) isStopping(s *pawl.Step) bool {
	if w.isHook(s) && w.job.Hooks == pawl.HooksNotYet && w.job.State == lifecycle.JobRunning {
		return s.State == lifecycle.StepPending // it is still to come
	}
	return !isOpen(s) || isMarked(s) || w.isFan(s) && s.Live > 0 || s.State == lifecycle.StepInProgress && s.DueEvent == lifecycle.StepCancel && s.DueAt > 0
}

// checkNeeds holds that no step starts before its needs have ended well (T2).
func (w *trial) checkNeeds(s *pawl.Step, n *workflow.Node) error {
	if s.Ord.Instance() > 0 {
		return nil
	}
	unmet, skipped := 0, false
	for _, need := range n.Needs {
		state := w.steps[pawl.MakeOrd(need, 0)]
		switch {
		case isWeighed(state) && (state.State == lifecycle.StepComplete || state.State == lifecycle.StepResolvedManually):
		case isWeighed(state) && state.State == lifecycle.StepSkipped:
			skipped = true
		default:
			unmet++
		}
	}
	stopping := w.stopping() || w.job.Hooks != pawl.HooksNotYet
	moved := s.Claims > 0 || s.State != lifecycle.StepPending && s.State != lifecycle.StepCancelled
	switch {
	case !stopping && s.Unmet != unmet:
		return fmt.Errorf("%d needs are unmet, and it says %d", unmet, s.Unmet)
	case moved && unmet > 0 && s.State != lifecycle.StepSkipped && s.State != lifecycle.StepResolvedManually:
		return fmt.Errorf("%d needs are unmet", unmet)
	case s.Claims > 0 && skipped && !n.HasIf:
		return fmt.Errorf("a step it needs was skipped")
	case !w.isHook(s) && !stopping && !isMarked(s) && s.State == lifecycle.StepPending && s.Mark == pawl.Clear && unmet == 0 && s.DueAt == 0 && w.job.State != lifecycle.JobPending:
		return fmt.Errorf("it is ready, and nothing is going to start it")
	}
	return nil
}

// over looks at a job to which nothing more can happen.
func (p *play) over() error {
	switch j := &p.job; {
	case !lifecycle.Job.Ended(j.State):
		return fmt.Errorf("stuck: nothing can happen, and the job is %s:\n%s", j.State, p.describe())
	case j.Active != 0 || j.Open != 0 && !p.unstarted || j.Blocked != 0 || j.Mark != pawl.Clear || j.DueAt != 0 || j.CompletedAt == 0:
		return fmt.Errorf("the job has ended with %+v", jobRow(j))
	case j.Ending != j.State:
		return fmt.Errorf("the job is %s, and was going to be %s", j.State, j.Ending)
	case p.parent != nil && p.parent.Mark != pawl.Attention:
		return fmt.Errorf("the step of the parent job is not told")
	case j.Error == nil && j.State != lifecycle.JobCompleted:
		return fmt.Errorf("the job is %s with error %v", j.State, j.Error)
	case j.State != lifecycle.JobCompleted && (j.Error.Class == "unknown" || !j.Error.Permanent):
		return fmt.Errorf("the job does not say why it failed for good: %+v", j.Error)
	}
	if err := p.replay(); err != nil {
		return err
	}
	return p.compare()
}

// replay walks every trail, which has to lead to the state of its record (K6).
func (w *trial) replay() error {
	states := make(map[pawl.Ord]machine.State)
	for _, m := range w.trail {
		table := lifecycle.Step
		if m.ord == 0 {
			table = lifecycle.Job
		}
		to, err := table.Next(m.from, m.event)
		if states[m.ord] == "" && m.from == "" && m.event == table.Create {
			to, err = table.Initial, nil
		}
		if err != nil || to != m.to || m.from != states[m.ord] {
			return fmt.Errorf("trail: %s, after %q", w.line(m), states[m.ord])
		}
		states[m.ord] = to
	}
	for ord, s := range w.steps {
		if states[ord] != s.State {
			return fmt.Errorf("%s is %s, and its trail leads to %q", w.def.Key(ord), s.State, states[ord])
		}
	}
	if states[0] != w.job.State || len(states) != len(w.steps)+1 {
		return fmt.Errorf("the job is %s, and its trail leads to %q", w.job.State, states[0])
	}
	return nil
}

// compare holds the job against its twin. If it was stopped, what may have
// happened depends on when; what has is still what was going to.
func (p *play) compare() error {
	fates, job := p.plan.fates(p.def)
	failed := false
	for ord, f := range fates { // an instance fails its node, unless an operator resolves that
		failed = failed || ord.Instance() == 0 && f.state == lifecycle.StepPermanentError
	}
	stopped := p.canceled || failed && p.def.OnError == workflow.Halt
	if p.canceled {
		job = lifecycle.JobCanceled
	}
	if p.job.State != job {
		return fmt.Errorf("the job is %s, want %s", p.job.State, job)
	}
	for ord, want := range p.plan.hookFates(p.def, job, p.late) {
		if err := p.compareStep(p.steps[ord], want, p.hooksCanceled || p.unstarted && p.canceled); err != nil {
			return fmt.Errorf("hook %s: %w", p.def.Key(ord), err)
		}
	}
	for ord, want := range fates {
		if err := p.compareStep(p.steps[ord], want, stopped); err != nil {
			return fmt.Errorf("%s: %w", p.def.Key(ord), err)
		}
	}
	if len(fates)+len(p.def.Hooks) < len(p.steps) {
		return fmt.Errorf("there are %d steps, want %d", len(p.steps), len(fates))
	}
	return p.compareErrors(failed)
}

func (p *play) compareStep(s *pawl.Step, want fate, stopped bool) error {
	if s == nil && stopped {
		return nil // an instance that never was
	}
	if s == nil {
		return fmt.Errorf("there is no such step, want %s", want.state)
	}
	got := fate{s.State, s.Attempts, s.Claims, s.Losses}
	switch {
	case got == want:
		return nil
	case !stopped || s.Claims > want.claims:
		return fmt.Errorf("it came to %+v, want %+v", got, want)
	case s.State == lifecycle.StepCancelled:
		return nil
	}
	return fmt.Errorf("the job was stopped, and it came to %+v, want %+v or cancelled", got, want)
}

// compareErrors holds that a job that failed names a step that did, and that a
// fan-out fails for a reason.
func (p *play) compareErrors(failed bool) error {
	if p.job.State == lifecycle.JobFailed && failed {
		named := p.selected(func(s *pawl.Step) bool {
			return p.def.Key(s.Ord) == p.job.Error.Step && s.State == lifecycle.StepPermanentError
		})
		if len(named) != 1 {
			return fmt.Errorf("the job failed because of %+v: there is no such step", p.job.Error)
		}
	}
	for _, ord := range p.ords {
		s := p.steps[ord]
		if s.State != lifecycle.StepPermanentError || !p.isFan(s) || s.Error.Class == "gather" || s.Error.Class == "expression" {
			continue
		}
		if !slices.ContainsFunc(p.ords, func(o pawl.Ord) bool {
			return o.Parent() == ord && o != ord && p.steps[o].State == lifecycle.StepPermanentError && p.def.Key(o) == s.Error.Step
		}) {
			return fmt.Errorf("%s failed because of %+v: there is no such instance", p.def.Key(ord), s.Error)
		}
	}
	return nil
}
