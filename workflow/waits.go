package workflow

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

// A Waiting is what a step is going to wait for, with all expressions evaluated.
type Waiting struct {
	Wait  pawl.Wait
	For   time.Duration // until it ends by itself; 0 is for ever
	Child *Born         // of a workflow
}

// A Born is a child job that is to be made. If its workflow is a registered one, the
// maker looks it up and binds the inputs.
type Born struct {
	Name       string
	Version    int
	Definition *Definition
	Given      map[string]any  // the inputs as the step gives them, numbers as json.Number
	Inputs     json.RawMessage // bound, once Definition is known
	Key        string          // of its concurrency, likewise
	Metadata   json.RawMessage // of the job
}

// Hears reports whether some node waits for a signal of that name.
func (d *Definition) Hears(name string) bool {
	return slices.ContainsFunc(d.Nodes, func(n Node) bool { return n.Kind == KindEvent && n.Event == name })
}
