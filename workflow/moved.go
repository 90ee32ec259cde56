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

// MovePlans say how the unfinished jobs of a workflow stand to a definition.
type MovePlans struct {
	Workflow   string     `json:"workflow"`
	Hash       string     `json:"definition_hash"`
	Version    int        `json:"version"`    // that it is, or would be
	Registered bool       `json:"registered"` // it is
	Jobs       []MovePlan `json:"jobs"`       // newest first, at most 1000
}

// A MovePlan says what an unfinished job has to do with a definition: it stays as
// it is, and may be moved.
type MovePlan struct {
	JobID   string        `json:"job_id"`
	Status  machine.State `json:"status"`
	Pinned  Pin           `json:"pinned"` // what it has, and keeps
	Diff    Diff          `json:"diff"`   // of the definition to that
	Movable bool          `json:"movable"`
	Why     []string      `json:"why"` // it is not movable
}
