package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Past answers a job as it was at a moment, rebuilt from its trail and those of
// its steps (K6): states, attempts, claims, workers, times, errors and pauses as
// they were known then. A step's output is there if it had ended by then. The
// keys of steps are those of the definition that the job has now.
//
// What the trail does not carry is as it is today: how many instances a fan-out
// is to have, what a step that has ended since had been asked to wait for, and
// inputs and limits of a job that has moved to another version since.
// The error is of kind NotFound if there was no such job yet.
func (e *Engine) Past(ctx context.Context, id pawl.ID, at pawl.Moment) (*pawl.JobView, error) {
	j, err := e.find(ctx, id)
	if err != nil {
		return nil, err
	}
	v, def, err := e.whole(ctx, j)
	if err != nil {
		return nil, err
	}
	trails, err := e.trails(ctx, j.Key())
	if err != nil {
		return nil, err
	}
	own, err := ownTrail(j, trails[0], at)
	if err != nil {
		return nil, err
	}
	until := int64(at.Time)
	if at.Sequence > 0 {
		until = own[len(own)-1].At
	}
	p := &past{j: j, v: v, def: def, until: until, workers: make(map[string]bool)}
	p.job(own, trails[0][len(own):])
	if err := e.pastChildren(ctx, p); err != nil {
		return nil, err
	}
	if err := e.pastSteps(ctx, p, trails[1]); err != nil {
		return nil, err
	}
	showWithheld(v, audit.WithheldBy(trails[0]))
	return v, nil
}

// trails reads all entries of a job: its own, and those of its steps one step
// after another.
func (e *Engine) trails(ctx context.Context, job int64) (all [2][]audit.Entry, err error) {
	err = e.store.Trails(ctx, job, func(t store.TrailOf) error {
		of := 0
		if t.Ord != 0 {
			of = 1
		}
		all[of] = append(all[of], t.Entries...)
		return nil
	})
	return all, err
}

// ownTrail answers the part of a job's own trail that had been written.
func ownTrail(j *pawl.Job, trail []audit.Entry, at pawl.Moment) ([]audit.Entry, error) {
	id := j.ID.Public(pawl.JobPrefix)
	if len(trail) == 0 {
		return nil, pawl.Errorf(pawl.Internal, "job %s has no trail", id)
	}
	if at.Sequence != 0 {
		if last := trail[len(trail)-1].Sequence; at.Sequence < 1 || at.Sequence > last {
			return nil, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("job %s has no move %d: the last one is %d", id, at.Sequence, last), Hint: "see them with: pawl job history " + id + " --step job"}
		}
		return trail[:at.Sequence], nil
	}
	n := written(trail, int64(at.Time))
	if n == 0 {
		return nil, pawl.Errorf(pawl.NotFound, "there was no job %s at %s: it was submitted at %s", id, at.Time, pawl.Timestamp(trail[0].At))
	}
	return trail[:n], nil
}

// written answers how many entries of a trail had been written.
func written(trail []audit.Entry, until int64) int {
	n, _ := slices.BinarySearchFunc(trail, until, func(e audit.Entry, until int64) int {
		if e.At <= until {
			return -1
		}
		return 1
	})
	return n
}

// A past is the view of a job in the making.
type past struct {
	j       *pawl.Job
	v       *pawl.JobView // as the job is today; rewritten
	def     *workflow.Definition
	until   int64
	workers map[string]bool // known to be workers, or not
}

// job rebuilds the job itself from what had been written of its trail; the rest
// tells how it was going to end, and which definition it had.
func (p *past) job(own, rest []audit.Entry) {
	v := p.v
	last := &own[len(own)-1]
	v.AsOf, v.Status, v.UpdatedAt = pawl.Timestamp(p.until), last.To, pawl.Timestamp(last.At)
	v.StartedAt, v.CompletedAt, v.Paused, v.Ending = 0, 0, false, ""
	ending := false
	for i := range own {
		e := &own[i]
		switch e.Event {
		case lifecycle.JobAllocateResources:
			v.StartedAt = pawl.Timestamp(e.At)
		case lifecycle.JobPause:
			v.Paused = true
		case lifecycle.JobResume:
			v.Paused = false
		case lifecycle.JobHalt, lifecycle.JobHooks:
			ending = true
		}
		if lifecycle.Job.Ended(e.To) && e.From != e.To {
			v.CompletedAt = pawl.Timestamp(e.At)
		}
		t := pawl.TransitionOf(e)
		t.Entity = ""
		v.StateHistory = append(v.StateHistory, t)
	}
	end := v.Status
	if !lifecycle.Job.Ended(end) {
		end = ""
		if ending {
			end = endOf(own, rest, p.j.Ending)
			v.Ending = end
		}
	}
	if end != lifecycle.JobFailed && end != lifecycle.JobCanceled {
		v.Error = nil
	}
	if end != lifecycle.JobCompleted || v.Status != end {
		v.Output = orNull(nil)
	}
	p.moved(rest)
}

