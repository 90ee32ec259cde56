package worker

import (
	"context"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/process"
)

// wait waits for the end of p. If ctx ends first it sends SIGTERM, and after grace
// SIGKILL, and returns true.
func wait(ctx context.Context, p *process.Process, grace time.Duration, log *Log) (stopped bool) {
	select {
	case <-p.Ended():
		return false
	case <-ctx.Done():
	}
	if hasEnded(p) {
		return false
	}
	log.Notef("%v: sending SIGTERM", context.Cause(ctx))
	p.Signal(syscall.SIGTERM)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.Ended():
	case <-timer.C:
		log.Notef("still running %v after SIGTERM: sending SIGKILL", grace)
		p.Signal(syscall.SIGKILL)
		<-p.Ended()
	}
	return true
}

func hasEnded(p *process.Process) bool {
	select {
	case <-p.Ended():
		return true
	default:
		return false
	}
}
