package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// stepReason begins a reason of a step.
func (q *inquiry) stepReason(s *pawl.Step, kind pawl.ReasonKind, format string, args ...any) pawl.Reason {
	return pawl.Reason{Job: q.id, Step: q.def.Key(s.Ord), Status: s.State, Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// command returns the command that an operator types for a step.
func (q *inquiry) command(verb string, s *pawl.Step) string {
	return "pawl step " + verb + " " + q.id + " " + q.def.Key(s.Ord)
}

// ofStep returns the full reason why a step is in its state. Every step has been read.
func (q *inquiry) ofStep(s *pawl.Step) (r pawl.Reason, err error) {
	r = q.shallow(s)
	if s.State == lifecycle.StepEnqueued {
		if held, err := q.heldBack(s, &r); held || err != nil {
			return r, err
		}
	}
	switch r.Kind {
	case pawl.ReasonJobSlots:
		q.forSlot(&r)
	case pawl.ReasonBackoff:
		err = q.lastAttempt(s, &r)
	case pawl.ReasonChild:
		err = q.ofChild(s, &r)
	case pawl.ReasonFanOut:
		q.ofFan(s, &r)
	case pawl.ReasonPaused:
		paused, e := q.paused()
		r.Text, r.Change, r.Hint, err = "the job is "+strings.TrimPrefix(paused.Text, "the job is "), paused.Change, paused.Hint, e
	}
	return r, err
}

// forSlot completes the reason of a step that waits for a slot of its job. A step that
// waits while a slot is free was passed over, which is a fault; jobs that earlier versions
// left in this state continue after a pause and a resume.
func (q *inquiry) forSlot(r *pawl.Reason) {
	r.Names, r.Slots = q.active, &pawl.Slots{Of: "job", Takes: 1, Used: q.taken, Slots: q.job.WorkerCount}
	if q.job.Active < q.job.WorkerCount && q.taken < q.job.WorkerCount {
		r.Text = fmt.Sprintf("%d of %s of the job are in use, and it was not given a free one", q.taken, number(q.job.WorkerCount, "slot", "slots"))
		r.Hint = "pawl job pause " + q.id + " && pawl job resume " + q.id
		return
	}
	r.Text = fmt.Sprintf("all %s of the job are in use: %s", number(q.job.WorkerCount, "slot", "slots"), listed(q.active, q.taken))
}

// shallow returns why a step is in its state, from the step, its fan-out and the scene
// alone. It reads nothing, since it is called for thousands of instances.
func (q *inquiry) shallow(s *pawl.Step) pawl.Reason {
	switch s.State {
	case lifecycle.StepPending:
		return q.pendingStep(s)
	case lifecycle.StepEnqueued:
		return q.enqueuedStep(s)
	case lifecycle.StepInProgress:
		return q.stepUnderway(s)
	case lifecycle.StepRetryableError:
		return q.evaluation(s, "it has failed, and waits for a server to apply that")
	}
	r := q.stepReason(s, pawl.ReasonEnded, "it ended at %s", q.clock(s.CompletedAt))
	if s.Error != nil && s.State != lifecycle.StepComplete {
		r.Text += ": " + s.Error.Text()
	}
	return r
}

func (q *inquiry) evaluation(s *pawl.Step, text string) pawl.Reason {
	r := q.stepReason(s, pawl.ReasonEvaluation, "%s%s", text, q.nobody())
	r.Hint = q.somebody()
	return r
}

func (q *inquiry) pendingStep(s *pawl.Step) pawl.Reason {
	hook := q.def.Node(s.Ord.Node()).Hook != workflow.NoHook
	switch {
	case hook && (q.job.Hooks == pawl.HooksNotYet || !q.turn(s)):
		return q.hook(s)
	case s.Mark == pawl.Blocked:
		return q.blocked(s)
	case s.Unmet > 0:
		return q.needs(s)
	case q.job.State != lifecycle.JobRunning:
		return q.stepReason(s, pawl.ReasonUnstarted, "the job is %s: nothing of it has started", q.job.State)
	case s.DueEvent == lifecycle.StepEnqueue && s.DueAt > q.now:
		return q.backoff(s)
	case s.Mark == pawl.Waiting && q.job.Paused:
		return q.stepReason(s, pawl.ReasonPaused, "the job is paused")
	case q.stopping():
		return q.stepReason(s, pawl.ReasonEnding, "the job is ending, and nothing new starts")
	case s.Mark == pawl.Waiting:
		return q.stepReason(s, pawl.ReasonJobSlots, "all slots of the job are in use")
	case s.DueEvent == lifecycle.StepEnqueue:
		return q.evaluation(s, "its backoff is over, and it waits for an evaluator to enqueue it")
	}
	return q.evaluation(s, "it waits for an evaluator to start it")
}

// turn reports whether a hook is the first that has not ended.
func (q *inquiry) turn(s *pawl.Step) bool {
	for _, n := range q.def.Hooks {
		if h := q.nodes[n]; h != nil && !lifecycle.Step.Ended(h.State) {
			return n == s.Ord.Node()
		}
	}
	return true
}

func (q *inquiry) hook(s *pawl.Step) pawl.Reason {
	if q.job.Hooks == pawl.HooksNotYet {
		return q.stepReason(s, pawl.ReasonHook, "it is a hook, and runs when all other steps have ended")
	}
	r := q.stepReason(s, pawl.ReasonHook, "it is a hook, and another one runs first")
	for _, n := range q.def.Hooks {
		if h := q.nodes[n]; h != nil && !lifecycle.Step.Ended(h.State) {
			r.Names = []string{q.def.Key(h.Ord)}
			r.Text = fmt.Sprintf("it is a hook, and %s (%s) runs first", r.Names[0], h.State)
			break
		}
	}
	return r
}

// blocked lists the failed steps that a step is behind.
func (q *inquiry) blocked(s *pawl.Step) pawl.Reason {
	var failed []string
	for _, n := range q.def.Ancestors(s.Ord.Node()) {
		if a := q.nodes[n]; a != nil && (a.State == lifecycle.StepPermanentError || a.DueEvent == lifecycle.StepFailPermanently && q.def.Node(n).Fans()) {
			failed = append(failed, q.def.Key(a.Ord))
		}
	}
	r := q.stepReason(s, pawl.ReasonBlocked, "it is behind %s, which failed; it is cancelled when the rest of the job has ended", listed(failed, len(failed)))
	if r.Names = failed; len(failed) > 0 {
		r.Hint = "pawl step resolve " + q.id + " " + failed[0]
	}
	return r
}

// needs lists the steps that have not ended well yet, each with its state.
func (q *inquiry) needs(s *pawl.Step) pawl.Reason {
	r := q.stepReason(s, pawl.ReasonNeeds, "")
	var told []string
	for _, n := range q.def.Node(s.Ord.Node()).Needs {
		need := q.nodes[n]
		if need == nil || metBy(need) {
			continue
		}
		r.Needs = append(r.Needs, pawl.Need{Step: q.def.Key(need.Ord), Status: need.State})
		told = append(told, fmt.Sprintf("%s (%s)", q.def.Key(need.Ord), need.State))
	}
	r.Text = "it needs " + listed(told, len(told))
	if len(told) == 0 {
		r.Text = "the steps that it needs have just ended"
	}
	return r
}

// metBy reports whether a need is met by that step's end, if that was applied.
func metBy(s *pawl.Step) bool {
	switch s.State {
	case lifecycle.StepComplete, lifecycle.StepSkipped, lifecycle.StepResolvedManually:
		return s.Mark != pawl.Attention
	}
	return false
}

func (q *inquiry) backoff(s *pawl.Step) pawl.Reason {
	most := q.def.Node(s.Ord.Node()).Retry.MaxAttempts
	r := q.stepReason(s, pawl.ReasonBackoff, "backoff until %s (attempt %d of %d)", q.clock(s.DueAt), s.Attempts+1, most)
	r.Until, r.Attempt, r.Hint = pawl.Timestamp(s.DueAt), s.Attempts+1, q.command("retry", s)
	q.unfired(&r)
	if s.Error != nil {
		r.Text += "; the last one failed: " + s.Error.Message
	}
	return r
}

// lastAttempt adds how the last attempt ended: by a failure, or by a snooze.
func (q *inquiry) lastAttempt(s *pawl.Step, r *pawl.Reason) error {
	last, err := q.reader.store.Trail(q.ctx, store.StepEntity(s.StepKey), s.Seq-1, 1)
	if err != nil {
		return err
	}
	if len(last) == 0 || last[0].Event != lifecycle.StepInterrupt {
		return q.lastError(s, r)
	}
	r.Text = fmt.Sprintf("it snoozes until %s, as its handler asked (attempt %d of %d)", q.clock(s.DueAt), r.Attempt, q.def.Node(s.Ord.Node()).Retry.MaxAttempts)
	q.unfired(r)
	return nil
}

// lastError adds the error of the last attempt if it was not read with the step.
func (q *inquiry) lastError(s *pawl.Step, r *pawl.Reason) error {
	if s.Error != nil {
		return nil
	}
	bodies, err := q.reader.store.Bodies(q.ctx, []pawl.StepKey{s.StepKey})
	if b := bodies[s.StepKey]; b != nil && b.Error != nil {
		r.Text += "; the last one failed: " + b.Error.Message
	}
	return err
}

func (q *inquiry) enqueuedStep(s *pawl.Step) pawl.Reason {
	n := s.Ord.Node()
	r := q.unserved([]int{n})
	if r == nil {
		r = q.crowded(s.Route)
	}
	if r == nil {
		r = &pawl.Reason{Kind: pawl.ReasonReady, Text: "nothing holds it back: a worker is about to take it"}
		r.Workers = q.loads(q.serving(s.Route))
	}
	r.Job, r.Step, r.Status = q.id, q.def.Key(s.Ord), s.State
	if s.DueEvent == lifecycle.StepQueueTimeout {
		r.Until = pawl.Timestamp(s.DueAt)
		r.Text += "; that counts as a failed attempt at " + q.clock(s.DueAt)
	}
	return *r
}

// heldBack makes the reason of an enqueued step that its queue is paused, or that it is ready
// and the limit of its queue is reached. It reports whether it is.
func (q *inquiry) heldBack(s *pawl.Step, r *pawl.Reason) (bool, error) {
	by, err := q.queuePause(s.Ord.Node())
	if err == nil && by == nil && r.Kind == pawl.ReasonReady {
		by, err = q.queueLimit(s.Ord.Node())
	}
	if err != nil || by == nil {
		return false, err
	}
	r.Kind, r.Text, r.Hint, r.Slots, r.Names, r.Change, r.Workers = by.Kind, by.Text, by.Hint, by.Slots, by.Names, by.Change, nil
	return true, nil
}

// stepUnderway returns what a step in progress waits for, if anything.
func (q *inquiry) stepUnderway(s *pawl.Step) pawl.Reason {
	node := q.def.Node(s.Ord.Node())
	fan := node.Fans() && s.Ord.Instance() == 0
	switch {
	case q.dead[s.Worker] != "" && q.job.Private != 0:
		r := q.ownerGone()
		r.Step, r.Status = q.def.Key(s.Ord), s.State
		return r
	case q.dead[s.Worker] != "":
		r := q.stepReason(s, pawl.ReasonWorkerLost, "its worker has ended (%s); it is tried again as soon as an engine has noticed%s", q.dead[s.Worker], q.nobody())
		r.Hint = q.somebody()
		return r
	case s.DueEvent == lifecycle.StepCancel:
		return q.stopped(s)
	case fan:
		return q.stepReason(s, pawl.ReasonFanOut, "fan-out")
	case s.Worker != 0:
		r := q.stepReason(s, pawl.ReasonRunning, "attempt %d of %d runs on a worker since %s", s.Attempts, node.Retry.MaxAttempts, q.clock(s.StartedAt))
		if i := slices.IndexFunc(q.workers, func(w *pawl.Worker) bool { return w.Key() == s.Worker }); i >= 0 {
			r.Workers = q.loads(q.workers[i : i+1])
		}
		return r
	case node.Kind != workflow.KindWorkflow && s.Mark == pawl.Attention, s.DueAt != 0 && s.DueAt <= q.now:
		return q.evaluation(s, "what it waited for has come, and it waits for an evaluator to end it")
	case node.Kind == workflow.KindEvent && q.heard[node.Event]:
		return q.evaluation(s, "the signal "+node.Event+" has come, and waits for an evaluator to hand it over")
	}
	return q.wait(s, node)
}

// stopped returns the reason of a step that was asked to stop.
func (q *inquiry) stopped(s *pawl.Step) pawl.Reason {
	if s.Worker == 0 {
		r := q.stepReason(s, pawl.ReasonStopping, "it is being cancelled, and waits for its child job to end")
		if w := waitIn(s); w.Job != "" {
			r.Names = []string{w.Job}
		}
		return r
	}
	r := q.stepReason(s, pawl.ReasonStopping, "it was asked to stop; it ends without its worker at %s", q.clock(s.DueAt))
	r.Until = pawl.Timestamp(s.DueAt)
	q.unfired(&r)
	return r
}

// unfired adds that no process is known that would act when the time of a reason comes, if
// that is so.
func (q *inquiry) unfired(r *pawl.Reason) {
	if q.idle {
		r.Text += q.nobody()
		r.Hint = q.somebody()
	}
}

func waitIn(s *pawl.Step) (w pawl.Wait) {
	if len(s.Input) == 0 || json.Unmarshal(s.Input, &w) != nil {
		return pawl.Wait{}
	}
	return w
}

// wait returns the reason of a step that waits for something the engine handles itself.
func (q *inquiry) wait(s *pawl.Step, node *workflow.Node) (r pawl.Reason) {
	w := waitIn(s)
	switch node.Kind {
	case workflow.KindApproval:
		r = q.stepReason(s, pawl.ReasonApproval, "it waits for an approval: %s", w.Prompt)
		r.Hint = "pawl approve " + q.id + " " + q.def.Key(s.Ord) + w.Blanks()
	case workflow.KindSleep:
		r = q.stepReason(s, pawl.ReasonSleep, "it sleeps until %s", q.clock(s.DueAt))
	case workflow.KindEvent:
		r = q.stepReason(s, pawl.ReasonEvent, "it waits for the event %s", node.Event)
		r.Names, r.Hint = []string{node.Event}, "pawl job signal "+q.id+" "+node.Event
	default:
		r = q.stepReason(s, pawl.ReasonChild, "it waits for its child job %s", w.Job)
		r.Names = []string{w.Job}
	}
	if r.Until = pawl.Timestamp(s.DueAt); r.Until != 0 && node.Kind != workflow.KindSleep {
		r.Text += "; it fails at " + q.clock(s.DueAt) + q.nobody()
	}
	if node.Kind == workflow.KindSleep {
		q.unfired(&r)
	}
	return r
}

// ofChild adds the state of the child job and why it makes no progress.
func (q *inquiry) ofChild(s *pawl.Step, r *pawl.Reason) error {
	id, err := pawl.ParseID(pawl.JobPrefix, waitIn(s).Job)
	if err != nil || q.child {
		return nil // only its id is given
	}
	job, err := q.reader.store.Job(q.ctx, id.JobKey())
	if errors.Is(err, store.ErrNotFound) {
		r.Text += ", which is gone"
		return nil
	}
	if err != nil {
		return err
	}
	r.Text = fmt.Sprintf("it waits for its child job %s, which is %s", waitIn(s).Job, job.State)
	if s.Mark == pawl.Attention && lifecycle.Job.Ended(job.State) {
		r.Text += "; an evaluator has to see that" + q.nobody()
		return nil
	}
	child, err := q.reader.inquire(q.ctx, q.scene, job)
	if err != nil {
		return err
	}
	child.child = true
	if r.Because, err = child.reasons(); err != nil {
		return err
	}
	if main := pawl.MainReason(r.Because); main != nil {
		if main.Step != "" {
			r.Text += ": its step " + main.Step
		}
		r.Text += ": " + main.Text
		r.Hint = main.Hint
	}
	r.Because = r.Because[:min(len(r.Because), whyNames)]
	return nil
}

// doings describes the instances of a group, by kind.
var doings = map[pawl.ReasonKind]string{
	pawl.ReasonRunning: "run", pawl.ReasonOwner: "wait for the process that owns the job", pawl.ReasonNoWorker: "wait for a worker that serves them",
	pawl.ReasonWorkersPaused: "wait for a worker to be resumed", pawl.ReasonWorkersBusy: "wait for a worker to have room",
	pawl.ReasonWorkerLost: "were on a worker that has ended", pawl.ReasonReady: "are in the queue", pawl.ReasonEvaluation: "wait for an evaluator",
	pawl.ReasonBackoff: "wait for their next attempt", pawl.ReasonJobSlots: "wait for a slot of the job", pawl.ReasonPaused: "wait for the job to be resumed",
	pawl.ReasonApproval: "wait for an approval", pawl.ReasonSleep: "sleep", pawl.ReasonEvent: "wait for an event", pawl.ReasonChild: "wait for a child job",
	pawl.ReasonStopping: "were asked to stop", pawl.ReasonEnding: "are about to be cancelled",
}

// ofFan adds the progress of a fan-out and what its instances wait for.
func (q *inquiry) ofFan(s *pawl.Step, r *pawl.Reason) {
	var parts []string
	if t := q.fans[s.Ord.Node()]; t != nil {
		for i := range t.group {
			g := t.group[i]
			parts = append(parts, fmt.Sprintf("%d of %d instances %s", g.Count, s.Total, doings[g.Kind]))
			g.Text = parts[i]
			g.Step, g.Names, g.Needs, g.Attempt, g.Change = r.Step, nil, nil, 0, nil
			r.Because = append(r.Because, g)
		}
	}
	if left := s.Total - s.Made; left > 0 {
		parts = append(parts, fmt.Sprintf("%d still to be made%s", left, q.unmade(s)))
	}
	if len(parts) == 0 {
		*r = q.evaluation(s, fmt.Sprintf("all %d instances have ended, and it waits for an evaluator to gather their outputs", s.Total))
		return
	}
	r.Text = strings.Join(parts, "; ")
}

// unmade returns why a fan-out does not make more instances.
func (q *inquiry) unmade(s *pawl.Step) string {
	parallel := q.def.Node(s.Ord.Node()).Parallel
	switch {
	case s.DueEvent == lifecycle.StepFailPermanently || q.stopping():
		return ", and will not be: one has failed, or the job is ending"
	case s.Mark == pawl.Attention:
		return " by an evaluator" + q.nobody()
	case q.job.Paused:
		return " when the job is resumed"
	case s.Mark == pawl.Waiting:
		return fmt.Sprintf(" as slots of the job become free, which has %d", q.job.WorkerCount)
	case parallel > 0 && s.Live >= parallel:
		return fmt.Sprintf(" as others end: %d at once (parallel)", parallel)
	}
	return ""
}

// damaged returns the reason of a step whose row cannot be read.
func (q *inquiry) damaged(ord pawl.Ord) pawl.Reason {
	r := q.reason(pawl.ReasonUnreadable, "what is stored of it cannot be read, and whoever meets it passes it over; the log says what is wrong")
	r.Step, r.Status, r.Hint = q.def.Key(ord), "", "restore it from a backup"
	return r
}
