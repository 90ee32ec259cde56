package controller

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
)

const (
	probes     = 32                   // of one measurement
	probePause = 2 * time.Millisecond // between two of them
)

// A probe is one round trip, in nanoseconds since the Unix epoch: when it was sent and came
// back by the controller's clock, and when it was received and replied to by the agent's.
type probe struct{ sent, received, replied, back int64 }

// delay returns the time that the probe was on its way.
func (p probe) delay() int64 { return (p.back - p.sent) - (p.replied - p.received) }

// offset returns the agent's clock less the controller's, if both ways took the same time.
func (p probe) offset() int64 { return ((p.received - p.sent) + (p.replied - p.back)) / 2 }

// clockOf returns what the fastest of some probes says. No way takes less than no time, so its
// offset is wrong by half of its delay at most. A negative delay means that a clock was set
// meanwhile: such a probe says nothing. It reports whether any is left.
func clockOf(all []probe) (report.Clock, bool) {
	fair := slices.DeleteFunc(slices.Clone(all), func(p probe) bool { return p.delay() < 0 })
	if len(fair) == 0 {
		return report.Clock{}, false
	}
	best := slices.MinFunc(fair, func(a, b probe) int { return cmp.Compare(a.delay(), b.delay()) })
	return report.Clock{Offset: time.Duration(best.offset()), Bound: time.Duration((best.delay() + 1) / 2), Probes: len(fair)}, true
}

// drift returns how far apart two clocks may get in some time: 100 ppm, which is more than those of
// computers differ by.
func drift(d time.Duration) time.Duration { return d / 10_000 }

// agentTime returns a time of the controller by the agent's clock.
func agentTime(t time.Time, c report.Clock) int64 { return t.UnixNano() + int64(c.Offset) }

// skewOf returns how long after the coordinated start the first and the last thread of an agent
// have begun, by the controller's clock.
func skewOf(s *loadpb.Started, start time.Time, c report.Clock) [2]time.Duration {
	intended := agentTime(start, c)
	return [2]time.Duration{time.Duration(s.GetFirstNs() - intended), time.Duration(s.GetLastNs() - intended)}
}

// measure measures the agent's clock, until ctx ends at the latest. If some probes have not come
// back by then, the others count.
func (a *agent) measure(ctx context.Context) (report.Clock, error) {
	tick := time.NewTicker(probePause)
	defer tick.Stop()
	var got []probe
	begun := a.clock().UnixNano()
	for sent := 0; len(got) < probes; {
		select {
		case p := <-a.replies:
			if p.sent >= begun { // not of an earlier measurement
				got = append(got, p)
			}
		case <-tick.C:
			if sent < probes {
				a.post(&loadpb.ControlMessage{ClockProbe: &loadpb.ClockProbe{}})
				sent++
			}
		case <-ctx.Done():
			if c, ok := clockOf(got); ok {
				return c, nil
			}
			return report.Clock{}, fmt.Errorf("its clock could not be measured: %d of %d probes came back", len(got), sent)
		}
	}
	if c, ok := clockOf(got); ok {
		return c, nil
	}
	return report.Clock{}, fmt.Errorf("its clock could not be measured: it was set meanwhile")
}
