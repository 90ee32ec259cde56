package link

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/workflow"
)

// A Registration is the request of a worker for its record. The Worker has no id yet.
type Registration struct {
	Worker pawl.Worker
	Actor  string
	Before *Predecessor // nil: it was not taken for dead before

	// What the routes of the Worker are made of.
	Queues, Handlers []string
	Job              rowkey.Job // 0, or a private job, beside which nothing is served
}

// ErrUnknown is returned by Register when the outcome of its commit is not known: the
// worker may be registered, and the losses of its predecessor may have been taken back
// already.
var ErrUnknown = errors.New("it is not known whether the worker was registered")

// A Predecessor is a worker as it was registered before it was taken for dead, and what
// it still ran when it found that out.
type Predecessor struct {
	Worker rowkey.Worker
	Claims []Claimed
}

// A Declaration has the settings that a worker puts into its metadata when it
// registers.
type Declaration struct {
	Isolation workflow.Isolation `json:"isolation,omitempty"` // of all that it runs; empty is run
	Silence   pawl.Duration      `json:"silence,omitzero"`    // by which it goes when it is cut off; 0 is health.Silence
}

// Metadata returns the declaration as metadata of a worker; nil for the default.
func (d Declaration) Metadata() json.RawMessage {
	if d.Isolation == workflow.IsolationRun {
		d.Isolation = ""
	}
	if time.Duration(d.Silence) == health.Silence {
		d.Silence = 0
	}
	if d == (Declaration{}) {
		return nil
	}
	b, _ := json.Marshal(d)
	return b
}

// A WorkerEnd says how a worker ended.
type WorkerEnd struct {
	Operator bool // not the engine, which takes a worker for dead that is silent, nor the worker itself
	Actor    string
	Reason   string
}
