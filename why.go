package pawl

import "github.com/pawl-dev/pawl/machine"

// A Reason says why a job, or one of its steps, is in its current state, and what would
// let it continue (T9).
type Reason struct {
	Job    string        `json:"job_id"`
	Step   string        `json:"step,omitempty"` // the step's key; empty for the job itself
	Status machine.State `json:"status"`
	Kind   ReasonKind    `json:"kind"`
	Text   string        `json:"text"`           // for people: lower case, no full stop
	Hint   string        `json:"hint,omitempty"` // what would unblock it: a command line, or words; empty: only time

	Until   Timestamp     `json:"until,omitzero"`    // when it ends by itself
	Attempt int           `json:"attempt,omitempty"` // the next one, of a backoff
	Names   []string      `json:"names,omitempty"`   // depends on the kind: steps, jobs, routes, an event
	Needs   []Need        `json:"needs,omitempty"`   // the steps that have not ended well yet
	Workers []WorkerLoad  `json:"workers,omitempty"` // that live and matter here
	Slots   *Slots        `json:"slots,omitempty"`   // the slots that are short
	Count   int           `json:"count,omitempty"`   // of a group of instances: how many share the reason
	Because []Reason      `json:"because,omitempty"` // of a child job: its own reasons; of a fan-out: its instances, grouped
	Change  *ReasonChange `json:"change,omitempty"`  // of a pause, of the job or of its queue: who ordered it
}

// A ReasonKind is the kind of a reason. The comment of each says what Names are.
type ReasonKind string

// The kinds of reasons.
const (
	ReasonEnded         ReasonKind = "ended"          // it has ended
	ReasonRunning       ReasonKind = "running"        // it runs; of a job: the steps that do
	ReasonUnreadable    ReasonKind = "unreadable"     // what is stored of it, or its definition, is missing, damaged or of a newer version
	ReasonPaused        ReasonKind = "paused"         // the job is paused
	ReasonOwner         ReasonKind = "owner"          // the only process that runs the job is not alive; the job that it owns
	ReasonNoWorker      ReasonKind = "no_worker"      // no live worker serves it; the routes, as workspace/queue/handler
	ReasonWorkersPaused ReasonKind = "workers_paused" // every worker that serves it is paused
	ReasonWorkersBusy   ReasonKind = "workers_busy"   // every worker that serves it is full
	ReasonWorkerLost    ReasonKind = "worker_lost"    // its worker has died, and no server has released it yet
	ReasonQuota         ReasonKind = "quota"          // the quota of its depth is full
	ReasonConcurrency   ReasonKind = "concurrency"    // its concurrency key is taken; the jobs that hold it
	ReasonQueueLimit    ReasonKind = "queue_limit"    // the limit of its queue is reached
	ReasonQueuePaused   ReasonKind = "queue_paused"   // its queue is paused; the queue
	ReasonReady         ReasonKind = "ready"          // nothing: it is about to be taken
	ReasonEvaluation    ReasonKind = "evaluation"     // an evaluator has to evaluate it
	ReasonUnstarted     ReasonKind = "job_pending"    // the job has not started
	ReasonNeeds         ReasonKind = "needs"          // steps that it needs have not ended
	ReasonBackoff       ReasonKind = "backoff"        // the time of its next attempt has not come
	ReasonJobSlots      ReasonKind = "job_slots"      // all slots of the job are in use; the steps that use them
	ReasonBlocked       ReasonKind = "blocked"        // behind a failed step of a job that drains; the failed steps
	ReasonHook          ReasonKind = "hook"           // a hook whose turn has not come
	ReasonApproval      ReasonKind = "approval"       // a person has to decide
	ReasonSleep         ReasonKind = "sleep"          // a time has to come
	ReasonEvent         ReasonKind = "event"          // a signal has to come; its name
	ReasonChild         ReasonKind = "child"          // its child job has not ended; the child
	ReasonFanOut        ReasonKind = "fan_out"        // instances of it have not ended
	ReasonStopping      ReasonKind = "stopping"       // it was asked to stop
	ReasonEnding        ReasonKind = "ending"         // the job is ending
)

// A Need is a step that another one needs, and its state.
type Need struct {
	Step   string        `json:"step"`
	Status machine.State `json:"status"`
}

// A WorkerLoad is a live worker and how much of it is in use.
type WorkerLoad struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Status   machine.State `json:"status"`
	Serves   []string      `json:"serves"` // queue/handler
	Running  int           `json:"running"`
	Capacity int           `json:"capacity"`
}

// Slots are a limit and how much of it is taken.
type Slots struct {
	Of    string `json:"of"`    // depth/0, queue/billing, the concurrency key's workflow, workers, or job
	Takes int    `json:"takes"` // what it would take
	Used  int    `json:"used"`
	Slots int    `json:"slots"`
}

// A ReasonChange says who changed something, when and why.
type ReasonChange struct {
	At     Timestamp `json:"at"`
	Actor  string    `json:"actor"`
	Reason string    `json:"reason"`
}

// blocking are the kinds of reasons, the most blocking first: those that only a person
// can change, then shortages, then those that pass with time.
var blocking = []ReasonKind{
	ReasonUnreadable, ReasonPaused, ReasonQueuePaused, ReasonOwner, ReasonNoWorker, ReasonWorkersPaused, ReasonWorkerLost, ReasonQuota, ReasonConcurrency,
	ReasonApproval, ReasonEvent, ReasonQueueLimit, ReasonWorkersBusy, ReasonStopping, ReasonEvaluation,
	ReasonChild, ReasonBackoff, ReasonSleep, ReasonReady, ReasonRunning, ReasonJobSlots, ReasonFanOut, ReasonEnding,
	ReasonHook, ReasonNeeds, ReasonBlocked, ReasonUnstarted, ReasonEnded,
}

// MainReason returns the most blocking of the reasons of a job, the first of
// equals; nil for none at all.
func MainReason(reasons []Reason) *Reason {
	for _, kind := range blocking {
		if r := firstOf(reasons, kind); r != nil {
			return r
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return &reasons[0]
}

func firstOf(reasons []Reason, kind ReasonKind) *Reason {
	for i := range reasons {
		r := &reasons[i]
		if r.Kind == kind && (kind != ReasonRunning || r.Step == "" && len(r.Names) > 0) {
			return r
		}
		if r.Kind == ReasonFanOut && kind != ReasonRunning {
			if of := firstOf(r.Because, kind); of != nil {
				return of
			}
		}
	}
	return nil
}

// A StuckJob is an unfinished job in which nothing has moved for some time.
type StuckJob struct {
	JobView
	Still  Timestamp `json:"still_since"` // when it, or one of its steps, moved last
	Reason *Reason   `json:"reason"`      // the most blocking one
}

// A Moment is a moment of a job: a time, or a sequence of the job's own trail, which
// includes everything that was committed until then. One of them is set.
type Moment struct {
	Time     Timestamp
	Sequence int64
}

// A Measure measures how long the states of a job and its steps lasted, from the rows of its
// history in the order of time.
type Measure struct{ entered map[string]Timestamp }

// NewMeasure returns a Measure that has seen no row yet.
func NewMeasure() *Measure { return &Measure{make(map[string]Timestamp)} }

// Took sets how long the row's entity had been in the state that the row leaves.
func (m *Measure) Took(r *Transition) {
	switch {
	case r.Refused:
	case r.From == nil:
		m.entered[r.Step] = r.At
	case *r.From != r.To:
		d := Duration(r.At.Time().Sub(m.entered[r.Step].Time()))
		r.Took, m.entered[r.Step] = &d, r.At
	}
}
