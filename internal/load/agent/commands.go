package agent

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl/internal/document"
	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/workload"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// command takes a command other than PING.
func (s *session) command(m *loadpb.ControlMessage) {
	switch m.GetCommand() {
	case loadpb.Command_COMMAND_START:
		s.start(m)
	case loadpb.Command_COMMAND_ABORT:
		s.reason = m.GetReason()
		if s.reason == "" {
			s.reason = "the controller gave no reason"
		}
		s.finish(lifecycle.AgentAbort, nil, s.reason)
	case loadpb.Command_COMMAND_ACKNOWLEDGE:
		s.invalid("command", "there is no final message to acknowledge")
	default:
		s.invalid("command", "command %d is not known", m.GetCommand())
	}
}

// start takes START with a config or with a time. The same again changes nothing.
func (s *session) start(m *loadpb.ControlMessage) {
	config, at := m.GetConfigYaml(), m.GetCoordinatedStartTimeNs()
	switch {
	case (config != "") == (at != 0):
		s.invalid("command", "START has either a config or a start time")
	case config != "" && s.state == lifecycle.AgentIdle:
		s.configure(config, m.GetAssignment())
	case config != "":
		if sha256.Sum256([]byte(config)) != s.hash || !proto.Equal(m.GetAssignment(), s.assignment) {
			s.invalid("config_yaml", "the run has a config already, and this is another one")
			return
		}
		s.say(&loadpb.LiveStats{Status: s.status()})
	case s.startNs != 0 && at != s.startNs:
		s.invalid("coordinated_start_time_ns", "the run has a start time already, and this is another one")
	case s.startNs != 0:
		s.say(&loadpb.LiveStats{Status: s.status()})
	case s.state == lifecycle.AgentReady:
		s.schedule(at)
	default:
		s.invalid("coordinated_start_time_ns", "a start time is for READY, and the run is in %s", s.state)
	}
}

// status returns the state as it is reported again.
func (s *session) status() loadpb.Status {
	switch s.state {
	case lifecycle.AgentConfigReceived:
		return loadpb.Status_STATUS_PREPARING
	case lifecycle.AgentReady:
		return loadpb.Status_STATUS_READY
	default: // what is RUNNING has a sequence number
		return loadpb.Status_STATUS_ACKNOWLEDGE
	}
}

// configure takes a config.
func (s *session) configure(config string, assignment *loadpb.Assignment) {
	test, job, fault := s.a.examine(s.id, config, assignment)
	if fault != nil {
		s.finish(lifecycle.AgentInvalidConfig, fault, "")
		return
	}
	s.config, s.hash, s.assignment, s.test, s.job = config, sha256.Sum256([]byte(config)), assignment, test, job
	if s.lease == defaultLease && test.Timeouts.Lease > 0 {
		s.lease = test.Timeouts.Lease
	}
	t, ok := s.move(lifecycle.AgentConfig, "", "")
	if !ok {
		return
	}
	s.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_PREPARING, Transition: t})
	s.prepare()
}

// prepare starts the engine.
func (s *session) prepare() {
	var err error
	if err = s.a.keep(s.job); err == nil {
		s.result, err = s.a.record(s.id)
	}
	if err != nil {
		s.fail(lifecycle.AgentPrepareFailed, storageCode(err), "the state folder cannot be written: %v", err)
		return
	}
	if s.engine, err = s.a.launch(s.job); err != nil {
		s.fail(lifecycle.AgentPrepareFailed, loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED, "%v", err)
		return
	}
	s.engine.send(&enginepb.EngineCommand{Command: &enginepb.EngineCommand_Prepare{Prepare: &enginepb.Prepare{}}})
	s.deadline = time.Now().Add(s.test.Timeouts.Prepare)
}

// schedule takes a start time.
func (s *session) schedule(at int64) {
	s.reading = read(s.a.config.Clock, s.a.monotonic)
	ahead := time.Duration(max(at, 0) - s.reading.unix)
	switch {
	case ahead <= 0:
		s.fail(lifecycle.AgentStartPast, loadpb.ErrorCode_ERROR_CODE_START_IN_PAST, "the start time was %s ago by the agent's clock", -ahead)
		return
	case ahead > maxAhead:
		s.fail(lifecycle.AgentStartTooFar, loadpb.ErrorCode_ERROR_CODE_START_TOO_FAR, "the start time is %s ahead by the agent's clock; at most %s are allowed", ahead.Round(time.Millisecond), maxAhead)
		return
	}
	s.engine.send(&enginepb.EngineCommand{Command: &enginepb.EngineCommand_Run{Run: &enginepb.Run{StartMonotonicNs: s.reading.toMonotonic(at)}}})
	s.startNs = at
	s.deadline = time.Now().Add(ahead + s.test.Timeouts.Prepare)
	if t, ok := s.move(lifecycle.AgentStartAccepted, "", ""); ok {
		s.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_READY, Transition: t})
	}
}

// invalid takes a message that is malformed or out of order.
func (s *session) invalid(subject, format string, args ...any) {
	e := &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_PROTOCOL, Message: fmt.Sprintf(format, args...), Subject: subject}
	s.finish(lifecycle.AgentInvalidMessage, e, "")
}

