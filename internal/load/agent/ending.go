package agent

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/workload"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// finish ends the run. What follows is one step after the other: the end of the engine, the
// cleanup, the result, the final message. The reason of an error is its message.
func (s *session) finish(event machine.Event, e *loadpb.Error, reason string) {
	code := ""
	if e != nil {
		code, reason = codeName(e.GetCode()), e.GetMessage()
	}
	reason = text(reason)
	t, ok := s.move(event, reason, code)
	if !ok {
		return // it has ended otherwise
	}
	if e != nil {
		e.Message, e.Subject, e.Hint = text(e.GetMessage()), text(e.GetSubject()), text(e.GetHint())
	}
	s.failure, s.phase = e, stopping
	s.last = &loadpb.LiveStats{Status: finalStatus(s.state), Transition: t, Error: e, ErrorMessage: reason}
	if s.engine == nil {
		s.clean()
		return
	}
	grace := abortTimeout
	if s.test != nil && s.test.Timeouts.Abort > 0 {
		grace = s.test.Timeouts.Abort
	}
	s.engine.stop(grace)
	s.deadline = time.Now().Add(grace + killTime)
}

func finalStatus(state machine.State) loadpb.Status {
	switch state {
	case lifecycle.AgentCompleted:
		return loadpb.Status_STATUS_COMPLETED
	case lifecycle.AgentAborted:
		return loadpb.Status_STATUS_ABORTED
	default:
		return loadpb.Status_STATUS_ERROR
	}
}

// abandon gives up an engine that was killed and has not ended: it waits for a disk that hangs.
func (s *session) abandon() {
	s.log.Error("the engine was killed and does not end", "run", s.id)
	s.drop()
	s.uncleaned("the engine was killed and does not end, so that nothing was deleted; the next start of the agent does it")
}

// drop has nobody wait for the engine any more.
func (s *session) drop() {
	s.stderr = s.engine.stderr()
	go func(frames <-chan *enginepb.EngineFrame) {
		for range frames { // it ends with the engine
		}
	}(s.engine.frames())
	s.engine = nil
}

// uncleaned records why something was left.
func (s *session) uncleaned(why string) {
	s.unclean = true
	if s.cleanup == nil {
		s.cleanup = s.left()
	}
	s.cleanup.Errors = append(s.cleanup.Errors, text(why))
}

// left accounts for a run of which nothing is deleted.
func (s *session) left() *loadpb.CleanupReport {
	if s.prepared == nil { // the preparation has ended early
		return &loadpb.CleanupReport{LeftFiles: workload.Listed(s.job.Manifest)}
	}
	return &loadpb.CleanupReport{LeftFiles: s.prepared.GetFiles()}
}

// deletes returns what is deleted after the end of a run in that state.
func deletes(c spec.Cleanup, state machine.State) bool {
	what := c.Error
	switch state {
	case lifecycle.AgentCompleted:
		what = c.Completed
	case lifecycle.AgentAborted:
		what = c.Aborted
	}
	return what != spec.DeleteNothing
}

// clean has a new engine delete what the run has created.
func (s *session) clean() {
	s.deadline = time.Time{}
	switch {
	case s.result == nil: // nothing was prepared
		s.store()
		return
	case !deletes(s.test.Cleanup, s.state):
		s.cleanup = s.left()
		s.store()
		return
	}
	e, err := s.a.launch(s.job)
	if err != nil {
		s.uncleaned(err.Error())
		s.store()
		return
	}
	e.send(cleanupCommand())
	s.engine, s.cleaner, s.phase, s.progress = e, true, cleaning, ""
	s.deadline = time.Now().Add(s.test.Timeouts.Prepare)
}

func cleanupCommand() *enginepb.EngineCommand {
	return &enginepb.EngineCommand{Command: &enginepb.EngineCommand_Cleanup{Cleanup: &enginepb.Cleanup{}}}
}

