package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// An intervention is an operator's action on a job or one of its steps (T13). It sees all
// nodes of the job, so that the consequences are decided at once.
type intervention struct {
	e    *Engine
	job  *jobFacts
	step pawl.Ord       // 0: the job itself
	read decide.Answers // known facts about steps that are not in their rows
	do   func(d *decide.Decision, s *pawl.Step) error
}

// intervene applies an intervention, once per request. key names the step; empty means the
// job.
func (e *Engine) intervene(ctx context.Context, id pawl.ID, key string, r *request, c pawl.Change, do func(*decide.Decision, *pawl.Step) error) (pawl.Receipt, error) {
	now, err := e.current(ctx, id)
	if err != nil {
		return pawl.Receipt{}, err
	}
	i := &intervention{e: e, job: now, do: do}
	if key != "" {
		if i.step, err = now.def.OrdOf(key); err != nil {
			return e.refuseAction(ctx, r, err)
		}
		if i.read, err = e.around(ctx, id, i.step, now.def); err != nil {
			return pawl.Receipt{}, err
		}
	}
	return e.act(ctx, r, i, c)
}

// around reads the facts that an intervention in a step may need: the form of an approval,
// and why other steps have failed.
func (e *Engine) around(ctx context.Context, id pawl.ID, ord pawl.Ord, def *workflow.Definition) (a decide.Answers, err error) {
	if n := def.Node(ord.Node()); n.Kind == workflow.KindApproval && (ord.Instance() > 0 || !n.Fans()) {
		w, err := e.waitOf(ctx, pawl.StepKey{Job: id.JobKey(), Ord: ord})
		if err != nil {
			return a, err
		}
		a.Waits = map[pawl.Ord]pawl.Wait{ord: w}
	}
	a.Errors, err = e.failures(ctx, id, def)
	return a, err
}

// failures reads why steps of a draining job have failed: when one of them is resolved, the
// job fails because of another.
func (e *Engine) failures(ctx context.Context, id pawl.ID, def *workflow.Definition) (map[pawl.Ord]*pawl.Failure, error) {
	if def.OnError != workflow.Drain {
		return nil, nil
	}
	var keys []pawl.StepKey
	for n := range def.Nodes {
		keys = append(keys, pawl.StepKey{Job: id.JobKey(), Ord: pawl.MakeOrd(n+1, 0)})
	}
	why := make(map[pawl.Ord]*pawl.Failure)
	for few := range slices.Chunk(keys, fewBodies) {
		bodies, err := e.store.Bodies(ctx, few)
		if err != nil {
			return nil, err
		}
		for k, b := range bodies {
			if b.State == lifecycle.StepPermanentError {
				why[k.Ord] = b.Error
			}
		}
	}
	return why, nil
}

// fewBodies is how many steps are read at once with their bodies if little of these is
// kept.
const fewBodies = 8

func (i *intervention) subject() store.EntityKey {
	return store.StepEntity(pawl.StepKey{Job: i.job.id.JobKey(), Ord: i.step})
}

func (i *intervention) query(q *store.Query) { i.job.ask(q, decide.OperateReads(i.step)) }

func (i *intervention) decide(t *tx) error {
	j := t.job(i.job.id.JobKey())
	if j == nil || j.ID != i.job.id {
		return store.NoJob(i.job.id)
	}
	d, err := i.e.decision(t, j.Key(), i.read)
	if err != nil {
		return err
	}
	var s *pawl.Step
	if i.step != 0 {
		if s = t.step(pawl.StepKey{Job: j.Key(), Ord: i.step}); s == nil {
			return pawl.Errorf(pawl.NotFound, "job %s has no step %s yet", j.ID.Public(pawl.JobPrefix), d.Definition.Key(i.step))
		}
	}
	if err := i.do(d, s); err != nil {
		return err
	}
	return d.Refill()
}

func noteOf(c pawl.Change) decide.Note {
	return decide.Note{Actor: c.Actor, Reason: c.Reason, RequestID: c.RequestID}
}

// MaxReason bounds an operator's reason, in bytes.
const MaxReason = 4096

func checkChange(c pawl.Change) error {
	if len(c.Reason) > MaxReason || !utf8.ValidString(c.Reason) {
		return pawl.Errorf(pawl.Invalid, "reason: want text of at most %d bytes in UTF-8", MaxReason)
	}
	return nil
}

// PauseJob keeps the steps of a job from being enqueued until it is resumed. Running steps
// continue, and so do deadlines (J2).
func (e *Engine) PauseJob(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	return e.operate(ctx, id, c, "pause", func(d *decide.Decision) error { return d.Pause(noteOf(c)) })
}

