package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
	"github.com/pawl-dev/pawl/internal/load/workload"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// protocol is the version that this agent speaks.
const protocol = 1

// The limits before a config says otherwise (L2).
const (
	configTimeout      = 30 * time.Second
	defaultLease       = 30 * time.Second
	acknowledgeTimeout = 5 * time.Second
	abortTimeout       = time.Second

	killTime = 2 * time.Second // for a killed engine to end
	resends  = 3               // of the final message
	maxInbox = 64              // messages that wait for a session that waits for its disk
)

// A stream is that of gRPC, as far as a session uses it.
type stream interface {
	Context() context.Context
	Send(*loadpb.LiveStats) error
	Recv() (*loadpb.ControlMessage, error)
}

// A phase is what a session waits for.
type phase int

const (
	greeting phase = iota // the first message
	live                  // what moves the machine
	stopping              // the end of the engine
	cleaning              // an engine that cleans up
	closing               // the acknowledgement of the final message
	over
)

// A session is one stream. But for what receive and send use, it is of one goroutine.
type session struct {
	a      *Agent
	log    *slog.Logger
	actor  string
	stream stream
	out    *outbox
	in     chan *loadpb.ControlMessage // closed when the stream ends; why says why
	why    error
	quit   <-chan struct{} // closed when the agent is being stopped

	known atomic.Pointer[identity] // of the run, once it is accepted
	identity

	opened          time.Time
	arrived         atomic.Int64 // when the last message of the run came, in nanoseconds since opened
	heardNs, sentNs atomic.Int64 // when that was, and when the last statistics were sent, by the agent's clock

	phase    phase
	state    machine.State
	entered  time.Time
	deadline time.Time // of the phase or the state; zero: none
	lease    time.Duration
	wait     time.Duration // for a config, from opened on
	choked   bool          // the outbox is full
	sequence int64

	trail      *trail
	config     string
	hash       [sha256.Size]byte // of the config
	assignment *loadpb.Assignment
	test       *spec.Test
	job        workload.Job
	engine     engine
	cleaner    bool // the engine is one that cleans up
	progress   string

	reading  reading
	startNs  int64 // the accepted start time; 0: there is none
	prepared *loadpb.PrepareStats
	started  *loadpb.Started
	totals   stats.Table
	usage    [2]float64 // user and system seconds of all intervals
	seconds  float64    // of the intervals after the warm-up
	finished *enginepb.Finished
	result   *recording
	cleanup  *loadpb.CleanupReport
	unclean  bool // the next start of the agent has to clean up
	failure  *loadpb.Error
	reason   string // of the abort
	stderr   string
	last     *loadpb.LiveStats // the final message
	sent     int               // how often
}

// An identity is what a message has to have to be of the run.
type identity struct {
	id    string
	epoch uint64
}

func (i identity) has(m *loadpb.ControlMessage) bool {
	return m.GetRunId() == i.id && m.GetSessionEpoch() == i.epoch
}

// execute serves a stream until its run is over.
func (a *Agent) execute(st stream, actor string) {
	s := &session{a: a, log: a.config.Log, actor: actor, stream: st, out: newOutbox(), in: make(chan *loadpb.ControlMessage, maxInbox),
		quit: a.stopping, totals: stats.Table{}, lease: defaultLease, wait: configTimeout, opened: time.Now()}
	s.entered, s.deadline = s.opened, s.opened.Add(configTimeout)
	ctx, cancel := context.WithCancel(st.Context())
	defer cancel()
	go s.receive(ctx)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		s.send(ctx)
	}()
	s.run()
	s.out.put(nil, false)
	select {
	case <-sent:
	case <-ctx.Done():
	case <-time.After(acknowledgeTimeout): // the controller does not read
	}
}

// receive notes when something comes, replies to pings and clock probes at once, and passes on the rest.
func (s *session) receive(ctx context.Context) {
	defer close(s.in)
	for {
		m, err := s.stream.Recv()
		if err != nil {
			s.why = err
			return
		}
		run := s.known.Load()
		if run == nil || run.has(m) {
			s.arrived.Store(int64(time.Since(s.opened)))
			s.heardNs.Store(s.a.now().UnixNano())
		}
		if run != nil && run.has(m) && s.replied(m) {
			continue
		}
		select {
		case s.in <- m:
		case <-ctx.Done():
			s.why = ctx.Err()
			return
		}
	}
}

// replied replies to a ping or a clock probe. It reports whether there is nothing more to a message.
func (s *session) replied(m *loadpb.ControlMessage) bool {
	probe, ping := m.GetClockProbe(), m.GetCommand() == loadpb.Command_COMMAND_PING && m.GetHello() == nil
	if probe == nil && !ping {
		return false
	}
	s.log.Debug("message received", "run", m.GetRunId(), "command", m.GetCommand().String(), "clock_probe", probe != nil)
	r := &loadpb.LiveStats{Status: loadpb.Status_STATUS_ACKNOWLEDGE, RunId: m.GetRunId(), SessionEpoch: m.GetSessionEpoch()}
	if probe != nil {
		r.ClockReply = &loadpb.ClockReply{SentNs: probe.GetSentNs(), ReceivedNs: s.a.now().UnixNano()}
	}
	return s.out.put(r, false) && ping // a session finds out that the outbox is full
}

