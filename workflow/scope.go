package workflow

import (
	"encoding/json"

	"github.com/pawl-dev/pawl/machine"
)

// A Scope has the values that expressions may use. It is not safe for concurrent use:
// it keeps what it has decoded, so that one Scope serves many instances if Item and
// Index are changed.
type Scope struct {
	Inputs    json.RawMessage         // as BindInputs returns them
	Outputs   map[int]json.RawMessage // by node; a missing one is null
	Statuses  map[int]machine.State   // by node
	Item      json.RawMessage         // of an instance; of a matrix what MatrixItem returns
	Index     int                     // of an instance, from 0
	JobID     string
	Workflow  string
	JobError  string        // of hooks: why the job failed; empty is null
	JobStatus machine.State // of hooks: how the job is going to end; empty is null

	decoded map[int]decodedOutput
}

type decodedOutput struct {
	raw   json.RawMessage
	value any
}
