package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
	"github.com/pawl-dev/pawl/lifecycle"
)

// frame takes what the engine reports.
func (s *session) frame(f *enginepb.EngineFrame) {
	switch {
	case s.cleaner:
		s.cleaned(f)
	case s.phase == stopping:
		s.late(f)
	default:
		s.report(f)
	}
}

// report takes a frame while the run is on.
func (s *session) report(f *enginepb.EngineFrame) {
	switch {
	case f.GetProgress() != nil:
		s.progressed(f.GetProgress())
	case f.GetPrepared() != nil:
		s.ready(f.GetPrepared())
	case f.GetStarted() != nil:
		s.begun(f.GetStarted())
	case f.GetInterval() != nil:
		s.interval(f.GetInterval())
	case f.GetFinished() != nil:
		s.ended(f.GetFinished())
	case f.GetFailed() != nil:
		s.failed(f.GetFailed())
	default:
		s.fail(s.failing(), loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED, "the engine has reported what is not known")
	}
}

// progressed passes progress on. Only what has advanced counts as progress.
func (s *session) progressed(p *loadpb.Progress) {
	if text := fmt.Sprint(p.GetPhase(), p.GetDone(), p.GetBytes()); text != s.progress {
		s.progress = text
		if s.state == lifecycle.AgentConfigReceived || s.phase == cleaning {
			s.deadline = time.Now().Add(s.test.Timeouts.Prepare)
		}
	}
	status := s.status()
	if s.phase == cleaning {
		status = loadpb.Status_STATUS_ACKNOWLEDGE
	}
	s.leave(&loadpb.LiveStats{Status: status, Progress: p}, true)
}

func (s *session) ready(p *loadpb.PrepareStats) {
	s.prepared = p
	s.deadline = time.Now().Add(s.startLimit())
	if t, ok := s.move(lifecycle.AgentPrepareComplete, "", ""); ok {
		s.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_READY, Transition: t})
	}
}

// startLimit returns how long a start time is waited for.
func (s *session) startLimit() time.Duration {
	if n := s.assignment.GetStartSeconds(); n > 0 {
		return time.Duration(n) * time.Second
	}
	return s.test.Timeouts.Start
}

func (s *session) begun(e *loadpb.Started) {
	if s.startNs == 0 {
		s.fail(s.failing(), loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED, "the engine has begun without a start time")
		return
	}
	s.started = &loadpb.Started{IntendedNs: s.startNs, FirstNs: s.reading.toUnix(e.GetFirstNs()), LastNs: s.reading.toUnix(e.GetLastNs()), Threads: e.GetThreads()}
	s.deadline = time.Time{}
	if t, ok := s.move(lifecycle.AgentStart, "", ""); ok {
		s.sequence++
		s.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_RUNNING, Sequence: s.sequence, Started: s.started, Transition: t})
	}
}

// interval takes statistics: all are kept, the newest are sent.
func (s *session) interval(i *loadpb.Interval) {
	if s.state != lifecycle.AgentRunning {
		s.fail(s.failing(), loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED, "the engine has sent statistics in %s", s.state)
		return
	}
	if err := s.count(i); err != nil {
		s.fail(s.failing(), loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED, "the engine's %v", err)
		return
	}
	if err := s.result.add(i); err != nil {
		s.fail(s.failing(), storageCode(err), "the result cannot be written: %v", err)
		return
	}
	s.sequence++
	s.leave(&loadpb.LiveStats{Status: loadpb.Status_STATUS_RUNNING, Sequence: s.sequence, Interval: i, Totals: counters(s.totals)}, true)
	s.bound()
}

// bound ends a run whose result is as long as a result may be. What it has measured is kept. A run with
// a duration ends by itself before it has too many intervals.
func (s *session) bound() {
	l := s.a.limits
	switch {
	case s.test.Count > 0 && s.result.intervals > l.intervals: // one that ends with the last of them has reached it
		s.finish(lifecycle.AgentFail, &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_TIMEOUT, Subject: "count", Hint: "a lower count, or a longer interval",
			Message: fmt.Sprintf("the count is not reached within %d intervals of %s, which is the most that a run has", l.intervals, s.test.Interval)}, "")
	case s.result.size >= l.bytes-l.bytes/64: // the rest is for what ends it
		s.finish(lifecycle.AgentFail, &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_IO, Subject: "interval", Hint: "a longer interval, or a shorter run",
			Message: fmt.Sprintf("the result has %d bytes after %d intervals; at most %d are allowed", s.result.size, s.result.intervals, l.bytes)}, "")
	}
}