// heard returns when the last message of the run came.
func (s *session) heard() time.Time { return s.opened.Add(time.Duration(s.arrived.Load())) }

// send sends what is in the outbox until nil is.
func (s *session) send(ctx context.Context) {
	for m := s.out.take(ctx); m != nil; m = s.out.take(ctx) {
		now := s.a.now().UnixNano()
		if m.AgentTimestampNs == 0 {
			m.AgentTimestampNs = now
		}
		if m.ClockReply != nil {
			m.ClockReply.RepliedNs = now
		}
		if s.stream.Send(m) != nil {
			return // Recv returns why
		}
		if m.Interval != nil {
			s.sentNs.Store(now)
		}
	}
}

// run is the session's goroutine.
func (s *session) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for s.phase != over {
		s.publish()
		timer.Reset(time.Until(s.due()))
		select {
		case m, ok := <-s.in:
			if !ok {
				s.in = nil
				s.disconnected()
				break
			}
			s.message(m)
		case f, ok := <-s.frames():
			if !ok {
				s.engineEnded()
				break
			}
			s.frame(f)
		case <-timer.C:
			s.expired(time.Now())
		case <-s.quit:
			s.quit = nil
			s.quitting()
		}
		if s.choked && s.phase == live {
			s.fail(lifecycle.AgentConnectionLost, loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST, "the controller does not read: %d messages wait", maxOutbox)
		}
	}
	s.publish()
}

func (s *session) frames() <-chan *enginepb.EngineFrame {
	if s.engine == nil {
		return nil
	}
	return s.engine.frames()
}

// due returns when expired is to be called.
func (s *session) due() time.Time {
	due := time.Now().Add(time.Hour)
	if !s.deadline.IsZero() && s.deadline.Before(due) {
		due = s.deadline
	}
	if lease := s.heard().Add(s.lease); s.phase == live && lease.Before(due) {
		due = lease
	}
	return due
}

// expired takes the end of a time limit.
func (s *session) expired(now time.Time) {
	if s.phase == live && now.Sub(s.heard()) >= s.lease && len(s.in) == 0 {
		s.fail(lifecycle.AgentConnectionLost, loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST, "nothing was received from the controller for %s", s.lease)
		return
	}
	if s.deadline.IsZero() || now.Before(s.deadline) {
		return
	}
	switch s.phase {
	case greeting:
		s.refuse(loadpb.ErrorCode_ERROR_CODE_TIMEOUT, "", "no greeting within %s", configTimeout)
	case live:
		s.timeout()
	case stopping:
		s.abandon()
		s.store()
	case cleaning:
		s.cleaningStuck()
	case closing:
		s.final()
	}
}

// timeout takes the end of the time of a state.
func (s *session) timeout() {
	const code = loadpb.ErrorCode_ERROR_CODE_TIMEOUT
	switch {
	case s.state == lifecycle.AgentIdle:
		s.fail(lifecycle.AgentTimeout, code, "no config within %s", s.wait)
	case s.state == lifecycle.AgentConfigReceived:
		s.fail(lifecycle.AgentTimeout, code, "the preparation has made no progress for %s", s.test.Timeouts.Prepare)
	case s.startNs != 0:
		s.fail(lifecycle.AgentTimeout, code, "the engine has not begun within %s of the start time", s.test.Timeouts.Prepare)
	default:
		s.fail(lifecycle.AgentTimeout, code, "no start time within %s", s.startLimit())
	}
}

// disconnected takes the end of the stream.
func (s *session) disconnected() {
	s.log.Debug("a stream has ended", "run", s.id, "error", s.why)
	switch s.phase {
	case greeting, closing:
		s.phase = over
	case live:
		why := "the controller has closed the stream"
		if s.why != nil && !errors.Is(s.why, io.EOF) {
			why = "the connection was lost: " + endOf(s.why)
		}
		s.fail(lifecycle.AgentConnectionLost, loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST, "%s", why)
	}
}

// endOf returns why a stream was lost, in words for people.
func endOf(err error) string {
	if s := status.Convert(err); errors.Is(err, context.Canceled) || s.Code() == codes.Canceled {
		return "the controller has closed it, has died, or cannot be reached"
	} else if s.Code() != codes.Unknown {
		return s.Message()
	}
	return err.Error()
}

// quitting takes the end of the agent.
func (s *session) quitting() {
	switch s.phase {
	case greeting:
		s.phase = over
	case live:
		s.fail(lifecycle.AgentConnectionLost, loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST, "the agent is being stopped")
	case closing:
		s.sent = resends
	}
}