// cleaned takes what an engine that cleans up reports.
func (s *session) cleaned(f *enginepb.EngineFrame) {
	switch {
	case f.GetProgress() != nil && s.cleanup == nil:
		s.progressed(f.GetProgress())
	case f.GetCleaned() != nil && s.cleanup == nil:
		if s.cleanup = f.GetCleaned(); failed(s.cleanup) {
			s.unclean = true
			s.log.Error("not everything could be deleted; the next start of the agent tries it again", "run", s.id, "left_files", s.cleanup.GetLeftFiles(), "errors", s.cleanup.GetErrors())
		}
		s.engine.stop(abortTimeout)
		s.deadline = time.Now().Add(abortTimeout + killTime)
	case f.GetFailed() != nil && s.cleanup == nil:
		s.uncleaned(f.GetFailed().GetMessage())
		s.engine.stop(abortTimeout)
		s.deadline = time.Now().Add(abortTimeout + killTime)
	}
}

// cleaningStuck takes the end of the time of an engine that cleans up.
func (s *session) cleaningStuck() {
	if s.cleanup == nil {
		s.uncleaned(fmt.Sprintf("the cleanup made no progress for %s and was ended; the next start of the agent goes on with it", s.test.Timeouts.Prepare))
		s.engine.stop(0)
		s.deadline = time.Now().Add(killTime)
		return
	}
	s.drop()
	s.store()
}

func (s *session) cleanerEnded(how, said string) {
	if s.cleanup == nil {
		s.uncleaned(fmt.Sprintf("the engine that cleans up has ended: %s: %s", how, lastLine(said)))
	}
	s.store()
}

// store keeps the result, frees the agent for the next run, and sends the final message.
func (s *session) store() {
	var summary *loadpb.ResultSummary
	if s.result != nil {
		r := s.outcome()
		sum, size, err := s.result.finish(r)
		if err != nil {
			s.log.Error("the result of a run cannot be kept; the next start of the agent tries it again", "run", s.id, "error", err)
			s.unclean = true
			s.last.ErrorMessage = fmt.Sprintf("%s (the result cannot be kept: %v)", s.last.GetErrorMessage(), err)
		}
		summary = &loadpb.ResultSummary{Sha256: sum, SizeBytes: uint64(size), Totals: r.GetTotals(), Seconds: r.GetSeconds(), Prepare: s.prepared, Cleanup: s.cleanup}
		if err != nil {
			summary.Sha256, summary.SizeBytes = nil, 0
		}
	}
	if !s.unclean {
		s.a.forget(s.id)
	}
	s.sequence++
	s.last.Sequence, s.last.Result = s.sequence, summary
	s.publish()
	s.a.end(s)
	s.a.sweep()
	s.phase = closing
	if s.in == nil {
		s.phase = over
		return
	}
	s.final()
}

// final sends the final message, once more if it is not acknowledged.
func (s *session) final() {
	if s.sent > resends {
		s.log.Warn("the final message was not acknowledged; the result is kept", "run", s.id)
		s.phase = over
		return
	}
	s.sent++
	s.say(copyOf(s.last))
	wait := acknowledgeTimeout
	if s.test != nil && s.test.Timeouts.Acknowledge > 0 {
		wait = s.test.Timeouts.Acknowledge
	}
	s.deadline = time.Now().Add(wait)
}

// outcome returns the record that ends the result.
func (s *session) outcome() *loadpb.Result {
	r := &loadpb.Result{RunId: s.id, Status: s.last.GetStatus(), Error: s.failure, Agent: s.a.Info(), Assignment: s.assignment, ConfigYaml: s.config,
		Started: s.started, Prepare: s.prepared, Cleanup: s.cleanup, Transitions: s.trail.rows, AbortReason: s.reason}
	if f := s.finished; f != nil {
		r.Totals, r.Seconds, r.CpuUserSeconds, r.CpuSystemSeconds, r.ErrorSamples = f.GetTotals(), f.GetSeconds(), f.GetCpuUserSeconds(), f.GetCpuSystemSeconds(), f.GetErrorSamples()
		return r
	}
	r.Totals, r.Seconds, r.CpuUserSeconds, r.CpuSystemSeconds = s.totals.Proto(), s.seconds, s.usage[0], s.usage[1]
	return r
}
