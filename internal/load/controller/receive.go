package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// receive takes a message of an agent.
func (r *run) receive(ctx context.Context, a *agent, m *loadpb.LiveStats) {
	r.Log.Debug("message from an agent", "run", r.ID, "agent", a.address, "status", m.GetStatus().String(), "sequence", m.GetSequence())
	if h := m.GetHello(); h != nil && a.info == nil {
		a.info = h.GetAgent()
		if a.info == nil {
			a.info = &loadpb.AgentInfo{}
		}
		if h.GetProtocol() != protocol {
			r.giveUp(a, loadpb.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION, "it chose a version of the protocol that was not offered")
		}
	}
	if a.final != nil {
		r.repeated(a, m)
		return
	}
	if t := m.GetTransition(); t != nil && r.Moved != nil {
		r.Moved(a.index, t)
	}
	if p := m.GetProgress(); p != nil {
		a.progress, a.moved = p, time.Now()
		a.cleaning = a.cleaning || a.started && m.GetStatus() == loadpb.Status_STATUS_ACKNOWLEDGE
	}
	if n := m.GetSequence(); n > a.sequence {
		a.dropped += n - a.sequence - 1
		a.sequence = n
	}
	r.status(ctx, a, m)
	r.changed()
}

// status takes the state that an agent reports.
func (r *run) status(ctx context.Context, a *agent, m *loadpb.LiveStats) {
	switch m.GetStatus() {
	case loadpb.Status_STATUS_PREPARING:
		a.status = m.GetStatus()
	case loadpb.Status_STATUS_READY:
		if a.status != m.GetStatus() && r.ready.IsZero() {
			r.ready = time.Now()
		}
		a.status = m.GetStatus()
	case loadpb.Status_STATUS_RUNNING:
		a.status = m.GetStatus()
		r.running(a, m)
	case loadpb.Status_STATUS_COMPLETED, loadpb.Status_STATUS_ERROR, loadpb.Status_STATUS_ABORTED:
		r.ended(ctx, a, m)
	}
}

// running takes statistics.
func (r *run) running(a *agent, m *loadpb.LiveStats) {
	if s := m.GetStarted(); s != nil {
		a.skew, a.hasBegun, a.moved = skewOf(s, r.start, a.offset), true, time.Now()
		r.Log.Info("an agent has begun", "run", r.ID, "agent", a.address, "first", a.skew[0], "last", a.skew[1], "uncertainty", a.offset.Bound)
	}
	if i := m.GetInterval(); i != nil {
		if a.aborted.IsZero() { // one that goes on in spite of that gets nowhere
			a.moved = time.Now()
		}
		if err := r.count(a, i); err != nil {
			r.giveUp(a, loadpb.ErrorCode_ERROR_CODE_PROTOCOL, err.Error())
		}
	}
}

// count adds the statistics of an interval and keeps them.
func (r *run) count(a *agent, i *loadpb.Interval) error {
	if a.intervals++; a.intervals > maxIntervals {
		return fmt.Errorf("it has sent more than %d intervals", maxIntervals)
	}
	if err := r.ahead(a, i); err != nil {
		return err
	}
	if err := r.series.add(i, r.expected()); err != nil {
		return err
	}
	if !r.keeper.add(a.index, i) {
		a.unkept++
	}
	return nil
}

// ahead returns an error for an interval that cannot have come yet: those after it would wait for it.
func (r *run) ahead(a *agent, i *loadpb.Interval) error {
	if at := time.Duration(i.GetStartNs()); !a.started || at > time.Since(r.begins)+r.Test.Timeouts.Silence {
		return fmt.Errorf("it has sent statistics of a time that has not come: from %s on", at)
	}
	return nil
}

// expected returns how many agents report intervals.
func (r *run) expected() int {
	n := 0
	for _, a := range r.alive() {
		if a.started {
			n++
		}
	}
	return n
}

