package explain

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Past returns a job as it was at a moment, rebuilt from its trail and those of its steps
// (K6): states, attempts, claims, workers, times, errors and pauses as they were known
// then. It includes the output of a step that had ended by then. The keys of steps are
// those of the job's present definition.
//
// Facts that the trail does not hold are those of today: how many instances a fan-out is to
// have, the request of a waiting step that has ended since, and the inputs and limits of a
// job that has moved to another version since. The error is of kind NotFound if the job did
// not exist yet.
func (r *Reader) Past(ctx context.Context, id pawl.ID, at pawl.Moment) (*pawl.JobView, error) {
	return r.pastOf(ctx, id, at, false)
}

// pastOf is Past; bare, the steps have no bodies.
func (r *Reader) pastOf(ctx context.Context, id pawl.ID, at pawl.Moment, bare bool) (*pawl.JobView, error) {
	j, err := store.FindJob(ctx, r.store, id)
	if err != nil {
		return nil, err
	}
	v, def, err := r.whole(ctx, j)
	if err != nil {
		return nil, err
	}
	p := &past{j: j, v: v, def: def, at: at, until: int64(at.Time), by: &audit.Withheld{}, bare: bare}
	p.begin()
	err = trail.EachEntry(ctx, r.store, store.JobEntity(j.Key()), func(e *audit.Entry) error { p.own(e); return nil })
	if err == nil {
		err = p.there()
	}
	if err != nil {
		return nil, err
	}
	p.end()
	if err := r.pastChildren(ctx, p); err != nil {
		return nil, err
	}
	if err := r.pastSteps(ctx, p); err != nil {
		return nil, err
	}
	showWithheld(v, p.by)
	return v, nil
}

// written returns how many entries of a trail had been written by then.
func written(trail []audit.Entry, until int64) int {
	n, _ := slices.BinarySearchFunc(trail, until, func(e audit.Entry, until int64) int {
		if e.At <= until {
			return -1
		}
		return 1
	})
	return n
}

// A past builds the view of a job.
type past struct {
	j   *pawl.Job
	v   *pawl.JobView // the job of today, being rewritten
	def *workflow.Definition
	at  pawl.Moment

	until    int64
	by       *audit.Withheld
	bare     bool  // no bodies of steps are read
	first    int64 // when the job's first entry was written
	last     int64 // the sequence of its last entry
	moves    lastMoves
	was      int64         // the sequence of the last entry written by then
	ending   bool          // the end of the job had begun
	ends     machine.State // how it was going to end, as far as the trail shows
	restored bool          // its old definition was restored from a later move
}

// begin removes from the view everything that the trail tells.
func (p *past) begin() {
	v := p.v
	v.StartedAt, v.CompletedAt, v.Paused, v.Ending = 0, 0, false, ""
}

// own applies the next entry of the job's own trail.
func (p *past) own(e *audit.Entry) {
	if p.last == 0 {
		p.first = e.At
	}
	had := p.was == p.last && (p.at.Sequence == 0 && e.At <= p.until || e.Sequence <= p.at.Sequence)
	p.last = e.Sequence
	p.by.Note(e)
	if p.ends == "" {
		p.ends = endIn(e)
	}
	if had {
		p.was = e.Sequence
		p.move(e)
	} else {
		p.moved(e)
	}
}

// move applies an entry that had been written by then.
func (p *past) move(e *audit.Entry) {
	v := p.v
	if p.at.Sequence > 0 {
		p.until = e.At
	}
	v.Status, v.UpdatedAt = e.To, pawl.Timestamp(e.At)
	switch e.Event {
	case lifecycle.JobAllocateResources:
		v.StartedAt = pawl.Timestamp(e.At)
	case lifecycle.JobPause:
		v.Paused = true
	case lifecycle.JobResume:
		v.Paused = false
	case lifecycle.JobHalt, lifecycle.JobHooks:
		p.ending = true
	}
	if lifecycle.Job.Ended(e.To) && e.From != e.To {
		v.CompletedAt = pawl.Timestamp(e.At)
	}
	p.moves.add(ownMove(e))
}

// there returns an error if the job, or the move, did not exist yet.
func (p *past) there() error {
	id := p.j.ID.Public(pawl.JobPrefix)
	switch n := p.at.Sequence; {
	case p.last == 0:
		return pawl.Errorf(pawl.Internal, "job %s has no trail", id)
	case n != 0 && (n < 1 || n > p.last):
		return &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("job %s has no move %d: the last one is %d", id, n, p.last), Hint: "see them with: pawl job history " + id + " --step job"}
	case p.was == 0:
		return pawl.Errorf(pawl.NotFound, "there was no job %s at %s: it was submitted at %s", id, p.at.Time, pawl.Timestamp(p.first))
	}
	return nil
}

