package link

import (
	"encoding/json"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/workflow"
)

// Limits of one visit. What exceeds them is reported with the next one; see Portion.
const (
	MaxWeight  = 1024     // of the reports of a visit
	HeavyBytes = 16 << 10 // of an output weigh as much as a report
)

// An Exchange is one visit of a worker: what it has finished, and how much it can take.
type Exchange struct {
	Worker    *pawl.Worker
	Reports   []Report
	Free      int  // free slots, including those of the reports; 0 takes nothing
	SkipQueue bool // the queue was found empty: only what this very commit enqueues is taken
	Queued    int  // of the free slots, how many take from the queue before what this commit enqueues
}

// A Report is the outcome of a step that a worker had claimed.
type Report struct {
	Step  pawl.StepKey
	Claim int // the fence (T5)
	Actor string
	By    rowkey.Worker // the remote worker that reports, which has to have the claim; 0: the claim alone counts
	decide.Report

	// Settled means that the handler has called CompleteTx. If the step is complete by
	// this claim, that is its outcome; the report counts if the transaction was rolled
	// back.
	Settled bool
}

// Weight returns how much the report counts towards MaxWeight.
func (r *Report) Weight() int { return 1 + len(r.Output)/HeavyBytes }

// Portion returns how many of the reports one visit takes, at least one if there
// are any: all of them, unless their outputs are large.
func Portion(reports []Report) int {
	weight := 0
	for i := range reports {
		if weight += reports[i].Weight(); weight > MaxWeight && i > 0 {
			return i
		}
	}
	return len(reports)
}

// An Assignment is a step that a worker now owns.
type Assignment struct {
	Step       Claimed
	Definition *workflow.Definition
	Isolation  workflow.Isolation // that of the step's definition; empty is run
	Known      any                // what the engine that assigned the step knows of its job; the worker only passes it back
}

// Claimed is a step in the hands of a worker.
type Claimed struct {
	pawl.StepKey
	Claims   int // the fence (T5)
	Attempts int
}

// A StepInput has everything that is needed to run an assignment.
type StepInput struct {
	Work     *workflow.Work
	Input    func() json.RawMessage // makes the document of PAWL_INPUT: inputs, needs, item or matrix, index
	Reused   json.RawMessage        // the output, if that of the job that this one continues is used: nothing is run
	JobID    string
	StepID   string
	Key      string // load[3]
	Workflow string
	Dir      string // where commands start; empty: in a folder of the job that the worker makes
	Node     *workflow.Node

	Traceparent string // of the attempt; empty: it is in no trace
}

// ErrWorkerEnded is returned to a worker that another process has ended, though
// it lives. It drops what it holds and registers anew (J1).
var ErrWorkerEnded = &pawl.Error{Kind: pawl.Conflict, Message: "this worker has been ended"}

// A CommitError is why a whole commit failed, through no fault of what it contained.
type CommitError struct{ Err error }

func (e *CommitError) Error() string { return e.Err.Error() }

func (e *CommitError) Unwrap() error { return e.Err }

// Retryable reports whether err is that of a commit that failed as a whole and may be
// repeated, and not that of a decision.
func Retryable(err error) bool {
	if err == nil { // mostly, and c takes memory
		return false
	}
	var c *CommitError
	return errors.As(err, &c)
}
