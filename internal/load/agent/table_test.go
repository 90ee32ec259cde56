package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

const (
	codeProtocol = loadpb.ErrorCode_ERROR_CODE_PROTOCOL
	codeTimeout  = loadpb.ErrorCode_ERROR_CODE_TIMEOUT
	codeLost     = loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST
	codeCrashed  = loadpb.ErrorCode_ERROR_CODE_ENGINE_CRASHED
)

// at brings a run to a state.
var at = map[machine.State]func(b *bench) *controller{
	lifecycle.AgentIdle: func(b *bench) *controller { return b.open() },
	lifecycle.AgentConfigReceived: func(b *bench) *controller {
		b.script.prepare = func(f *fake) { f.wait(time.Hour) }
		c := b.open()
		c.configure()
		c.until(loadpb.Status_STATUS_PREPARING)
		return c
	},
	lifecycle.AgentReady:   func(b *bench) *controller { return b.ready() },
	lifecycle.AgentRunning: func(b *bench) *controller { return b.running() },
}

// crash ends the engine of the run.
func (b *bench) crash() {
	synctest.Wait() // until it is there
	f := b.script.engines[0]
	f.how, f.said = "signal: segmentation fault", "first\nit broke here\n"
	f.kill()
}

// TestEveryEnd ends a run in every state by everything that can end it there. What has begun to
// prepare is cleaned up and has a result, and the agent is free afterwards (L1, L5).
func TestEveryEnd(t *testing.T) {
	t.Parallel()
	ends := []struct {
		event  machine.Event
		in     []machine.State // nil: in every state
		do     func(c *controller)
		status loadpb.Status
		code   loadpb.ErrorCode
	}{
		{event: lifecycle.AgentAbort, do: func(c *controller) { c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT}) }, status: statusAborted},
		{event: lifecycle.AgentConnectionLost, do: func(c *controller) { c.cancel() }, status: statusError, code: codeLost},
		{event: lifecycle.AgentConnectionLost, do: func(c *controller) { close(c.agent.stopping) }, status: statusError, code: codeLost},
		{event: lifecycle.AgentInvalidMessage, do: func(c *controller) { c.send(&loadpb.ControlMessage{Command: 99}) }, status: statusError, code: codeProtocol},
		{event: lifecycle.AgentInvalidMessage, do: func(c *controller) { c.send(&loadpb.ControlMessage{Hello: &loadpb.Hello{}}) }, status: statusError, code: codeProtocol},
		{event: lifecycle.AgentInvalidMessage, do: func(c *controller) { c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ACKNOWLEDGE}) }, status: statusError, code: codeProtocol},
		{event: lifecycle.AgentInvalidMessage, do: func(c *controller) { c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START}) }, status: statusError, code: codeProtocol},
		{event: lifecycle.AgentInvalidMessage, in: []machine.State{lifecycle.AgentIdle, lifecycle.AgentConfigReceived, lifecycle.AgentRunning},
			do: func(c *controller) { c.startIn(time.Second) }, status: statusError, code: codeProtocol},
		{event: lifecycle.AgentInvalidMessage, in: []machine.State{lifecycle.AgentConfigReceived, lifecycle.AgentReady, lifecycle.AgentRunning},
			do: func(c *controller) {
				c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, ConfigYaml: config + "# another\n"})
			}, status: statusError, code: codeProtocol},
		{event: lifecycle.AgentTimeout, in: []machine.State{lifecycle.AgentIdle, lifecycle.AgentConfigReceived, lifecycle.AgentReady}, do: func(c *controller) { go c.pinging() }, status: statusError, code: codeTimeout},
		{event: lifecycle.AgentConnectionLost, in: []machine.State{lifecycle.AgentReady, lifecycle.AgentRunning}, do: func(c *controller) {
			c.script.run = func(f *fake) { f.begin() } // the lease, in silence
		}, status: statusError, code: codeLost},
		{event: lifecycle.AgentPrepareFailed, in: []machine.State{lifecycle.AgentConfigReceived}, do: func(c *controller) { c.crash() }, status: statusError, code: codeCrashed},
		{event: lifecycle.AgentFail, in: []machine.State{lifecycle.AgentReady, lifecycle.AgentRunning}, do: func(c *controller) { c.crash() }, status: statusError, code: codeCrashed},
	}
	for i, end := range ends {
		for state, reach := range at {
			if end.in != nil && !contains(end.in, state) {
				continue
			}
			t.Run(strings.Join([]string{string(state), string(end.event), string(rune('a' + i))}, " "), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(b *bench) {
					if end.event == lifecycle.AgentConnectionLost && end.in != nil {
						b.script.run = func(f *fake) { f.begin(); f.wait(time.Hour) }
					}
					c := reach(b)
					end.do(c)
					b.hasEnded(c, end.event, end.status, end.code, state == lifecycle.AgentIdle)
				})
			})
		}
	}
}