// message takes a message of the controller.
func (s *session) message(m *loadpb.ControlMessage) {
	s.log.Debug("message received", "run", s.id, "command", m.GetCommand().String(), "of_run", m.GetRunId(), "of_session", m.GetSessionEpoch())
	first := s.phase == greeting
	switch {
	case first:
		if !s.greet(m) {
			return
		}
	case !s.has(m):
		s.log.Debug("a message of another run or session is ignored", "run", s.id, "of_run", m.GetRunId(), "of_session", m.GetSessionEpoch())
		return
	}
	switch {
	case s.phase == live && !first && m.GetHello() != nil:
		s.invalid("hello", "a greeting is for the first message only")
	case m.GetCommand() == loadpb.Command_COMMAND_PING:
		if !first { // receive could not reply
			s.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_ACKNOWLEDGE})
		}
	case s.phase == live:
		s.command(m)
	case s.phase == closing && m.GetCommand() == loadpb.Command_COMMAND_ACKNOWLEDGE:
		if m.GetSequence() == s.last.GetSequence() && bytes.Equal(m.GetResultSha256(), s.last.GetResult().GetSha256()) {
			s.phase = over
		}
	}
}

// greet takes the first message. It reports whether the run may begin.
func (s *session) greet(m *loadpb.ControlMessage) bool {
	const malformed = loadpb.ErrorCode_ERROR_CODE_PROTOCOL
	h := m.GetHello()
	switch {
	case h == nil:
		s.refuse(malformed, "hello", "the first message has no greeting")
	case h.GetProtocolMin() > protocol || h.GetProtocolMax() < protocol:
		s.refuse(loadpb.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION, "hello",
			"the controller speaks versions %d to %d of the protocol, and the agent %d to %d", h.GetProtocolMin(), h.GetProtocolMax(), protocol, protocol)
	case !runPattern.MatchString(m.GetRunId()):
		s.refuse(malformed, "run_id", "the id of the run is %.80q; want 1 to 64 letters, digits, '_' and '-', a letter or digit first", m.GetRunId())
	default:
		return s.accept(m)
	}
	return false
}

// accept begins the run, unless another one is on.
func (s *session) accept(m *loadpb.ControlMessage) bool {
	other, epoch := s.a.begin(s, m.GetRunId())
	if other != "" {
		s.refuse(loadpb.ErrorCode_ERROR_CODE_BUSY, other, "run %s is on", other)
		return false
	}
	t, err := openTrail(s.a.trails(), m.GetRunId(), s.actor)
	if err == nil && t.last != nil {
		s.a.end(s)
		s.refuse(loadpb.ErrorCode_ERROR_CODE_PROTOCOL, "run_id", "run %s has ended here, as %s; its result can be fetched for %s", m.GetRunId(), t.state(), keepFor)
		return false
	}
	var created *loadpb.Transition
	if err == nil {
		created, err = t.move(lifecycle.Agent.Create, "", "", s.a.now())
	}
	if err != nil {
		s.a.end(s)
		s.log.Error("a run cannot begin", "run", m.GetRunId(), "error", err)
		s.refuse(loadpb.ErrorCode_ERROR_CODE_IO, s.a.config.StateDir, "the trail of the run cannot be written: %v", err)
		return false
	}
	s.identity = identity{m.GetRunId(), epoch}
	s.known.Store(&identity{s.id, s.epoch})
	s.trail, s.state, s.phase = t, lifecycle.Agent.Initial, live
	if ms := m.GetHello().GetLeaseMs(); ms > 0 {
		s.lease = time.Duration(ms) * time.Millisecond
	}
	if ms := m.GetHello().GetConfigMs(); ms > 0 {
		s.wait = time.Duration(ms) * time.Millisecond
		s.deadline = s.opened.Add(s.wait)
	}
	s.log.Info("a run begins", "run", s.id, "session", s.epoch, "controller", m.GetHello().GetBuild(), "actor", s.actor)
	s.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_ACKNOWLEDGE, Transition: created,
		Hello: &loadpb.HelloReply{Protocol: protocol, SessionEpoch: s.epoch, Agent: s.a.Info()}})
	return true
}

// refuse ends a stream that has no run.
func (s *session) refuse(code loadpb.ErrorCode, subject, format string, args ...any) {
	e := &loadpb.Error{Code: code, Message: fmt.Sprintf(format, args...), Subject: subject}
	s.log.Error("a stream was refused", "code", code.String(), "error", e.GetMessage(), "actor", s.actor)
	s.out.put(&loadpb.LiveStats{Status: loadpb.Status_STATUS_ERROR, Error: e, ErrorMessage: e.GetMessage()}, false)
	s.phase = over
}

// say leaves a message to be sent.
func (s *session) say(m *loadpb.LiveStats) { s.leave(m, false) }

func (s *session) leave(m *loadpb.LiveStats, droppable bool) {
	m.RunId, m.SessionEpoch, m.AgentTimestampNs = s.id, s.epoch, s.a.now().UnixNano()
	if !s.out.put(m, droppable) {
		s.choked = true
	}
	s.log.Debug("message sent", "run", s.id, "status", m.GetStatus().String(), "sequence", m.GetSequence())
}