// ResumeJob ends a pause.
func (e *Engine) ResumeJob(ctx context.Context, id pawl.ID, c pawl.Change) (pawl.Receipt, error) {
	done, err := e.operate(ctx, id, c, "resume", func(d *decide.Decision) error { return d.Resume(noteOf(c)) })
	if err == nil {
		e.evaluator.pending(id.JobKey()) // in case it has not started
		e.wake(manySteps, true, false)
	}
	return done, err
}

// RetryStep starts the next attempt of a step in backoff now.
func (e *Engine) RetryStep(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return e.operateStep(ctx, id, step, c, verb{"retry", nil}, func(d *decide.Decision, s *pawl.Step) error { return d.Retry(s, noteOf(c)) })
}

// SkipStep ends a step as skipped; its dependents behave as for a false condition.
func (e *Engine) SkipStep(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return e.operateStep(ctx, id, step, c, verb{"skip", nil}, func(d *decide.Decision, s *pawl.Step) error { return d.Skip(s, noteOf(c)) })
}

// applyWait bounds how long a verb waits for an engine to decide what follows from a
// failure.
const applyWait = 2 * time.Second

// ResolveStep ends a step as resolved_manually with the given output (JSON); its dependents
// continue. Right after a failure it waits up to 2 s for an engine to decide what follows,
// and returns a decide.ErrNotApplied if none has.
func (e *Engine) ResolveStep(ctx context.Context, id pawl.ID, step string, output json.RawMessage, c pawl.Change) (pawl.Receipt, error) {
	output, err := checkData("output", output)
	if err != nil {
		return pawl.Receipt{}, err
	}
	return e.onceWeighed(ctx, id, func() (pawl.Receipt, error) {
		return e.operateStep(ctx, id, step, c, verb{"resolve", output}, func(d *decide.Decision, s *pawl.Step) error { return d.Resolve(s, output, noteOf(c)) })
	})
}

// onceWeighed calls do, and calls it again after each change of the job while the error is
// decide.ErrNotApplied.
func (e *Engine) onceWeighed(ctx context.Context, id pawl.ID, do func() (pawl.Receipt, error)) (done pawl.Receipt, err error) {
	if trying(ctx) {
		return do()
	}
	wait, cancel := context.WithTimeout(ctx, applyWait)
	defer cancel()
	_ = e.Watch(wait, id, func() (bool, error) { // ends with wait, or when do returns another result
		done, err = do()
		return errors.Is(err, decide.ErrNotApplied), nil
	})
	return done, err
}

// Approve gives the approval that a step waits for. The form has values by field name, as
// the step declares it; omitted fields take their defaults.
func (e *Engine) Approve(ctx context.Context, id pawl.ID, step string, form map[string]any, c pawl.Change) (pawl.Receipt, error) {
	return e.operateStep(ctx, id, step, c, verb{"approve", form}, func(d *decide.Decision, s *pawl.Step) error {
		if d.Definition.Node(s.Ord.Node()).Kind != workflow.KindApproval {
			return d.Approve(s, nil, noteOf(c)) // returns the refusal
		}
		bound, err := d.Definition.BindForm(s.Ord.Node(), form)
		if err == nil {
			err = inTime(d, s)
		}
		if err != nil {
			return err
		}
		return d.Approve(s, bound, noteOf(c))
	})
}

// Reject denies the approval that a step waits for: the step fails permanently.
func (e *Engine) Reject(ctx context.Context, id pawl.ID, step string, c pawl.Change) (pawl.Receipt, error) {
	return e.operateStep(ctx, id, step, c, verb{"reject", nil}, func(d *decide.Decision, s *pawl.Step) error {
		if err := inTime(d, s); err != nil {
			return err
		}
		return d.Reject(s, noteOf(c))
	})
}

// inTime refuses to decide an approval whose time has expired, even if no engine has
// applied the deadline yet.
func inTime(d *decide.Decision, s *pawl.Step) error {
	asked := s.State == lifecycle.StepInProgress && d.Definition.Node(s.Ord.Node()).Kind == workflow.KindApproval
	if asked && s.DueAt != 0 && s.DueAt <= d.Now {
		return pawl.Errorf(pawl.Conflict, "the approval of step %s has expired", d.Definition.Key(s.Ord))
	}
	return nil
}

func (e *Engine) operate(ctx context.Context, id pawl.ID, c pawl.Change, verb string, do func(*decide.Decision) error) (pawl.Receipt, error) {
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	known := new(action)
	r, done, err := e.asked(ctx, id, c, verb, known)
	if done || err != nil {
		return known.result(err)
	}
	return e.intervene(ctx, id, "", r, c, func(d *decide.Decision, _ *pawl.Step) error { return do(d) })
}

