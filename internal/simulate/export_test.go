package simulate

import (
	"context"
	"github.com/pawl-dev/pawl/internal/rehearsal"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// Stuck continues a job in which nothing more can happen, and returns what is said of
// it then.
func Stuck(def *workflow.Definition) error {
	s := &simulation{most: maxEvents}
	w := rehearsal.New(def, []byte("{}"), s)
	w.Job().State = lifecycle.JobRunning // and no step has been started
	return s.run(context.Background(), w)
}
