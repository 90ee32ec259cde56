package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
)

// outbox is how many messages may wait for an agent that does not read: a whole measurement and
// some more. One that lets more wait is lost.
const outbox = 2 * probes

// An agent is one agent of a run. What is not of another kind is of the goroutine of Run.
type agent struct {
	index   int
	name    string // what messages call it
	address string
	runID   string
	clock   func() time.Time
	conn    *grpc.ClientConn
	client  loadpb.AgentServiceClient

	out     chan *loadpb.ControlMessage // to be sent
	replies chan probe                  // buffered: those of one measurement at least
	cancel  context.CancelCauseFunc     // ends the stream

	epoch atomic.Uint64 // of the session; 0 before the greeting
	heard atomic.Int64  // when the last message came, as time since begun
	begun time.Time     // on the monotonic clock

	info       *loadpb.AgentInfo
	status     loadpb.Status // the last that it has reported
	failure    *loadpb.Error // why it does not count any more; nil: it does
	progress   *loadpb.Progress
	measured   bool
	offset     report.Clock
	configured bool // the config was sent
	started    bool // a start time was sent
	hasBegun   bool // skew is known
	cleaning   bool // its load has ended, and it cleans up
	skew       [2]time.Duration
	sequence   int64
	dropped    int64
	unkept     int64  // intervals that the keeper had no room for
	intervals  int    // that have come
	result     string // the file with it; "": it is not there
	missing    string // why it is not

	final   *loadpb.LiveStats // its last message
	lost    *loadpb.Error     // why the stream has ended without one
	fetched bool              // its result is there, or cannot be had
	closed  bool              // the stream has ended
	over    bool              // nothing more is expected of it

	sent    time.Time // when it was last sent anything
	pinged  time.Time // when it was asked for a sign of life; zero: it was not
	moved   time.Time // when it last reported anything new
	aborted time.Time // when it was aborted; zero: it was not
}

// failed reports whether the agent does not count any more.
func (a *agent) failed() bool { return a.failure != nil }

// post queues a message and never waits. It is safe for concurrent use.
func (a *agent) post(m *loadpb.ControlMessage) {
	m.RunId, m.SessionEpoch = a.runID, a.epoch.Load()
	select {
	case a.out <- m:
	default:
		a.cancel(fmt.Errorf("it does not read: %d messages wait", outbox))
	}
}

// converse opens the stream and passes on what is received, until the stream ends.
func (a *agent) converse(ctx context.Context, hello *loadpb.Hello, receive func(*loadpb.LiveStats)) error {
	stream, err := a.client.ExecuteWorkload(ctx)
	if err != nil {
		return a.reason(ctx, err)
	}
	a.post(&loadpb.ControlMessage{Hello: hello})
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		a.send(stream)
	}()
	for {
		m, err := stream.Recv()
		if err != nil {
			a.cancel(nil)
			<-sent
			return a.reason(ctx, err)
		}
		a.hear(m, receive)
	}
}

// reason returns why the stream has ended: what this side has ended it for, if it has.
func (a *agent) reason(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return plain(err)
}

// send sends what is queued, and stamps probes as they leave.
func (a *agent) send(stream grpc.BidiStreamingClient[loadpb.ControlMessage, loadpb.LiveStats]) {
	for {
		select {
		case <-stream.Context().Done():
			return
		case m := <-a.out:
			if m.GetClockProbe() != nil {
				m.ClockProbe.SentNs = a.clock().UnixNano()
			}
			if stream.Send(m) != nil {
				return // Recv returns why
			}
		}
	}
}

// hear takes a message: what is of another run or an earlier session does not count.
func (a *agent) hear(m *loadpb.LiveStats, receive func(*loadpb.LiveStats)) {
	back := a.clock().UnixNano()
	epoch := a.epoch.Load()
	if m.GetRunId() != a.runID && (epoch != 0 || m.GetRunId() != "") || epoch != 0 && m.GetSessionEpoch() != epoch {
		return
	}
	if h := m.GetHello(); h != nil && epoch == 0 {
		a.epoch.Store(h.GetSessionEpoch())
	}
	a.heard.Store(int64(time.Since(a.begun)))
	if c := m.GetClockReply(); c != nil {
		select {
		case a.replies <- probe{sent: c.GetSentNs(), received: c.GetReceivedNs(), replied: c.GetRepliedNs(), back: back}:
		default: // nobody measures any more
		}
		return
	}
	receive(m)
}
