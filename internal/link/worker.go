package link

import (
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/workflow"
)

// A Predecessor is a worker as it was registered before it was taken for dead, and what
// it still ran when it found that out.
type Predecessor struct {
	Worker int64
	Claims []Claimed
}

// A Declaration is what a worker says of itself when it registers, in its metadata.
type Declaration struct {
	Isolation workflow.Isolation `json:"isolation,omitempty"` // of all that it runs; empty is run
	Silence   pawl.Duration      `json:"silence,omitzero"`    // by which it reckons when it is cut off; 0 is health.Silence
}

// Metadata returns the declaration as a worker's record holds it; nil for the default.
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

// A WorkerEnd is how a worker has come to its end.
type WorkerEnd struct {
	Operator bool // not the engine, which takes a worker for dead that is silent, nor the worker itself
	Actor    string
	Reason   string
}
