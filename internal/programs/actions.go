package programs

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/supervisor"
)

// The names of the actions.
const (
	actionStart = "start"
	actionStop  = "stop"
)

// Limits of the actions. They have no backoff of their own: the restart policy decides
// what follows a failure.
const (
	startTimeout = 30 * time.Second       // for an execve on a disk that hangs
	startTurn    = 100 * time.Millisecond // added per service: processes are started one at a time, and all may start at once
	stopMargin   = 5 * time.Second        // for a process to end after SIGKILL
)

var atOnce = supervisor.Backoff{Base: time.Millisecond, Max: time.Millisecond, Exact: true}

// start is the action that starts a program. It ends as soon as the process runs.
type start struct {
	program *program
	desired desired
}

func (start) Name() string { return actionStart }

func (a start) Execute(ctx context.Context, _ supervisor.Run) error {
	return a.program.launch(ctx, a.desired)
}

func (a start) Limits() supervisor.ActionLimits {
	return supervisor.ActionLimits{Timeout: startTimeout + time.Duration(a.program.manager.count())*startTurn, Attempts: -1, Backoff: atOnce}
}

// stop is the action that stops a program. It ends when all its processes have ended.
type stop struct {
	program *program
	desired desired
	cause   string // why the manager stops it without an order; empty: there was one
}

func (stop) Name() string { return actionStop }

func (a stop) Execute(ctx context.Context, _ supervisor.Run) error {
	return a.program.terminate(ctx, a.desired.Spec.Stop, a.cause)
}

func (a stop) Limits() supervisor.ActionLimits {
	return supervisor.ActionLimits{Timeout: a.desired.Spec.Stop.Grace + stopMargin, Attempts: -1, Backoff: atOnce}
}
