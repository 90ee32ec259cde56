package agent

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

const (
	statusReady     = loadpb.Status_STATUS_READY
	statusRunning   = loadpb.Status_STATUS_RUNNING
	statusError     = loadpb.Status_STATUS_ERROR
	statusCompleted = loadpb.Status_STATUS_COMPLETED
	statusAborted   = loadpb.Status_STATUS_ABORTED
	statusAck       = loadpb.Status_STATUS_ACKNOWLEDGE
)

// The first scenario of L8: IDLE, CONFIG_RECEIVED, READY, RUNNING, COMPLETED.
func TestScenario1HappyPath(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.open()
		c.configure()
		if m := c.next(); m.GetStatus() != loadpb.Status_STATUS_PREPARING || m.GetTransition().GetTo() != "CONFIG_RECEIVED" {
			t.Errorf("the reply to a config: %v", m)
		}
		if m := c.next(); m.GetStatus() != statusReady || m.GetAgentTimestampNs() != time.Now().UnixNano() {
			t.Errorf("after the preparation: %v", m)
		}
		at := c.startIn(10 * time.Second)
		if m := c.next(); m.GetStatus() != statusReady || m.GetTransition().GetEvent() != "start_accepted" {
			t.Errorf("the reply to a start time: %v", m)
		}
		m := c.next()
		if m.GetStatus() != statusRunning || m.GetSequence() != 1 || m.GetStarted().GetIntendedNs() != at || m.GetStarted().GetFirstNs() != at+1000 || m.GetStarted().GetLastNs() != at+2000 {
			t.Errorf("the beginning: %v", m)
		}
		for n := range int64(3) {
			if m := c.next(); m.GetStatus() != statusRunning || m.GetSequence() != n+2 || m.GetInterval().GetStartNs() != n*1e9 || m.GetTotals()[0].GetOperations() != uint64(n)+1 || m.GetTotals()[0].Service != nil {
				t.Errorf("second %d: %v", n, m)
			}
		}
		m = c.ended(statusCompleted)
		intervals, result, sum := stored(t, b.agent, runID)
		if !bytes.Equal(m.GetResult().GetSha256(), sum[:]) || m.GetSequence() != 5 || len(intervals) != 3 || result.GetStatus() != statusCompleted ||
			result.GetStarted().GetIntendedNs() != at || result.GetCleanup().GetDeletedFiles() != 1 || result.GetConfigYaml() != config {
			t.Errorf("the end: %v; the result: %d intervals and %v", m, len(intervals), result)
		}
		if got := b.path(runID); got != "IDLE CONFIG_RECEIVED READY RUNNING COMPLETED" {
			t.Errorf("the trail: %s", got)
		}
		if len(result.GetTransitions()) != 6 {
			t.Errorf("the transitions: %v", result.GetTransitions())
		}
	})
}

// The second scenario of L8, with the ruling of L2: 30 s without progress.
func TestScenario2PrepareTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.script.prepare = func(f *fake) {
			for n := range uint64(100) {
				f.say(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Progress{Progress: &loadpb.Progress{Phase: "files", Done: min(n, 50)}}})
				f.wait(time.Second)
			}
		}
		c, begun := b.open(), time.Now()
		go c.pinging()
		c.configure()
		m := c.ended(statusError)
		if took := time.Since(begun); m.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_TIMEOUT || took < 80*time.Second || took > 82*time.Second {
			t.Errorf("after %s: %v", took, m)
		}
		if b.path(runID) != "IDLE CONFIG_RECEIVED ERROR" || len(b.script.engines) != 2 {
			t.Errorf("%s, with %d engines", b.path(runID), len(b.script.engines))
		}
	})
}

// pinging keeps the lease.
func (c *controller) pinging() {
	for {
		select {
		case <-time.After(10 * time.Second):
			c.send(&loadpb.ControlMessage{})
		case <-c.done:
			return
		}
	}
}

