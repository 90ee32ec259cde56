package workflow

import "encoding/json"

// Work is what a worker executes: a step, or an instance of one, with all expressions
// evaluated.
type Work struct {
	Kind    Kind
	Argv    []string          // of a command
	Script  string            // of run
	Env     map[string]string // the workflow's, then the step's
	Dir     string            // empty is the folder of the workflow file
	HTTP    *Request          // of http
	Handler string            // of a handler, crew or load: its name
	With    json.RawMessage   // of a handler, crew or load: its input, or nil
}

// A Request is one HTTP request.
type Request struct {
	Method  string
	URL     string
	Headers map[string]string
	Body    string
	Expect  []int // the statuses that are a success, ascending; empty is any 2xx
}
