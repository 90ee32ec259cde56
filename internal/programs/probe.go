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
)

// The kinds of probes.
const (
	kindReady = "ready"
	kindAlive = "alive"
)

// A probe is one that a run has, and what it answered.
type probe struct {
	control.Probe
	of    *spec.Probe
	begun bool // it is asked
}

// newProbe answers nil for no probe.
func newProbe(kind string, of *spec.Probe) *probe {
	if of == nil {
		return nil
	}
	return &probe{control.Probe{Kind: kind, What: what(of), Error: "it has not answered yet"}, of, false}
}

// what names a probe for people.
func what(p *spec.Probe) string {
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

// trouble says what is wrong, or nothing.
func (p *probe) trouble() string {
	if p == nil || p.OK {
		return ""
	}
	return p.What + ": " + p.Error
}

// note takes an answer.
func (p *probe) note(err error, now time.Time) {
	if ok := err == nil; p.At.IsZero() || ok != p.OK {
		p.OK, p.Streak = ok, 0
	}
	p.At, p.Error = now, ""
	p.Streak++
	if err != nil {
		p.Error = err.Error()
	}
}

// told reports whether it is the program that speaks: then one word is enough.
func (p *probe) told() bool { return p.of.Notify || p.of.Log != nil }

// failing reports whether it has failed often enough to be believed.
func (p *probe) failing() bool { return !p.OK && (p.told() || p.Streak >= p.of.Failures) }

func (p *probe) passing() bool { return p.OK && (p.told() || p.Streak >= p.of.Successes) }

// setProbes makes the probes of a run, which are not asked yet.
func (r *run) setProbes() {
	r.probing, r.cancel = context.WithCancel(context.Background())
	r.alive = newProbe(kindAlive, r.rules.Alive)
	ready := newProbe(kindReady, r.rules.Ready)
	if r.ready != nil && ready != nil && r.ready.told() && ready.told() {
		return // it is the same, or the program would be started again; and it may just have been answered
	}
	r.ready = ready
	r.awaits.Store(nil)
	if r.ready != nil && r.ready.of.Log != nil {
		r.awaits.Store(r.ready)
	}
}

// beginProbes begins to ask. It is called with mu held, as are probe, becomeReady
// and unready.
func (w *ward) beginProbes(r *run) {
	if r.ready == nil {
		w.becomeReady(r)
	} else {
		w.probe(r, r.ready)
	}
}

// adopt gives a running program, which stays, its new definition.
func (w *ward) adopt(p *spec.Program, d spec.Difference) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := w.run
	if d.Restart || r == nil || r.exit != nil || r.probing.Err() != nil {
		return
	}
	r.rules = p
	if !slices.Contains(d.Keys, kindReady) && !slices.Contains(d.Keys, kindAlive) {
		return
	}
	r.cancel()
	r.setProbes()
	if r.proc == nil {
		return // they begin with it
	}
	w.beginProbes(r)
	if r.wasReady {
		w.probe(r, r.alive)
	}
}

// probe begins to ask what has to be asked.
func (w *ward) probe(r *run, p *probe) {
	if p == nil || p.begun || r.probing.Err() != nil {
		return
	}
	p.begun = true
	ctx, ask := r.probing, w.asker(r, p)
	switch {
	case ask != nil:
		r.probers.Go(func() { w.prober(ctx, r, p, ask) })
	case p.of.Notify && p == r.alive && r.notify != nil:
		r.probers.Go(func() { w.watchdog(ctx, r, p) })
	}
}

// asker answers how a probe is asked, or nil if the program speaks by itself.
func (w *ward) asker(r *run, probe *probe) func(context.Context) error {
	switch p := probe.of; {
	case len(p.Command) > 0:
		return func(ctx context.Context) error { return w.askCommand(ctx, r, probe) }
	case p.HTTP != "":
		return func(ctx context.Context) error { return askHTTP(ctx, p.HTTP) }
	case p.TCP != "":
		return func(ctx context.Context) error { return askTCP(ctx, p.TCP) }
	}
	return nil
}

// prober is the goroutine of a probe that asks.
func (w *ward) prober(probing context.Context, r *run, p *probe, ask func(context.Context) error) {
	for pause := time.Duration(0); ; pause = p.of.Interval {
		if !sleep(probing, pause) {
			return
		}
		ctx, cancel := context.WithTimeout(probing, p.of.Timeout)
		err := ask(ctx)
		if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = fmt.Errorf("no answer within %s", short(p.of.Timeout))
		}
		cancel()
		if probing.Err() != nil {
			return
		}
		w.answered(r, p, err)
	}
}

// sleep waits, and reports whether ctx has not ended meanwhile.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// answered takes the answer of a probe, and wakes the service if it matters.
func (w *ward) answered(r *run, p *probe, err error) {
	w.mu.Lock()
	if p == nil || p != r.ready && p != r.alive || r.probing.Err() != nil { // of another time
		w.mu.Unlock()
		return
	}
	was := p.Probe
	p.note(err, time.Now())
	turned := w.weigh(r, p)
	changed := was.OK != p.OK || was.Error != p.Error
	w.mu.Unlock()
	switch {
	case turned:
		w.changed()
	case changed:
		w.keeper.tell(w.id)
	}
}

// weigh draws the conclusion from the answers of a probe, and reports whether there
// is a new one.
func (w *ward) weigh(r *run, p *probe) bool {
	switch {
	case p == r.alive:
		if r.sick != "" || !p.failing() {
			return false
		}
		r.sick = "its alive probe fails: " + p.trouble()
		return true
	case !r.isReady && p.passing():
		w.becomeReady(r)
		return true
	case r.isReady && p.failing():
		w.unready(r, p.At)
		return true
	}
	return false
}

// becomeReady notes that the program is ready. The first time it begins to be asked
// whether it is alive.
func (w *ward) becomeReady(r *run) {
	r.isReady, r.readyAt = true, time.Now()
	r.wasReady = true
	w.probe(r, r.alive)
}

// unready notes that it is ready no more. If it was for long enough, the next
// failure is a first one again.
func (w *ward) unready(r *run, now time.Time) {
	if r.isReady && now.Sub(r.readyAt) >= r.rules.Restart.Reset {
		w.failures, w.restarts = 0, nil
	}
	r.isReady = false
}