func contains(all []machine.State, s machine.State) bool {
	for _, one := range all {
		if one == s {
			return true
		}
	}
	return false
}

// hasEnded checks that a run has ended as it should, and that nothing is left of it.
func (b *bench) hasEnded(c *controller, event machine.Event, status loadpb.Status, code loadpb.ErrorCode, idle bool) {
	b.Helper()
	if c.ctx.Err() == nil {
		c.ended(status)
	}
	<-c.done
	view := b.agent.shown()
	last := view.GetTransitions()[len(view.GetTransitions())-1]
	if last.GetEvent() != string(event) || view.GetError().GetCode() != code {
		b.Errorf("the last transition is %v, with the error %v", last, view.GetError())
	}
	if b.agent.current != nil {
		b.Error("the agent is not free")
	}
	if idle {
		return
	}
	if _, result, _ := stored(b.T, b.agent, runID); result.GetStatus() != status || result.GetError().GetCode() != code || result.GetCleanup().GetDeletedFiles() != 1 {
		b.Errorf("the result: %v", result)
	}
	for i, f := range b.script.engines {
		if !f.ended {
			b.Errorf("engine %d has not ended", i)
		}
	}
}

// A run that has ended stays as it is.
func TestEndsAreFinal(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.ready()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT, Reason: "first"})
		m := c.until(statusAborted)
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT, Reason: "second"})
		c.startIn(time.Second)
		c.send(&loadpb.ControlMessage{Command: 99})
		c.acknowledge(m)
		<-c.done
		if got := b.path(runID); got != "IDLE CONFIG_RECEIVED READY ABORTED" || b.agent.shown().GetAbortReason() != "first" {
			t.Errorf("%s, %s", got, b.agent.shown().GetAbortReason())
		}
	})
}

// The same START again changes nothing (L1).
func TestStartIsIdempotent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.ready()
		c.configure()
		if m := c.next(); m.GetStatus() != statusReady || m.GetTransition() != nil {
			t.Errorf("the config again: %v", m)
		}
		at := c.startIn(time.Second)
		c.next()
		again := &loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, CoordinatedStartTimeNs: at}
		c.send(again)
		if m := c.next(); m.GetStatus() != statusReady || m.GetTransition() != nil {
			t.Errorf("the start time again: %v", m)
		}
		c.until(statusRunning)
		c.send(again)
		c.until(statusAck)
		c.ended(statusCompleted)
		if len(b.script.engines) != 2 || len(b.script.commands) != 3 {
			t.Errorf("%d engines, %v", len(b.script.engines), b.script.commands)
		}
	})
}