// endOf answers how a job whose end had begun was going to end.
func endOf(own, rest []audit.Entry, today machine.State) machine.State {
	for _, entries := range [][]audit.Entry{own, rest} {
		for i := range entries {
			var told struct {
				Ending machine.State `json:"ending"`
			}
			e := &entries[i]
			if lifecycle.Job.Ended(e.To) {
				return e.To
			}
			if e.Event == lifecycle.JobHooks && json.Unmarshal(e.Metadata, &told) == nil && told.Ending != "" {
				return told.Ending
			}
		}
	}
	return today
}

// moved gives the job the definition that it had before it moved to another
// version, if that came later.
func (p *past) moved(rest []audit.Entry) {
	for i := range rest {
		if rest[i].Event != lifecycle.JobMove {
			continue
		}
		var told struct {
			From Pin `json:"from"`
		}
		if json.Unmarshal(rest[i].Metadata, &told) == nil && told.From.Hash != "" {
			p.v.DefinitionHash, p.v.Version = told.From.Hash, told.From.Version
		}
		return
	}
}

// pastChildren names the child jobs that there were.
func (e *Engine) pastChildren(ctx context.Context, p *past) error {
	jobs, err := e.store.Jobs(ctx, store.JobFilter{Parent: p.j.Key(), Limit: maxChildren, Bare: true})
	for _, child := range slices.Backward(jobs) {
		if child.CreatedAt <= p.until {
			p.v.ChildJobs = append(p.v.ChildJobs, child.ID.Public(pawl.JobPrefix))
		}
	}
	return err
}

// pastSteps rebuilds the steps that there were.
func (e *Engine) pastSteps(ctx context.Context, p *past, entries []audit.Entry) error {
	trails := make(map[pawl.Ord][]audit.Entry)
	for len(entries) > 0 {
		n := slices.IndexFunc(entries, func(e audit.Entry) bool { return e.Entity != entries[0].Entity })
		if n < 0 {
			n = len(entries)
		}
		id, err := pawl.ParseID(pawl.StepPrefix, entries[0].Entity)
		if err != nil {
			return err
		}
		trails[id.StepKey().Ord], entries = entries[:n], entries[n:]
	}
	p.v.StepCounts = make(map[machine.State]int)
	fans := make(map[int]*pawl.Instances)
	for after := pawl.Ord(0); ; {
		page, err := e.store.Steps(ctx, p.j.Key(), after, gatherPage)
		if err != nil {
			return err
		}
		for _, s := range page {
			after = s.Ord
			trail := trails[s.Ord]
			if trail = trail[:written(trail, p.until)]; len(trail) == 0 {
				continue
			}
			v := p.step(s, trail)
			p.v.StepCounts[v.Status]++
			p.v.Steps = append(p.v.Steps, v)
			if v.Instances != nil {
				fans[s.Ord.Node()] = v.Instances
			}
			if of := fans[s.Ord.Node()]; of != nil && s.Ord.Instance() > 0 {
				of.Made++
				if !lifecycle.Step.Ended(v.Status) {
					of.Live++
				}
			}
		}
		if len(page) == 0 {
			slices.SortFunc(p.v.Steps, func(a, b pawl.StepView) int { return cmp.Compare(a.Ord, b.Ord) })
			return nil
		}
	}
}

// step rebuilds one step from what had been written of its trail, and what it
// is today.
func (p *past) step(today *pawl.Step, trail []audit.Entry) pawl.StepView {
	f := &fold{step: pawl.Step{StepKey: today.StepKey}, today: today}
	for i := range trail {
		f.entry(&trail[i])
	}
	s := &f.step
	if lifecycle.Step.Ended(s.State) {
		s.Output = today.Output
	}
	if s.Claims > 0 {
		s.Total = today.Total
		s.Input = f.asked()
	}
	if s.DueAt <= p.until {
		s.DueAt, s.DueEvent = 0, ""
	}
	v := stepView(p.j, p.def, s, f.worker)
	if v.Instances != nil {
		v.Instances.Made, v.Instances.Live = 0, 0 // counted as they come
	}
	return v
}