// count adds the statistics of an interval to those of the run.
func (s *session) count(i *loadpb.Interval) error {
	s.usage[0] += i.GetCpuUserSeconds()
	s.usage[1] += i.GetCpuSystemSeconds()
	for _, o := range i.GetOperations() {
		for class, n := range o.GetErrors() {
			s.a.config.Hooks.Failures(class, n)
		}
		if err := s.countRequests(o); err != nil {
			return err
		}
	}
	if i.GetWarmup() {
		return nil
	}
	s.seconds += float64(i.GetEndNs()-i.GetStartNs()) / 1e9
	return s.totals.Add(i.GetOperations())
}

// countRequests counts the requests of an operation to an object store, if there are such.
func (s *session) countRequests(o *loadpb.OperationStats) error {
	if s.test.Engine != spec.S3 {
		return nil
	}
	var first *histogram.Histogram
	if o.GetFirstByte() != nil {
		var err error
		if first, err = stats.Decode(o.GetFirstByte()); err != nil {
			return fmt.Errorf("statistics of %s: %w", o.GetOperation(), err)
		}
	}
	s.a.config.Hooks.Objects(o.GetOperation(), first, o.GetRetries())
	return nil
}

// counters returns a table as it is sent with each interval, without histograms.
func counters(t stats.Table) []*loadpb.OperationStats {
	var all []*loadpb.OperationStats
	for _, k := range t.Keys() {
		c := t[k]
		all = append(all, &loadpb.OperationStats{Operation: k.Operation, SizeClass: k.SizeClass, Operations: c.Operations, Bytes: c.Bytes, Errors: copied(c.Errors)})
	}
	return all
}

// copied returns a copy, since the table goes on counting while a message waits to be sent.
func copied(m map[string]uint64) map[string]uint64 {
	c := make(map[string]uint64, len(m))
	for k, n := range m {
		c[k] = n
	}
	return c
}

func (s *session) ended(f *enginepb.Finished) {
	if s.state != lifecycle.AgentRunning {
		s.fail(s.failing(), loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED, "the engine has finished in %s", s.state)
		return
	}
	s.finished = f
	if f.GetError() != nil {
		s.failed(f.GetError())
		return
	}
	s.finish(lifecycle.AgentFinish, nil, "")
}

// failed takes an error of the engine.
func (s *session) failed(e *loadpb.Error) {
	if e.GetCode() == loadpb.ErrorCode_ERROR_CODE_UNSPECIFIED {
		e.Code = loadpb.ErrorCode_ERROR_CODE_IO
		if s.state == lifecycle.AgentConfigReceived {
			e.Code = loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED
		}
	}
	s.finish(s.failing(), e, "")
}

// late takes what an engine reports while it is being stopped: the rest of its statistics.
func (s *session) late(f *enginepb.EngineFrame) {
	switch {
	case f.GetFinished() != nil && s.finished == nil:
		s.finished = f.GetFinished()
	case f.GetPrepared() != nil && s.prepared == nil:
		s.prepared = f.GetPrepared()
	case f.GetInterval() != nil && s.started != nil:
		if err := s.count(f.GetInterval()); err == nil {
			if err := s.result.add(f.GetInterval()); err != nil {
				s.log.Error("statistics cannot be written", "run", s.id, "error", err)
			}
		}
	}
}

// engineEnded takes the end of an engine.
func (s *session) engineEnded() {
	how, said := s.engine.ending(), s.engine.stderr()
	s.engine = nil
	if said != "" {
		s.stderr = said
	}
	switch {
	case s.cleaner:
		s.cleanerEnded(how, said)
	case s.phase == stopping:
		s.clean()
	default:
		message := "the engine has ended: " + how
		if last := lastLine(said); last != "" {
			message += ": " + last
		}
		s.fail(s.failing(), loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED, "%s", message)
	}
}

// lastLine returns the last line of a text that is not empty.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