// fail ends the run with an error.
func (s *session) fail(event machine.Event, code loadpb.ErrorCode, format string, args ...any) {
	e := &loadpb.Error{Code: code, Message: fmt.Sprintf(format, args...)}
	s.finish(event, e, "")
}

// move moves the machine and the trail. If the trail cannot be written, the run ends, and the next
// start of the agent closes the trail; it reports whether the run goes on.
func (s *session) move(event machine.Event, reason, code string) (*loadpb.Transition, bool) {
	to, err := lifecycle.Agent.Next(s.state, event)
	if err != nil { // the engine has reported what is not of this state
		s.fail(s.failing(), loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED, "%v", err)
		return nil, false
	}
	t, err := s.trail.move(event, reason, code, s.a.now())
	if err != nil {
		s.log.Error("the trail of a run cannot be written", "run", s.id, "event", string(event), "error", err)
		if !lifecycle.Agent.Ended(to) {
			s.fail(s.failing(), storageCode(err), "%v", err)
			return nil, false
		}
		t = &loadpb.Transition{From: string(s.state), Event: string(event), To: string(to), AtNs: s.a.now().UnixNano(), Reason: reason}
	}
	s.logMove(event, to, reason, code)
	if to != s.state {
		now := time.Now()
		s.a.config.Hooks.Left(string(s.state), now.Sub(s.entered))
		s.state, s.entered = to, now
	}
	if lifecycle.Agent.Ended(to) {
		s.a.config.Hooks.Ended(string(to), code)
	}
	return t, true
}

// failing returns the event of a failure of the agent or its engine.
func (s *session) failing() machine.Event {
	switch s.state {
	case lifecycle.AgentConfigReceived:
		return lifecycle.AgentPrepareFailed
	case lifecycle.AgentReady, lifecycle.AgentRunning:
		return lifecycle.AgentFail
	default:
		return lifecycle.AgentConnectionLost
	}
}

func (s *session) logMove(event machine.Event, to machine.State, reason, code string) {
	args := []any{"run", s.id, "from", string(s.state), "event", string(event), "to", string(to)}
	switch to {
	case lifecycle.AgentError:
		s.log.Error("transition", append(args, "code", code, "error", reason)...)
	case lifecycle.AgentAborted:
		s.log.Warn("transition", append(args, "reason", reason)...)
	default:
		s.log.Info("transition", args...)
	}
}

// examine reads a config, and returns the job of an engine or what is wrong.
func (a *Agent) examine(run, config string, assignment *loadpb.Assignment) (*spec.Test, workload.Job, *loadpb.Error) {
	job := workload.Job{Config: config, RunID: run, AgentIndex: int(assignment.GetAgentIndex()), AgentCount: max(int(assignment.GetAgentCount()), 1), Manifest: a.manifest(run)}
	bad := func(subject, format string, args ...any) *loadpb.Error {
		return &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID, Subject: subject, Message: fmt.Sprintf(format, args...)}
	}
	if len(config) > spec.MaxSource {
		return nil, job, bad("config_yaml", "the config has %d bytes; at most %d are allowed", len(config), spec.MaxSource)
	}
	test, err := spec.Parse([]byte(config))
	if err != nil {
		e := bad("", "%v", err)
		var all document.Problems
		if errors.As(err, &all) && len(all) > 0 {
			e.Subject = all[0].Key
		}
		return nil, job, e
	}
	if job.AgentIndex >= job.AgentCount {
		return nil, job, bad("assignment", "agent_index %d: want 0 to %d", job.AgentIndex, job.AgentCount-1)
	}
	var root *Root
	if test.Engine == spec.S3 {
		if root = StoreOf(a.config.Stores, test); root == nil {
			e := bad("s3", "s3: %s is in no part of a bucket that the agent may use: %s", wanted(test), names(a.config.Stores))
			e.Hint = "allow it with --s3 https://HOST/BUCKET/PREFIX"
			return nil, job, e
		}
	} else if root = a.rootOf(test.Target); root == nil {
		return nil, job, bad("target", "target %q is in no root of the agent: %s", test.Target, names(a.config.Roots))
	}
	job.Root, job.LimitBytes, job.LimitFiles = root.Path, root.Bytes, root.Files
	return test, job, nil
}

// rootOf returns the root that a target is in, the innermost of several, nil if there is none.
func (a *Agent) rootOf(target string) (root *Root) {
	if !filepath.IsAbs(target) {
		if target != "" && !filepath.IsLocal(target) {
			return nil
		}
		if len(a.config.Roots) == 0 {
			return nil
		}
		return &a.config.Roots[0]
	}
	for i, r := range a.config.Roots {
		if below, err := filepath.Rel(r.Path, target); err == nil && filepath.IsLocal(below) && (root == nil || len(filepath.Clean(r.Path)) > len(filepath.Clean(root.Path))) {
			root = &a.config.Roots[i]
		}
	}
	return root
}

// names returns the paths of roots, for people.
func names(roots []Root) string {
	var all []string
	for _, r := range roots {
		all = append(all, r.Path)
	}
	return cmp.Or(strings.Join(all, ", "), "it has none")
}
