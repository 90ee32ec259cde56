package workflow

import "github.com/pawl-dev/pawl/machine"

// A Pin is the definition that a job has.
type Pin struct {
	Version int    `json:"version,omitempty"` // of the registered workflow, or 0
	Hash    string `json:"hash"`
}

// A Moved says how a job got to another version of its workflow, or would get.
type Moved struct {
	JobID  string `json:"job_id"`
	DryRun bool   `json:"dry_run"`
	From   Pin    `json:"from"`
	To     Pin    `json:"to"`
	Diff   Diff   `json:"diff"`
}

// MovePlans say what a definition would mean for the unfinished jobs of its workflow.
type MovePlans struct {
	Workflow   string     `json:"workflow"`
	Hash       string     `json:"definition_hash"`
	Version    int        `json:"version"`    // of the definition, or the one that it would get
	Registered bool       `json:"registered"` // it is
	Jobs       []MovePlan `json:"jobs"`       // newest first, at most 1000
}

// A MovePlan says what a definition means for an unfinished job: the job stays as it
// is, and may be moved.
type MovePlan struct {
	JobID   string        `json:"job_id"`
	Status  machine.State `json:"status"`
	Pinned  Pin           `json:"pinned"` // what it has, and keeps
	Diff    Diff          `json:"diff"`   // of the definition to that
	Movable bool          `json:"movable"`
	Why     []string      `json:"why"` // it cannot be moved
}
