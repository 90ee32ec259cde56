package engine

import (
	"encoding/json"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A report stores and applies one outcome.
type report struct {
	e     *Engine
	r     *link.Report
	job   *jobFacts // nil: not in memory, so that only the step is in sight
	taken bool      // it completed a node whose output others may need

	settled bool // a transaction of the handler has completed the step

	judged  bool // of a remote worker: it was not reported before
	late    bool // of a remote worker: the fence refuses it, and whether it was reported before has to be found out
	current int  // the claim of the step
}

// newReport returns the command for a report. Metadata of a failure that is not JSON cannot
// be stored, and is omitted.
func (e *Engine) newReport(r *link.Report) *report {
	if f := r.Failure; f != nil && len(f.Metadata) > 0 && !json.Valid(f.Metadata) {
		report, failure := *r, *f
		failure.Metadata, report.Failure = nil, &failure
		r = &report
	}
	return &report{e: e, r: r}
}

func (r *report) weight() int { return r.r.Weight() }

func (r *report) query(q *store.Query) {
	if r.job, _ = r.e.jobs.get(r.r.Step.Job); r.job == nil {
		ask(q, r.r.Step.Job, pawl.StepKey{}, decide.StepReads(r.r.Step.Ord)) // the outcome is stored with a mark, and applied by the evaluator
		return
	}
	r.job.ask(q, decide.ReportReads(r.job.def, r.r.Step.Ord, r.job.slots))
}

func (r *report) decide(t *tx) error {
	r.taken, r.settled, r.late, r.current = false, false, false, 0 // reset the results of an earlier try
	s := t.step(r.r.Step)
	if s == nil || t.job(s.Job) == nil {
		return pawl.Errorf(pawl.NotFound, "there is no step %s", r.r.Step)
	}
	if r.settled = r.r.Settled && s.Claims == r.r.Claim && s.State == lifecycle.StepComplete; r.settled {
		return nil
	}
	r.current = s.Claims
	if why := fenced(r.r, s); why != "" {
		if r.late = r.r.By != 0 && !r.judged; r.late {
			return nil
		}
		t.refusals = append(t.refusals, r.refusal(t, why))
		return nil
	}
	r.taken = r.r.Event == lifecycle.StepSuccess && s.Ord.Instance() == 0
	blind := r.job == nil || r.e.outdated(t, s.Job, r.job)
	err := r.apply(t, s, blind)
	if err == nil || blind {
		return err
	}
	// The consequences cannot be decided now. The outcome is stored anyway, with a mark;
	// otherwise the step would be in progress forever.
	r.e.log.Error("an outcome could not be applied; it is marked", "step", r.r.Step.String(), "error", err)
	t.undo()
	t.open()
	return r.apply(t, t.step(r.r.Step), true)
}

// apply stores the outcome and applies it. If blind, it leaves applying it to the
// evaluator, and needs no definition.
func (r *report) apply(t *tx, s *pawl.Step, blind bool) error {
	rep := r.r.Report
	rep.Note.Actor = r.r.Actor
	if rep.Failure != nil {
		rep.Note.Reason = "" // the text that a worker gives of a failure is payload
	}
	if blind {
		return blindly(t, s, t.job(s.Job)).Report(s, rep)
	}
	d := r.e.decisionBy(t, s.Job, r.job.def, decide.Answers{})
	if err := d.Report(s, rep); err != nil {
		return err
	}
	return d.Refill()
}

// fenced returns why the fence refuses a report: the claim that it is of is not the one that
// the step is in. It returns "" for a report that counts (T5).
func fenced(r *link.Report, s *pawl.Step) string {
	switch {
	case s.Claims != r.Claim:
		return "the step has been claimed again since"
	case s.State != lifecycle.StepInProgress:
		return "the step is " + string(s.State) + " by now"
	case r.By != 0 && s.Worker != r.By:
		return "another worker has the step"
	}
	return ""
}

func (r *report) refusal(t *tx, why string) pawl.Refusal {
	data, err := json.Marshal(struct {
		Output  json.RawMessage `json:"output,omitempty"`
		Failure *pawl.Failure   `json:"failure,omitempty"`
	}{r.r.Output, r.r.Failure})
	if err != nil {
		data = nil
	}
	return pawl.Refusal{StepKey: r.r.Step, At: t.now, Claim: r.r.Claim, Event: r.r.Event, Actor: r.r.Actor, Why: why, Data: data}
}

// blindly returns a decision about s that stores an outcome and leaves it for the evaluator
// to apply: the decision sees neither the job nor its definition.
func blindly(t *tx, s *pawl.Step, j *pawl.Job) *decide.Decision {
	return &decide.Decision{JobTx: unlocked{jobTx{t: t, key: s.Job}, j}, Now: t.now}
}

// unlocked is a jobTx whose job is not locked: a decision cannot apply an outcome there,
// and leaves a mark.
type unlocked struct {
	jobTx
	job *pawl.Job
}

func (unlocked) Job() *pawl.Job { return nil }

func (u unlocked) Move(s *pawl.Step, event machine.Event, note decide.Note) error {
	return u.t.moveStep(u.job, s, event, note)
}