// A verb is an action on a step with its arguments, which have a form in JSON.
type verb struct {
	name string
	with any
}

func (e *Engine) operateStep(ctx context.Context, id pawl.ID, step string, c pawl.Change, v verb, do func(*decide.Decision, *pawl.Step) error) (pawl.Receipt, error) {
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	if step == "" {
		return pawl.Receipt{}, pawl.Errorf(pawl.Invalid, "step %q: want its key, such as load or load[3]", step)
	}
	known := new(action)
	r, done, err := e.asked(ctx, id, c, "steps/{step}/"+v.name, known, step, v.with)
	if done || err != nil {
		return known.result(err)
	}
	return e.intervene(ctx, id, step, r, c, do)
}

// checkData returns external JSON in compact form, or null if there is none.
func checkData(field string, data json.RawMessage) (json.RawMessage, error) {
	if len(data) == 0 {
		return json.RawMessage("null"), nil
	}
	if len(data) > MaxOutput {
		return nil, pawl.Errorf(pawl.Invalid, "%s: %d bytes: at most %d are allowed", field, len(data), MaxOutput)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil || !utf8.Valid(data) {
		return nil, pawl.Errorf(pawl.Invalid, "%s: want JSON in UTF-8", field)
	}
	if err := workflow.CheckJSON(compact.Bytes()); err != nil {
		return nil, pawl.Errorf(pawl.Invalid, "%s: %v", field, err)
	}
	return compact.Bytes(), nil
}

// Signal sends a signal to a job: the oldest step that waits for the name takes it, or the
// next one that will. The data is JSON; no data means null. The same request id makes no
// second signal (J8).
func (e *Engine) Signal(ctx context.Context, id pawl.ID, name string, data json.RawMessage, c pawl.Change) (pawl.Receipt, error) {
	data, err := checkData("data", data)
	if err != nil {
		return pawl.Receipt{}, err
	}
	if err := checkChange(c); err != nil {
		return pawl.Receipt{}, err
	}
	if !workflow.IsID(name) {
		return pawl.Receipt{}, pawl.Errorf(pawl.Invalid, "event %q: want the name of an event: a-z first, then a-z, 0-9 and _", name)
	}
	known := new(action)
	r, done, err := e.asked(ctx, id, c, "signal", known, name, data)
	if done || err != nil {
		return known.result(err)
	}
	now, err := e.current(ctx, id)
	if err != nil {
		return pawl.Receipt{}, err
	}
	if !now.def.Hears(name) {
		return e.refuseAction(ctx, r, &pawl.Error{Kind: pawl.Invalid, Message: "no step of workflow " + now.def.Name + " waits for the event " + name, Hint: "see its steps with: pawl job show " + id.Public(pawl.JobPrefix)})
	}
	return e.act(ctx, r, &signal{e: e, id: id, name: name, data: data, note: noteOf(c)}, c)
}

type signal struct {
	e    *Engine
	id   pawl.ID
	name string
	data json.RawMessage
	note decide.Note
}

func (s *signal) subject() store.EntityKey { return store.JobEntity(s.id.JobKey()) }

func (s *signal) query(q *store.Query) {
	q.Jobs = append(q.Jobs, s.id.JobKey())
	q.Untaken = append(q.Untaken, s.id.JobKey())
}

func (s *signal) weight() int { return 1 + len(s.data)/heavyBytes }

func (s *signal) decide(t *tx) error {
	j := t.job(s.id.JobKey())
	if j == nil || j.ID != s.id {
		return store.NoJob(s.id)
	}
	switch waiting := t.untaken(j.Key()); {
	case waiting.Count >= store.MaxSignals:
		return pawl.Errorf(pawl.Conflict, "job %s has %d signals that no step has taken: that is the most", s.id.Public(pawl.JobPrefix), waiting.Count)
	case waiting.Bytes+len(s.data) > store.MaxSignalBytes:
		return pawl.Errorf(pawl.Conflict, "data: %d bytes: job %s has signals with %d bytes of data that no step has taken, and may have %d",
			len(s.data), s.id.Public(pawl.JobPrefix), waiting.Bytes, store.MaxSignalBytes)
	}
	note := s.note
	note.Metadata, note.Data = []byte(`{"event":"`+s.name+`"}`), s.data
	if err := t.moveJob(j, lifecycle.JobSignal, note); err != nil {
		return err
	}
	if j.State == lifecycle.JobRunning {
		j.MarkNow()
	}
	t.newSignals = append(t.newSignals, &pawl.Signal{Job: j.Key(), Seq: j.Seq, Name: s.name, Data: s.data, At: t.now, Actor: note.Actor})
	return nil
}