// The third scenario of L8.
func TestScenario3InvalidConfig(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ config, message string }{
		"not YAML":       {"{", "not YAML"},
		"no mix":         {"name: x\n", "mix"},
		"several faults": {"name: x\nmix: [{operation: fly}]\njobs: -1\n", "jobs"},
		"outside":        {strings.Replace(config, "duration", "target: /etc\nduration", 1), "in no root"},
		"upwards":        {strings.Replace(config, "duration", "target: ../x\nduration", 1), "target"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(b *bench) {
				c := b.open()
				c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, ConfigYaml: test.config})
				m := c.ended(statusError)
				if m.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID || !strings.Contains(m.GetErrorMessage(), test.message) || m.GetResult() != nil {
					t.Errorf("got %v", m)
				}
				if b.path(runID) != "IDLE ERROR" || len(b.script.engines) != 0 {
					t.Errorf("%s, with %d engines", b.path(runID), len(b.script.engines))
				}
			})
		})
	}
}

// The fourth scenario of L8: what was created is deleted before ABORTED is reported.
func TestScenario4AbortDuringPrepare(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.script.prepare = func(f *fake) { f.wait(time.Hour) }
		c := b.open()
		c.configure()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT, Reason: "the user has pressed Ctrl-C"})
		m := c.ended(statusAborted)
		if m.GetErrorMessage() != "the user has pressed Ctrl-C" || m.GetResult().GetCleanup().GetDeletedFiles() != 1 || b.path(runID) != "IDLE CONFIG_RECEIVED ABORTED" {
			t.Errorf("%s: %v", b.path(runID), m)
		}
		if _, result, _ := stored(t, b.agent, runID); result.GetAbortReason() != "the user has pressed Ctrl-C" {
			t.Errorf("the result: %v", result)
		}
	})
}

// The fifth scenario of L8, with an engine that ignores TERM: it is killed after a second (L5).
func TestScenario5AbortDuringWorkload(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.script.deaf = true
		c := b.running()
		c.until(statusRunning)
		begun := time.Now()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT, Reason: "enough"})
		m := c.until(statusAborted)
		if took := time.Since(begun); took > 3*time.Second || b.path(runID) != "IDLE CONFIG_RECEIVED READY RUNNING ABORTED" || m.GetResult().GetCleanup() == nil {
			t.Errorf("after %s: %s, %v", took, b.path(runID), m)
		}
		if intervals, result, _ := stored(t, b.agent, runID); len(intervals) == 0 || result.GetTotals()[0].GetOperations() != uint64(len(intervals)) || result.GetSeconds() != float64(len(intervals)) {
			t.Errorf("what was measured: %d intervals, %v", len(intervals), result)
		}
		c.acknowledge(m)
		<-c.done
	})
}

// The sixth scenario of L8, and the limit of 300 s (L3).
func TestScenario6StartTimeInPast(t *testing.T) {
	t.Parallel()
	for ahead, code := range map[time.Duration]loadpb.ErrorCode{
		-time.Nanosecond:    loadpb.ErrorCode_ERROR_CODE_START_IN_PAST,
		-time.Hour:          loadpb.ErrorCode_ERROR_CODE_START_IN_PAST,
		0:                   loadpb.ErrorCode_ERROR_CODE_START_IN_PAST,
		300*time.Second + 1: loadpb.ErrorCode_ERROR_CODE_START_TOO_FAR,
	} {
		inBubble(t, func(b *bench) {
			c := b.ready()
			c.startIn(ahead)
			if m := c.ended(statusError); m.GetError().GetCode() != code || b.path(runID) != "IDLE CONFIG_RECEIVED READY ERROR" {
				t.Errorf("%s ahead: %s, %v", ahead, b.path(runID), m)
			}
		})
	}
	inBubble(t, func(b *bench) {
		c := b.ready()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, CoordinatedStartTimeNs: math.MinInt64})
		if m := c.ended(statusError); m.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_START_IN_PAST {
			t.Errorf("got %v", m)
		}
	})
	inBubble(t, func(b *bench) {
		c := b.ready()
		go c.pinging()
		c.startIn(300 * time.Second)
		c.ended(statusCompleted)
	})
}