// end sets how the job had ended, or was going to.
func (p *past) end() {
	v := p.v
	v.AsOf = pawl.Timestamp(p.until)
	v.StateHistory, v.HistoryOmitted = p.moves.list, p.moves.omitted
	end := v.Status
	if !lifecycle.Job.Ended(end) {
		end = ""
		if p.ending {
			end = cmp.Or(p.ends, p.j.Ending)
			v.Ending = end
		}
	}
	if end != lifecycle.JobFailed && end != lifecycle.JobCanceled {
		v.Error = nil
	}
	if end != lifecycle.JobCompleted || v.Status != end {
		v.Output = decide.OrNull(nil)
	}
}

// endIn returns how the job ends, if an entry says so.
func endIn(e *audit.Entry) machine.State {
	var told struct {
		Ending machine.State `json:"ending"`
	}
	switch {
	case lifecycle.Job.Ended(e.To):
		return e.To
	case e.Event == lifecycle.JobHooks && json.Unmarshal(e.Metadata, &told) == nil:
		return told.Ending
	}
	return ""
}

// moved restores the definition that the job had before it moved to another version, from
// the first such entry after the moment.
func (p *past) moved(e *audit.Entry) {
	if p.restored || e.Event != lifecycle.JobMove {
		return
	}
	p.restored = true
	var told struct {
		From workflow.Pin `json:"from"`
	}
	if json.Unmarshal(e.Metadata, &told) == nil && told.From.Hash != "" {
		p.v.DefinitionHash, p.v.Version = told.From.Hash, told.From.Version
	}
}

// pastChildren lists the child jobs that existed by then.
func (r *Reader) pastChildren(ctx context.Context, p *past) error {
	jobs, err := r.store.Jobs(ctx, store.JobFilter{Parent: p.j.Key(), Limit: store.MaxChildren, Bare: true})
	for _, child := range slices.Backward(jobs) {
		if child.CreatedAt <= p.until {
			p.v.ChildJobs = append(p.v.ChildJobs, child.ID.Public(pawl.JobPrefix))
		}
	}
	return err
}

// pastSteps rebuilds the steps that existed by then. Trails and steps both come ordered by
// ord.
func (r *Reader) pastSteps(ctx context.Context, p *past) error {
	p.v.StepCounts = make(map[machine.State]int)
	fans := make(map[int]*pawl.Instances)
	steps := &stepPages{store: r.store, job: p.j.Key()}
	if p.bare {
		steps.size = maxListBytes
	}
	today, err := steps.next(ctx)
	if err != nil {
		return err
	}
	return r.store.Trails(ctx, p.j.Key(), func(t store.TrailOf) error {
		for today != nil && today.Ord < t.Ord {
			if today, err = steps.next(ctx); err != nil {
				return err
			}
		}
		trail := t.Entries[:written(t.Entries, p.until)]
		if t.Ord == 0 || today == nil || today.Ord != t.Ord || len(trail) == 0 {
			return nil
		}
		v := p.step(today, trail)
		if v.Omitted = steps.bare; v.Omitted {
			v.Output, v.Error, v.Wait = decide.OrNull(nil), nil, nil
		}
		p.v.StepCounts[v.Status]++
		p.v.Steps = append(p.v.Steps, v)
		if v.Instances != nil {
			fans[t.Ord.Node()] = v.Instances
		}
		if of := fans[t.Ord.Node()]; of != nil && t.Ord.Instance() > 0 {
			of.Made++
			if !lifecycle.Step.Ended(v.Status) {
				of.Live++
			}
		}
		return nil
	})
}

// step rebuilds one step from the part of its trail written by then, and from its present
// record.
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
		v.Instances.Made, v.Instances.Live = 0, 0 // counted one by one
	}
	return v
}

// A fold is the state of a step after the entries read so far.
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
	case lifecycle.StepLost:
		s.Attempts--
	case lifecycle.StepInterrupt:
		s.Attempts--
		f.retry(e) // it may have snoozed
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

// claim records which worker claimed the step; the engine is not a worker.
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

// retry records when the next attempt is due, if not at once.
func (f *fold) retry(e *audit.Entry) {
	var told struct {
		NotBefore pawl.Timestamp `json:"not_before"`
	}
	if json.Unmarshal(e.Metadata, &told) == nil && int64(told.NotBefore) > e.At {
		f.step.DueAt, f.step.DueEvent = int64(told.NotBefore), lifecycle.StepEnqueue
	}
}

// failure records why an attempt failed. If the entry does not hold the failure of the
// step's end, the step itself does: nothing has changed it since.
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
		return // an interrupt is not a failure, though it has a reason
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

// failureIn returns the failure that an entry holds, or nil. It is kept beside the entry
// or, if the entry is older than seals, in its metadata.
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

// asked returns the step's request to wait, without its result if it had none yet.
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