// A second controller is told which run is on, and harms it not (L1).
func TestBusy(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.running()
		for _, run := range []string{"other", runID} {
			second := b.dial()
			second.run = run
			second.send(&loadpb.ControlMessage{Hello: &loadpb.Hello{ProtocolMin: 1, ProtocolMax: 1}})
			if m := second.next(); m.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_BUSY || m.GetError().GetSubject() != runID {
				t.Errorf("a second stream for %s: %v", run, m)
			}
			<-second.done
		}
		c.ended(statusCompleted)
		again := b.dial()
		again.send(&loadpb.ControlMessage{Hello: &loadpb.Hello{ProtocolMin: 1, ProtocolMax: 1}})
		if m := again.next(); m.GetError().GetCode() != codeProtocol || !strings.Contains(m.GetErrorMessage(), "has ended here, as COMPLETED") {
			t.Errorf("the same run again: %v", m)
		}
		<-again.done
	})
}

func TestGreetings(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		first *loadpb.ControlMessage
		code  loadpb.ErrorCode
		text  string
	}{
		"none":          {&loadpb.ControlMessage{}, codeProtocol, "no greeting"},
		"newer":         {&loadpb.ControlMessage{Hello: &loadpb.Hello{ProtocolMin: 2, ProtocolMax: 3}}, loadpb.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION, "versions 2 to 3 of the protocol, and the agent 1 to 1"},
		"without range": {&loadpb.ControlMessage{Hello: &loadpb.Hello{}}, loadpb.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION, "versions 0 to 0"},
		"bad id":        {&loadpb.ControlMessage{RunId: "../x", Hello: &loadpb.Hello{ProtocolMin: 1, ProtocolMax: 9}}, codeProtocol, `the id of the run is "../x"`},
		"nothing":       {nil, codeTimeout, "no greeting within 30s"},
	} {
		inBubble(t, func(b *bench) {
			c := b.dial()
			if test.first != nil {
				c.send(test.first)
			}
			if m := c.next(); m.GetStatus() != statusError || m.GetError().GetCode() != test.code || !strings.Contains(m.GetErrorMessage(), test.text) {
				t.Errorf("%s: %v", name, m)
			}
			<-c.done
		})
	}
}

// What a former session or another run sends is ignored (pain 13).
func TestLateMessagesAreIgnored(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.ready()
		for _, m := range []*loadpb.ControlMessage{
			{Command: loadpb.Command_COMMAND_ABORT, RunId: "other"},
			{Command: loadpb.Command_COMMAND_ABORT, SessionEpoch: c.epoch + 1},
			{Command: 99, RunId: "other"},
			{ClockProbe: &loadpb.ClockProbe{SentNs: 1}, RunId: "other"},
		} {
			c.send(m)
		}
		c.send(&loadpb.ControlMessage{})
		if m := c.next(); m.GetStatus() != statusAck || m.GetClockReply() != nil || b.path(runID) != "IDLE CONFIG_RECEIVED READY" {
			t.Errorf("%s: %v", b.path(runID), m)
		}
		c.cancel()
		<-c.done
	})
}

// A clock probe has a reply in every state, by the agent's clock.
func TestClockProbe(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.skew.Store(int64(5 * time.Second))
		c := b.open()
		c.send(&loadpb.ControlMessage{ClockProbe: &loadpb.ClockProbe{SentNs: 42}})
		want := time.Now().Add(5 * time.Second).UnixNano()
		if r := c.next().GetClockReply(); r.GetSentNs() != 42 || r.GetReceivedNs() != want || r.GetRepliedNs() != want {
			t.Errorf("got %v, want %d", r, want)
		}
		c.cancel()
		<-c.done
	})
}

// The start time is of the agent's clock, and a step of that clock after it was accepted changes
// nothing (L3).
func TestStartOnASteppedClock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.skew.Store(int64(-time.Hour))
		c := b.ready()
		begun := time.Now()
		at := c.startIn(5 * time.Second)
		c.until(statusReady)
		b.skew.Store(int64(time.Hour))
		m := c.until(statusRunning)
		if took := time.Since(begun); took != 5*time.Second || m.GetStarted().GetIntendedNs() != at || m.GetStarted().GetFirstNs() != at+1000 {
			t.Errorf("after %s: %v", took, m)
		}
		c.ended(statusCompleted)
	})
}