// The seventh scenario of L8: the run ends and what it has created is deleted, though nobody is
// there to be told; its result can be fetched.
func TestScenario7ConnectionLost(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]struct {
		lose func(c *controller)
		why  string
	}{
		"reset":  {func(c *controller) { c.cancel() }, "the connection was lost: connection reset"},
		"closed": {func(c *controller) { close(c.up) }, "the controller has closed the stream"},
	} {
		inBubble(t, func(b *bench) {
			c := b.running()
			c.until(statusRunning)
			lost.lose(c)
			<-c.done
			_, result, _ := stored(t, b.agent, runID)
			if b.path(runID) != "IDLE CONFIG_RECEIVED READY RUNNING ERROR" || result.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST || result.GetError().GetMessage() != lost.why || result.GetCleanup().GetDeletedFiles() != 1 {
				t.Errorf("%s: %s, %v", name, b.path(runID), result)
			}
			c = b.open("second") // the agent is free
			c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT})
			if m := c.ended(statusAborted); m.GetSessionEpoch() != 2 {
				t.Errorf("the next session is %d", m.GetSessionEpoch())
			}
		})
	}
}

// TestEndOf: why a stream was lost is in words for people.
func TestEndOf(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		status.Error(codes.Canceled, "context canceled"): "the controller has closed it, has died, or cannot be reached",
		context.Canceled: "the controller has closed it, has died, or cannot be reached",
		status.Error(codes.Unavailable, "keepalive ping failed"): "keepalive ping failed",
		errors.New("connection reset"):                           "connection reset",
	} {
		if got := endOf(err); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
}

// The eighth scenario of L8, in every state that waits.
func TestScenario8Ping(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		b.script.prepare = func(f *fake) { f.wait(5 * time.Second); f.say(prepared) }
		c := b.open()
		ping := func(state string) {
			t.Helper()
			c.send(&loadpb.ControlMessage{})
			if m := c.next(); m.GetStatus() != statusAck {
				t.Errorf("a ping in %s: %v", state, m)
			}
		}
		ping("IDLE")
		c.configure()
		c.next()
		ping("CONFIG_RECEIVED")
		c.until(statusReady)
		ping("READY")
		c.startIn(5 * time.Second)
		c.next()
		ping("READY, with a start time")
		c.until(statusRunning)
		ping("RUNNING")
		m := c.until(statusCompleted)
		ping("COMPLETED")
		c.acknowledge(m)
		<-c.done
		if got := b.path(runID); got != "IDLE CONFIG_RECEIVED READY RUNNING COMPLETED" {
			t.Error(got)
		}
	})
}

// The ninth scenario of L8: an error is never masked by the end of the workload (L4).
func TestScenario9WorkloadError(t *testing.T) {
	t.Parallel()
	broken := &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_NO_SPACE, Message: "write data/0: no space left on device"}
	for name, frame := range map[string]*enginepb.EngineFrame{
		"finished with an error": finished(broken),
		"failed":                 {Frame: &enginepb.EngineFrame_Failed{Failed: broken}},
	} {
		inBubble(t, func(b *bench) {
			b.script.run = func(f *fake) {
				if f.begin() && f.second(0) {
					f.say(frame)
				}
			}
			c := b.running()
			m := c.ended(statusError)
			if m.GetError().GetCode() != broken.GetCode() || m.GetErrorMessage() != broken.GetMessage() || m.GetResult().GetCleanup().GetDeletedFiles() != 1 {
				t.Errorf("%s: %v", name, m)
			}
			if b.path(runID) != "IDLE CONFIG_RECEIVED READY RUNNING ERROR" {
				t.Errorf("%s: %s", name, b.path(runID))
			}
		})
	}
}

