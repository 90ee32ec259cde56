package daemon

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/worker"
)

// Node returns how a process describes itself, with a new random number. An empty name becomes
// host/pid.
func Node(role, name, version string) pawl.Node {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	n := pawl.Node{ID: 1 + rand.Int64N(math.MaxInt64), Role: role, Name: name, Host: host, PID: os.Getpid(), Version: version}
	if n.Name == "" {
		n.Name = fmt.Sprintf("%s/%d", host, n.PID)
	}
	return n
}

// Work is the worker of a process, from its start to the end of its drain.
type Work struct {
	Engine  worker.Linker
	Worker  worker.Config
	Drain   time.Duration                                // how long running steps may take to end; 0: interrupt them at once
	Hurried func() (context.Context, context.CancelFunc) // its context ends when a second signal ends the drain
	Out     io.Writer                                    // where the progress of the drain is printed
}

// Run runs the worker until ctx ends or the worker does, and drains it. It calls started with
// the worker's id. The error is a *worker.TerminatedError if an operator terminated the
// worker.
func (k *Work) Run(ctx context.Context, started func(id string)) error {
	w, err := worker.Start(ctx, k.Engine, k.Worker)
	if err != nil {
		return err
	}
	started(w.ID())
	select {
	case <-ctx.Done():
	case <-w.Over():
	}
	err = k.drain(ctx, w)
	fmt.Fprintf(k.Out, "worker %s has stopped\n", w.ID())
	return err
}

// drain lets running steps end within the limit, or until a second signal arrives. If ctx has ended since the
// database is gone it interrupts them: their results would be lost.
func (k *Work) drain(ctx context.Context, w *worker.Worker) error {
	limit := k.Drain
	if durable.Gone(ctx) != nil {
		limit = 0
	}
	over, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if limit > 0 && !isClosed(w.Over()) {
		hurried, stop := k.Hurried()
		defer stop()
		context.AfterFunc(hurried, func() {
			if !isClosed(w.Over()) {
				fmt.Fprintln(k.Out, "running steps are interrupted")
			}
			cancel()
		})
		fmt.Fprintf(k.Out, "worker %s claims nothing more; running steps may take %s to end; Ctrl-C again interrupts them\n", w.ID(), limit)
	}
	return w.Drain(over)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