// A controller that does not read loses statistics, and neither a state nor a record of the
// result. The run goes on as if it read (L4, pain 11).
func TestSlowReader(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.script.run = func(f *fake) {
			f.begin()
			for n := range 20 {
				f.second(n)
			}
			f.say(finished(nil))
		}
		c := b.ready()
		free := c.stick()
		c.startIn(time.Second)
		go c.pinging()
		time.Sleep(30 * time.Second)
		if b.path(runID) != "IDLE CONFIG_RECEIVED READY RUNNING COMPLETED" {
			t.Errorf("the run waits for its reader: %s", b.path(runID))
		}
		free()
		var statuses []string
		var last int64
		for m := c.next(); ; m = c.next() {
			if m.GetStatus() != statusAck {
				statuses = append(statuses, strings.TrimPrefix(m.GetStatus().String(), "STATUS_"))
			}
			if m.GetInterval() != nil {
				last = m.GetSequence()
			}
			if final(m) {
				c.acknowledge(m)
				break
			}
		}
		<-c.done
		if got := strings.Join(statuses, " "); got != "READY RUNNING RUNNING COMPLETED" || last != 21 {
			t.Errorf("got %s, and the last statistics have the number %d", got, last)
		}
		if intervals, _, _ := stored(t, b.agent, runID); len(intervals) != 20 {
			t.Errorf("%d intervals in the result", len(intervals))
		}
	})
}

// One that pings without reading has lost its connection, so that no memory is used up.
func TestChokedController(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.ready()
		c.stick()
		for range maxOutbox + 10 {
			c.send(&loadpb.ControlMessage{})
		}
		synctest.Wait()
		if b.path(runID) != "IDLE CONFIG_RECEIVED READY ERROR" {
			t.Error(b.path(runID))
		}
		c.cancel()
		<-c.done
	})
}

// The final message is sent four times. Without an acknowledgement the run is COMPLETED all the
// same, and its result is kept (L6, pain 14).
func TestFinalMessageIsResent(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.running()
		m := c.until(statusCompleted)
		c.acknowledge(&loadpb.LiveStats{Sequence: m.GetSequence(), Result: &loadpb.ResultSummary{Sha256: []byte("another")}})
		begun := time.Now()
		for range resends {
			if again := c.until(statusCompleted); again.GetSequence() != m.GetSequence() {
				t.Errorf("sent again: %v", again)
			}
		}
		<-c.done
		if took := time.Since(begun); took != 20*time.Second {
			t.Errorf("the stream was closed after %s", took)
		}
		if _, result, _ := stored(t, b.agent, runID); result.GetStatus() != statusCompleted {
			t.Errorf("got %v", result)
		}
	})
}

// While a session waits for its disk, pings have their reply at once, and what has arrived counts
// for the lease.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.agent.config.Hooks.Left = func(state string, _ time.Duration) {
			if state == string(lifecycle.AgentReady) {
				time.Sleep(2 * defaultLease)
			}
		}
		c := b.ready()
		c.startIn(time.Second)
		if m := c.next(); m.GetStatus() != statusReady {
			t.Errorf("the reply to a start time: %v", m)
		}
		for range 6 {
			time.Sleep(10 * time.Second)
			c.send(&loadpb.ControlMessage{})
			synctest.Wait()
			select {
			case m := <-c.down:
				if m.GetStatus() != statusAck {
					t.Errorf("a ping: %v", m)
				}
			default:
				t.Error("a ping has no reply")
			}
			if v := b.agent.shown(); v.GetLastMessageReceivedNs() != b.agent.now().UnixNano() {
				t.Errorf("the view: %v", v)
			}
		}
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT, Reason: "enough"})
		c.ended(statusAborted)
	})
}