// The tenth scenario of L8. Pings do not prolong it.
func TestScenario10ReadyTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.ready()
		go c.pinging()
		begun := time.Now()
		m := c.ended(statusError)
		if took := time.Since(begun); m.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_TIMEOUT || took.Round(time.Second) != 60*time.Second || b.path(runID) != "IDLE CONFIG_RECEIVED READY ERROR" {
			t.Errorf("after %s: %s, %v", took, b.path(runID), m)
		}
	})
}

// TestLongerReadyTimeout: a controller that waits for slower agents has this one wait as well.
func TestLongerReadyTimeout(t *testing.T) {
	t.Parallel()
	inBubble(t, func(b *bench) {
		c := b.open()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, ConfigYaml: config, Assignment: &loadpb.Assignment{AgentCount: 2, StartSeconds: 3600}})
		c.until(statusReady)
		go c.pinging()
		begun := time.Now()
		m := c.ended(statusError)
		if took := time.Since(begun); m.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_TIMEOUT || took.Round(time.Second) != time.Hour || !strings.Contains(m.GetErrorMessage(), "1h0m0s") {
			t.Errorf("after %s: %v", took, m)
		}
	})
}

// TestConfigTimeout: a controller says how long its agent waits for a config, which 30 s is the default of.
func TestConfigTimeout(t *testing.T) {
	t.Parallel()
	for ms, want := range map[uint32]time.Duration{0: configTimeout, 5000: 5 * time.Second, 90_000: 90 * time.Second} {
		inBubble(t, func(b *bench) {
			c, begun := b.dial(), time.Now()
			c.send(&loadpb.ControlMessage{Hello: &loadpb.Hello{ProtocolMin: 1, ProtocolMax: 1, LeaseMs: 100_000, ConfigMs: ms}})
			c.epoch = c.next().GetHello().GetSessionEpoch()
			m := c.ended(statusError)
			if took := time.Since(begun); took != want || m.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_TIMEOUT || !strings.Contains(m.GetErrorMessage(), want.String()) {
				t.Errorf("%d ms: after %s: %v", ms, took, m)
			}
		})
	}
}

// TestLongResult: a run by count that does not end has as many intervals as one with a duration may
// have, and a result as many bytes as a controller takes. The run is ended then, with what it has (L5).
func TestLongResult(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, ends string
		seconds    int
		want       string
		limits     limits
		code       loadpb.ErrorCode
	}{
		{"intervals", "count: 1000000", 25, "the count is not reached within 20 intervals of 1s, which is the most that a run has", limits{20, 1 << 30}, loadpb.ErrorCode_ERROR_CODE_TIMEOUT},
		{"a count that is reached in the last interval", "count: 20", 20, "", limits{20, 1 << 30}, 0},
		{"bytes", "duration: 1h", 25, "the result has 1", limits{20, 1000}, loadpb.ErrorCode_ERROR_CODE_IO},
		{"a duration has a limit of its own", "duration: 1h", 25, "", limits{20, 1 << 30}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(b *bench) {
				b.agent.limits = tt.limits
				b.script.run = func(f *fake) {
					n := 0
					for ok := f.begin(); ok && n < tt.seconds; n++ {
						ok = f.second(n)
					}
					if n == tt.seconds {
						f.say(finished(nil))
					}
				}
				c := b.open()
				c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, ConfigYaml: strings.Replace(config, "duration: 3s", tt.ends, 1)})
				c.until(statusReady)
				c.startIn(time.Second)
				if tt.want == "" {
					c.ended(statusCompleted)
					return
				}
				m := c.ended(statusError)
				intervals, result, _ := stored(t, b.agent, runID)
				if e := m.GetError(); e.GetCode() != tt.code || !strings.HasPrefix(e.GetMessage(), tt.want) || e.GetHint() == "" || m.GetErrorMessage() != e.GetMessage() {
					t.Errorf("%v", m)
				}
				if n := len(intervals); n > 21 || n < 5 || result.GetSeconds() != float64(n) || result.GetTotals()[0].GetOperations() != uint64(n) {
					t.Errorf("%d intervals, %v", n, result)
				}
			})
		})
	}
}
