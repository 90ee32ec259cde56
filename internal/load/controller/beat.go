package controller

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

const (
	beat = 50 * time.Millisecond // between two looks at the limits

	// syncTime is how long the files of a run may take to be synced at its end.
	syncTime = 10 * time.Minute
)

// beat gives up the agents whose time is over, and gives each a sign of life in time.
func (r *run) beat(now time.Time) {
	for _, a := range r.agents {
		switch {
		case a.over || a.closed: // a fetch has limits of its own
		case a.final != nil:
			if a.fetched && now.Sub(a.moved) > r.Test.Timeouts.Acknowledge {
				a.cancel(nil) // it has not closed the stream
			}
		case a.info == nil:
			r.greeting(a, now)
		default:
			r.listen(a, now)
			r.limit(a, now)
			if now.Sub(a.sent) > r.Test.Timeouts.Lease/3 {
				r.send(a, &loadpb.ControlMessage{})
			}
		}
	}
}

// greeting gives up an agent that has not greeted. The time is less than that for a config, since
// the agents that have greeted wait for theirs meanwhile.
func (r *run) greeting(a *agent, now time.Time) {
	if limit := r.Test.Timeouts.Config * 2 / 3; now.Sub(a.begun) > limit {
		r.giveUp(a, loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST, fmt.Sprintf("no reply within %s", limit))
	}
}

// listen asks a silent agent for a sign of life, and ends the stream of one that gives none.
func (r *run) listen(a *agent, now time.Time) {
	heard := a.begun.Add(time.Duration(a.heard.Load()))
	switch {
	case now.Sub(heard) <= r.Test.Timeouts.Silence:
		a.pinged = time.Time{}
	case a.pinged.IsZero():
		a.pinged = now
		r.send(a, &loadpb.ControlMessage{})
	case now.Sub(a.pinged) > r.Test.Timeouts.Acknowledge:
		a.cancel(fmt.Errorf("no sign of life for %s", now.Sub(heard).Round(100*time.Millisecond)))
	}
}

// limit gives up an agent that takes too long for what it does.
func (r *run) limit(a *agent, now time.Time) {
	t := r.Test.Timeouts
	still := now.Sub(a.moved)
	switch {
	case !a.aborted.IsZero():
		if limit := t.Abort + t.Prepare; still > limit {
			a.cancel(fmt.Errorf("it did not report within %s that it has ended the run", limit))
		}
	case a.status == loadpb.Status_STATUS_RUNNING:
		if limit := r.overtime(); still > limit {
			r.giveUp(a, loadpb.ErrorCode_ERROR_CODE_TIMEOUT, fmt.Sprintf("it has sent neither statistics nor progress for %s", limit))
		} else if !a.cleaning && r.Test.Duration > 0 && now.Sub(r.begins) > r.Test.Warmup+r.Test.Duration+limit {
			r.giveUp(a, loadpb.ErrorCode_ERROR_CODE_TIMEOUT, fmt.Sprintf("the load has not ended within %s of its end", limit))
		}
	case a.started:
		if limit := t.Silence; still > limit {
			r.giveUp(a, loadpb.ErrorCode_ERROR_CODE_TIMEOUT, fmt.Sprintf("it has not begun within %s of the start time", limit))
		}
	case a.configured && a.status != loadpb.Status_STATUS_READY:
		if limit := t.Prepare + t.Acknowledge; still > limit {
			r.giveUp(a, loadpb.ErrorCode_ERROR_CODE_TIMEOUT, fmt.Sprintf("it made no progress in preparing for %s", limit))
		}
	}
}

// overtime returns how long an agent that runs may be behind what it should have sent: an interval,
// the rest of one, and what it is allowed besides.
func (r *run) overtime() time.Duration {
	limit := r.Test.Timeouts.Prepare
	if r.Test.Sync == spec.SyncAtEnd {
		limit = max(limit, syncTime)
	}
	return limit + 2*r.Test.Interval
}