// An engine that nothing ends does not hold up ABORT; what it has created is left for the next
// start of the agent (L5).
func TestImmortalEngine(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.script.immortal = true
		c := b.running()
		begun := time.Now()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT})
		m := c.ended(statusAborted)
		if took := time.Since(begun); took > 5*time.Second || len(m.GetResult().GetCleanup().GetErrors()) != 1 {
			t.Errorf("after %s: %v", took, m)
		}
		b.script.engines[0].kill()
		b.script.immortal = false
		synctest.Wait()
		if err := b.agent.mend(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := b.script.commands[len(b.script.commands)-1]; !strings.HasPrefix(got, "cleanup") {
			t.Errorf("the next start has sent %s", got)
		}
	})
}

// A cleanup that hangs is ended, is in the final message, and is tried again by the next start.
func TestCleanupHangs(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.script.cleanup = func(f *fake) { f.wait(time.Hour) }
		c := b.running()
		m := c.ended(statusCompleted)
		if e := m.GetResult().GetCleanup().GetErrors(); len(e) != 1 || !strings.Contains(e[0], "no progress for 30s") {
			t.Errorf("got %v", m)
		}
		b.script.cleanup = nil
		if err := b.agent.mend(context.Background()); err != nil {
			t.Fatal(err)
		}
		if len(b.script.engines) != 3 {
			t.Errorf("%d engines", len(b.script.engines))
		}
	})
}

// What the config keeps is kept (pain 18).
func TestCleanupIsConfigured(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.open()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, ConfigYaml: config + "cleanup: {completed: nothing}\n"})
		c.until(statusReady)
		c.startIn(time.Second)
		if m := c.ended(statusCompleted); m.GetResult().GetCleanup().GetLeftFiles() != 1 || len(b.script.engines) != 1 {
			t.Errorf("%d engines, %v", len(b.script.engines), m)
		}
	})
}

// An engine that cannot be started, or that reports nonsense, ends the run.
func TestBrokenEngine(t *testing.T) {
	t.Parallel()
	nonsense := map[string]*enginepb.EngineFrame{
		"unknown":        {},
		"early interval": {Frame: &enginepb.EngineFrame_Interval{Interval: interval(0)}},
		"early end":      finished(nil),
		"early start":    {Frame: &enginepb.EngineFrame_Started{Started: &loadpb.Started{}}},
	}
	for name, frame := range nonsense {
		inBubble(t, func(b *bench) {
			b.script.prepare = func(f *fake) { f.say(frame) }
			c := b.open()
			c.configure()
			if m := c.ended(statusError); m.GetError().GetCode() != codeCrashed {
				t.Errorf("%s: %v", name, m)
			}
		})
	}
	inBubble(t, func(b *bench) {
		b.script.launch = func() error { return errors.New("no such file") }
		c := b.open()
		c.configure()
		if m := c.ended(statusError); m.GetError().GetCode() != codeCrashed || !strings.Contains(m.GetErrorMessage(), "no such file") {
			t.Errorf("got %v", m)
		}
	})
}

// The log has transitions as INFO, an abort as WARN, an error as ERROR, and messages as DEBUG (L11).
func TestLog(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.ready()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT, Reason: "enough"})
		c.ended(statusAborted)
		c = b.open("second")
		c.send(&loadpb.ControlMessage{Command: 99})
		c.ended(statusError)
		for _, want := range []string{
			`level=INFO msg=transition run=` + runID + ` from=CONFIG_RECEIVED event=prepare_complete to=READY`,
			`level=WARN msg=transition run=` + runID + ` from=READY event=abort to=ABORTED reason=enough`,
			`level=ERROR msg=transition run=second from=IDLE event=invalid_message to=ERROR code=protocol`,
			`level=DEBUG msg="message received" run=` + runID + ` command=COMMAND_ABORT`,
			`level=DEBUG msg="message sent" run=` + runID + ` status=STATUS_READY`,
		} {
			if !strings.Contains(b.log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, b.log.String())
			}
		}
	})
}
