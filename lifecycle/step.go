package lifecycle

import "github.com/pawl-dev/pawl/machine"

// The states of a step (T1).
const (
	StepPending          machine.State = "pending"
	StepEnqueued         machine.State = "enqueued"
	StepInProgress       machine.State = "in_progress"
	StepComplete         machine.State = "complete"
	StepRetryableError   machine.State = "retryable_error"
	StepPermanentError   machine.State = "permanent_error"
	StepCancelled        machine.State = "cancelled"
	StepSkipped          machine.State = "skipped"
	StepResolvedManually machine.State = "resolved_manually"
)

// The events of a step. StepRetry brings a step back to pending with a time before
// which it is not enqueued. In pending it changes that time, for example when an
// operator wants the next attempt now (T13).
const (
	StepCreate          machine.Event = "create"
	StepEnqueue         machine.Event = "enqueue"
	StepClaim           machine.Event = "claim"
	StepSuccess         machine.Event = "success"
	StepFail            machine.Event = "fail"
	StepFailPermanently machine.Event = "fail_permanently"
	StepTimeout         machine.Event = "timeout"
	StepLost            machine.Event = "lost"
	StepInterrupt       machine.Event = "interrupt"
	StepQueueTimeout    machine.Event = "queue_timeout"
	StepRequeue         machine.Event = "requeue"
	StepRetry           machine.Event = "retry"
	StepExhaust         machine.Event = "exhaust"
	StepSkip            machine.Event = "skip"
	StepCancel          machine.Event = "cancel"
	StepCancelRequested machine.Event = "cancel_requested"
	StepResolve         machine.Event = "resolve"
)

// Step is one node of a job's graph, or one instance of a fanned-out node.
// A step that waits (the parent of a fan-out) is in progress and owned by the
// engine.
var Step = &machine.Machine{
	Name:    "step",
	Doc:     "one node of a job's graph, run by a handler",
	Create:  StepCreate,
	Initial: StepPending,
	States: []machine.State{
		StepPending, StepEnqueued, StepInProgress, StepComplete, StepRetryableError,
		StepPermanentError, StepCancelled, StepSkipped, StepResolvedManually,
	},
	// A permanent error may still be resolved while its job drains, so it has an exit.
	// It is still an end: nothing has to happen after it.
	Ends: []machine.State{StepComplete, StepPermanentError, StepCancelled, StepSkipped, StepResolvedManually},
	Table: machine.Table{
		StepPending: {
			StepEnqueue: StepEnqueued,
			StepRetry:   StepPending,
			StepSkip:    StepSkipped,
			StepCancel:  StepCancelled,
			StepResolve: StepResolvedManually,
		},
		StepEnqueued: {
			StepClaim:        StepInProgress,
			StepQueueTimeout: StepRetryableError,
			StepRequeue:      StepPending,
			StepSkip:         StepSkipped,
			StepCancel:       StepCancelled,
			StepResolve:      StepResolvedManually,
		},
		StepInProgress: {
			StepSuccess:         StepComplete,
			StepFail:            StepRetryableError,
			StepFailPermanently: StepPermanentError,
			StepTimeout:         StepRetryableError,
			StepLost:            StepRetryableError,
			StepInterrupt:       StepPending,
			StepCancelRequested: StepInProgress,
			StepCancel:          StepCancelled,
		},
		StepRetryableError: {
			StepRetry:   StepPending,
			StepExhaust: StepPermanentError,
			StepSkip:    StepSkipped,
			StepCancel:  StepCancelled,
			StepResolve: StepResolvedManually,
		},
		StepPermanentError: {
			StepResolve: StepResolvedManually,
		},
	},
}
