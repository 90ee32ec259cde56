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

// Limits of the actions. What follows from a failure is the affair of the restart
// policy, so they have no backoff of their own.
const (
	startTimeout = 30 * time.Second       // of an execve on a disk that hangs
	startTurn    = 100 * time.Millisecond // besides, for each service: one is started at a time, and all may be at once
	stopMargin   = 5 * time.Second        // for SIGKILL to be obeyed
)

var atOnce = supervisor.Backoff{Base: time.Millisecond, Max: time.Millisecond, Exact: true}

// start starts a program. It is done as soon as the program runs.
type start struct {
	ward *ward
	wish wish
}

func (start) Name() string { return actionStart }

func (a start) Execute(ctx context.Context, _ supervisor.Run) error {
	return a.ward.launch(ctx, a.wish)
}

func (a start) Limits() supervisor.ActionLimits {
	return supervisor.ActionLimits{Timeout: startTimeout + time.Duration(a.ward.keeper.size())*startTurn, Attempts: -1, Backoff: atOnce}
}

// stop ends a program, and returns when nothing of it is left.
type stop struct {
	ward  *ward
	wish  wish
	cause string // why the keeper does it by itself; empty: it was ordered
}

func (stop) Name() string { return actionStop }

func (a stop) Execute(ctx context.Context, _ supervisor.Run) error {
	return a.ward.finish(ctx, a.wish.Program.Stop, a.cause)
}

func (a stop) Limits() supervisor.ActionLimits {
	return supervisor.ActionLimits{Timeout: a.wish.Program.Stop.Grace + stopMargin, Attempts: -1, Backoff: atOnce}
}