// ended takes the last message of an agent, and fetches the result that it announces.
func (r *run) ended(ctx context.Context, a *agent, m *loadpb.LiveStats) {
	a.final, a.status = m, m.GetStatus()
	r.account(a, m.GetStatus(), m.GetError(), m.GetErrorMessage())
	if m.GetResult() == nil {
		a.fetched = true
		r.acknowledge(a)
		return
	}
	r.fetch(ctx, a, fetch{sha256: m.GetResult().GetSha256()})
}

// account has an agent that has ended otherwise than it was told to not count any more.
func (r *run) account(a *agent, s loadpb.Status, e *loadpb.Error, message string) {
	switch {
	case s == loadpb.Status_STATUS_COMPLETED, s == loadpb.Status_STATUS_ABORTED && !a.aborted.IsZero():
	case e != nil:
		r.fail(a, e)
	case message != "":
		r.fail(a, &loadpb.Error{Message: message})
	default:
		r.fail(a, &loadpb.Error{Message: "it has ended as " + s.String()})
	}
}

// closed takes the end of an agent's stream. If that is the loss of a run, the agent may have its
// result, and says in it how the run has ended.
func (r *run) closed(ctx context.Context, a *agent, why error) {
	a.closed = true
	lost := &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST, Message: why.Error()}
	switch {
	case a.over:
	case a.final != nil:
		a.over = a.fetched
	case !a.configured:
		a.over = true
		lost.Hint = absent(a.address, why)
		r.fail(a, lost)
	default:
		lost.Message = "the connection was lost: " + lost.Message
		if a.lost = lost; !r.mayHaveEnded() {
			r.fail(a, lost)
		}
		r.fetch(ctx, a, fetch{ending: r.Test.Timeouts.Lease})
	}
}

// mayHaveEnded reports whether an agent could have come to the end of its load by now.
func (r *run) mayHaveEnded() bool {
	return !r.begins.IsZero() && time.Since(r.begins) >= r.Test.Warmup+r.Test.Duration
}

// fetch gets the result of an agent.
func (r *run) fetch(ctx context.Context, a *agent, f fetch) {
	f.client, f.runID, f.path = a.client, r.ID, filepath.Join(r.Records, fmt.Sprintf("%d.result", a.index))
	f.silence, f.reach = r.Test.Timeouts.Silence, r.Test.Timeouts.Acknowledge
	r.wg.Go(func() {
		result, err := f.run(ctx)
		r.do(func() { r.collected(a, f.path, result, err) })
	})
}

// collected takes the result of an agent, or why it cannot be had.
func (r *run) collected(a *agent, path string, result *loadpb.Result, err error) {
	a.fetched, a.result = true, path
	if err != nil {
		a.result, a.missing = "", err.Error()
	}
	switch {
	case a.final == nil && err != nil:
		a.over = true
		r.fail(a, a.lost)
	case a.final == nil:
		a.over, a.status = true, result.GetStatus()
		r.account(a, result.GetStatus(), result.GetError(), a.lost.GetMessage())
	case err != nil:
		a.cancel(nil)
		a.over = true
		code := loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST
		if errors.As(err, &localError{}) {
			code = loadpb.ErrorCode_ERROR_CODE_IO
		}
		r.fail(a, &loadpb.Error{Code: code, Message: "its result could not be fetched: " + err.Error()})
	default:
		a.over = a.closed
		r.acknowledge(a)
	}
	r.changed()
}

// repeated takes what an agent sends after its last message: the same again, if it has not seen
// the acknowledgement.
func (r *run) repeated(a *agent, m *loadpb.LiveStats) {
	if a.fetched && m.GetSequence() == a.final.GetSequence() && m.GetStatus() == a.final.GetStatus() && bytes.Equal(m.GetResult().GetSha256(), a.final.GetResult().GetSha256()) {
		r.acknowledge(a)
	}
}

// acknowledge tells an agent that its last message, and the result, are here. The agent then closes
// the stream.
func (r *run) acknowledge(a *agent) {
	a.moved = time.Now()
	r.send(a, &loadpb.ControlMessage{
		Command: loadpb.Command_COMMAND_ACKNOWLEDGE, Sequence: a.final.GetSequence(), ResultSha256: a.final.GetResult().GetSha256(),
	})
}