// A fold is a step as far as its trail has been read.
type fold struct {
	step   pawl.Step
	today  *pawl.Step
	worker string
}

func (f *fold) entry(e *audit.Entry) {
	s := &f.step
	s.State, s.Seq, s.UpdatedAt = e.To, e.Sequence, e.At
	s.DueAt, s.DueEvent = 0, ""
	switch e.Event {
	case lifecycle.StepClaim:
		f.claim(e)
	case lifecycle.StepLost, lifecycle.StepInterrupt:
		s.Attempts--
	case lifecycle.StepQueueTimeout:
		s.Attempts++
		f.worker = ""
	case lifecycle.StepRetry:
		f.retry(e)
	}
	if lifecycle.Step.Ended(e.To) {
		s.CompletedAt = e.At
	}
	f.failure(e)
}

// claim reads who claimed the step; the engine is no worker.
func (f *fold) claim(e *audit.Entry) {
	var told struct {
		Attempt int `json:"attempt"`
		Claim   int `json:"claim"`
	}
	if json.Unmarshal(e.Metadata, &told) == nil {
		f.step.Attempts, f.step.Claims = told.Attempt, told.Claim
	}
	f.step.StartedAt, f.worker = e.At, ""
	if strings.HasPrefix(e.Actor, pawl.WorkerPrefix) {
		f.worker = e.Actor
	}
}

// retry reads when the next attempt is due, if not at once.
func (f *fold) retry(e *audit.Entry) {
	var told struct {
		NotBefore pawl.Timestamp `json:"not_before"`
	}
	if json.Unmarshal(e.Metadata, &told) == nil && int64(told.NotBefore) > e.At {
		f.step.DueAt, f.step.DueEvent = int64(told.NotBefore), lifecycle.StepEnqueue
	}
}

// failure reads why an attempt failed. A failure that the entry does not tell is
// the step's own, if that was its end: nothing has changed it since.
func (f *fold) failure(e *audit.Entry) {
	switch e.Event {
	case lifecycle.StepExhaust:
		if f.step.Error != nil {
			last := *f.step.Error
			last.Permanent, last.Reason, last.Delay = true, e.Reason, 0
			f.step.Error = &last
		}
		return
	case lifecycle.StepFail, lifecycle.StepTimeout, lifecycle.StepLost, lifecycle.StepQueueTimeout, lifecycle.StepFailPermanently, lifecycle.StepCancel:
	default:
		return // an interrupt is no failure, though it says why
	}
	switch told := failureIn(e); {
	case told != nil:
		f.step.Error = told
	case e.Event == lifecycle.StepCancel:
	case e.Event == lifecycle.StepFailPermanently && f.today.Error != nil:
		f.step.Error = f.today.Error
	default:
		f.step.Error = &pawl.Failure{Class: "unknown", Message: "the step failed", Permanent: true}
	}
}

// failureIn reads the failure that an entry tells, or nil: beside it or, if the entry is
// older than seals, in its metadata.
func failureIn(e *audit.Entry) *pawl.Failure {
	if s := e.SealOf(audit.FieldFailure); s != nil {
		if s.Payload == nil {
			return pawl.Redacted()
		}
		f, err := store.DecodeFailure(s.Payload)
		if err != nil {
			return nil
		}
		return f
	}
	if e.Redacted() {
		return pawl.Redacted()
	}
	var told struct {
		Failure *pawl.Failure `json:"failure"`
	}
	if len(e.Metadata) == 0 || json.Unmarshal(e.Metadata, &told) != nil {
		return nil
	}
	return told.Failure
}

// asked answers what the step was asked to wait for, without how that ended if
// it had not.
func (f *fold) asked() json.RawMessage {
	w := waitIn(f.today)
	if f.step.Seq == f.today.Seq || w.By == "" && w.Reason == "" {
		return f.today.Input
	}
	if lifecycle.Step.Ended(f.step.State) {
		return f.today.Input
	}
	w.By, w.Reason = "", ""
	raw, err := json.Marshal(w)
	if err != nil {
		return nil
	}
	return raw
}
