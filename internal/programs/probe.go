package programs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/internal/sleep"
)

// The kinds of probes.
const (
	kindReady = "ready"
	kindAlive = "alive"
)

// A probe is a probe of a run and its last result.
type probe struct {
	control.Probe
	spec  *spec.Probe
	begun bool // it is polled, or its watchdog runs
}

// newProbe returns nil if of is nil.
func newProbe(kind string, of *spec.Probe) *probe {
	if of == nil {
		return nil
	}
	return &probe{control.Probe{Kind: kind, What: probeText(of), Error: "it has no result yet"}, of, false}
}

// probeText describes a probe, for people.
func probeText(p *spec.Probe) string {
	switch {
	case p.HTTP != "":
		return "GET " + p.HTTP
	case p.TCP != "":
		return "connection to " + p.TCP
	case p.Log != nil:
		return fmt.Sprintf("line that matches %q", p.Log)
	case p.Notify:
		return "message to $NOTIFY_SOCKET"
	}
	return "command " + strings.Join(p.Command, " ")
}

// problem describes the last failure, or is empty.
func (p *probe) problem() string {
	if p == nil || p.OK {
		return ""
	}
	return p.What + ": " + p.Error
}

// record records a result.
func (p *probe) record(err error, now time.Time) {
	if ok := err == nil; p.At.IsZero() || ok != p.OK {
		p.OK, p.Streak = ok, 0
	}
	p.At, p.Error = now, ""
	p.Streak++
	if err != nil {
		p.Error = err.Error()
	}
}

// selfReported reports whether the program itself reports to the probe. Then one report is
// enough.
func (p *probe) selfReported() bool { return p.spec.Notify || p.spec.Log != nil }

// failing reports whether it has failed often enough in a row to count.
func (p *probe) failing() bool { return !p.OK && (p.selfReported() || p.Streak >= p.spec.Failures) }

func (p *probe) passing() bool { return p.OK && (p.selfReported() || p.Streak >= p.spec.Successes) }

// setProbes creates the probes of a run. They are not polled yet.
func (r *run) setProbes() {
	r.probeCtx, r.cancel = context.WithCancel(context.Background())
	r.alive = newProbe(kindAlive, r.currentSpec.Alive)
	ready := newProbe(kindReady, r.currentSpec.Ready)
	if r.ready != nil && ready != nil && r.ready.selfReported() && ready.selfReported() {
		return // they are equal, or the program would be restarted; and the old one may have its result already
	}
	r.ready = ready
	r.logProbe.Store(nil)
	if r.ready != nil && r.ready.spec.Log != nil {
		r.logProbe.Store(r.ready)
	}
}

// beginProbes begins with the ready probe. It is called with mu held, as are probe,
// becomeReady and unready.
func (prog *program) beginProbes(r *run) {
	if r.ready == nil {
		prog.becomeReady(r)
	} else {
		prog.probe(r, r.ready)
	}
}

// adopt gives a running program a new spec that does not restart it.
func (prog *program) adopt(p *spec.Program, d spec.Difference) {
	prog.mu.Lock()
	defer prog.mu.Unlock()
	r := prog.run
	if d.Restart || r == nil || r.exit != nil || r.probeCtx.Err() != nil {
		return
	}
	r.currentSpec = p
	if !slices.Contains(d.Keys, kindReady) && !slices.Contains(d.Keys, kindAlive) {
		return
	}
	r.cancel()
	r.setProbes()
	if r.proc == nil {
		return // started begins them
	}
	prog.beginProbes(r)
	if r.wasReady {
		prog.probe(r, r.alive)
	}
}

// probe begins to poll a probe, or to watch for the messages of a watchdog.
func (prog *program) probe(r *run, p *probe) {
	if p == nil || p.begun || r.probeCtx.Err() != nil {
		return
	}
	p.begun = true
	ctx, check := r.probeCtx, prog.checkFunc(r, p)
	switch {
	case check != nil:
		r.probers.Go(func() { prog.poll(ctx, r, p, check) })
	case p.spec.Notify && p == r.alive && r.notify != nil:
		r.probers.Go(func() { prog.watchdog(ctx, r, p) })
	}
}

// checkFunc returns the function that checks a probe, or nil if the program reports by
// itself.
func (prog *program) checkFunc(r *run, probe *probe) func(context.Context) error {
	switch p := probe.spec; {
	case len(p.Command) > 0:
		return func(ctx context.Context) error { return prog.checkCommand(ctx, r, probe) }
	case p.HTTP != "":
		return func(ctx context.Context) error { return checkHTTP(ctx, p.HTTP) }
	case p.TCP != "":
		return func(ctx context.Context) error { return checkTCP(ctx, p.TCP) }
	}
	return nil
}

// poll is the goroutine that polls a probe.
func (prog *program) poll(probeCtx context.Context, r *run, p *probe, check func(context.Context) error) {
	for pause := time.Duration(0); ; pause = p.spec.Interval {
		if !sleep.For(probeCtx, pause) {
			return
		}
		ctx, cancel := context.WithTimeout(probeCtx, p.spec.Timeout)
		err := check(ctx)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no response within %s", short(p.spec.Timeout))
		}
		cancel()
		if probeCtx.Err() != nil {
			return
		}
		prog.recordResult(r, p, err)
	}
}

// recordResult records the result of a probe, and wakes the service if that changes
// anything.
func (prog *program) recordResult(r *run, p *probe, err error) {
	prog.mu.Lock()
	if p == nil || p != r.ready && p != r.alive || r.probeCtx.Err() != nil { // it was replaced, or the run has ended
		prog.mu.Unlock()
		return
	}
	was := p.Probe
	p.record(err, time.Now())
	decided := prog.evaluate(r, p)
	changed := was.OK != p.OK || was.Error != p.Error
	prog.mu.Unlock()
	switch {
	case decided:
		prog.changed()
	case changed:
		prog.manager.notifyChanged(prog.id)
	}
}

// evaluate applies the results of a probe to the run, and reports whether its readiness or
// health has changed.
func (prog *program) evaluate(r *run, p *probe) bool {
	switch {
	case p == r.alive:
		if r.unhealthy != "" || !p.failing() {
			return false
		}
		r.unhealthy = "its alive probe fails: " + p.problem()
		return true
	case !r.isReady && p.passing():
		prog.becomeReady(r)
		return true
	case r.isReady && p.failing():
		prog.unready(r, p.At)
		return true
	}
	return false
}

// becomeReady records that the program is ready. From the first time on, its alive probe
// is polled.
func (prog *program) becomeReady(r *run) {
	r.isReady, r.readyAt = true, time.Now()
	r.wasReady = true
	prog.probe(r, r.alive)
}

// unready records that the program is no longer ready. If it was for long enough, its
// failures are forgotten.
func (prog *program) unready(r *run, now time.Time) {
	if r.isReady && now.Sub(r.readyAt) >= r.currentSpec.Restart.Reset {
		prog.failures, prog.restarts = 0, nil
	}
	r.isReady = false
}
