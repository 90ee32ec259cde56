package controller

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
)

const runID = "01JZZZZZZZZZZZZZZZZZZZZZZZ"

// A fake is an agent that does nothing but follow the protocol, except in what a test sets.
type fake struct {
	loadpb.UnimplementedAgentServiceServer

	shift    time.Duration                               // of its clock
	ppm      float64                                     // how much faster its clock is
	delay    func(probe int) (there, back time.Duration) // of each probe; nil: none
	prepare  time.Duration                               // how long it prepares, with progress each second
	stuck    bool                                        // it prepares for ever, without progress
	busy     *loadpb.Error                               // its reply to the greeting; it does not close the stream then
	refuse   *loadpb.Error                               // the end of its preparation
	fails    time.Duration                               // after which its load fails; 0: it does not
	breaks   time.Duration                               // after which its stream breaks; 0: it does not
	mute     time.Duration                               // after which it neither sends nor replies; 0: it does
	short    bool                                        // its load takes no time
	endless  bool                                        // its load does not end
	stubborn bool                                        // ABORT does not end it
	vanish   bool                                        // the stream breaks in place of its last message
	torn     int                                         // so many fetches break after a byte
	lie      bool                                        // the result is not what was announced
	quietly  time.Duration                               // how long its load goes on before the first statistics
	cleans   time.Duration                               // how long it cleans up, with progress each second
	ahead    bool                                        // its statistics are of a week later
	invents  bool                                        // its statistics are of operations that there are not
	stale    bool                                        // it sends messages of earlier sessions and other runs, too
	drops    bool                                        // it leaves out the statistics of the third second
	forget   bool                                        // it sends its last message again though it was acknowledged

	latency func(second int) []int64 // what it records each second; nil: one of 1 ms

	mu       sync.Mutex // guards the fields below
	hello    *loadpb.Hello
	config   string
	startNs  int64 // the start time that it got
	acks     []*loadpb.ControlMessage
	aborts   []string
	result   []byte
	fetches  int
	probed   int
	base     time.Time
	sequence int64
}

func (f *fake) now() time.Time {
	t := time.Since(f.base)
	return f.base.Add(f.shift + t + time.Duration(float64(t)*f.ppm/1e6))
}

// trueTime returns when the clock of the agent shows a time.
func (f *fake) trueTime(ns int64) time.Time {
	shown := time.Duration(ns - f.base.UnixNano() - int64(f.shift))
	return f.base.Add(time.Duration(float64(shown) / (1 + f.ppm/1e6)))
}

// A talk is one stream of a fake.
type talk struct {
	*fake
	grpc.BidiStreamingServer[loadpb.ControlMessage, loadpb.LiveStats]
	in       chan *loadpb.ControlMessage
	patience time.Duration // for the start time
	aborted  string
	startAt  time.Time
	quiet    bool
}

const fakeEpoch = 7

func (t *talk) say(m *loadpb.LiveStats) {
	m.RunId, m.SessionEpoch, m.AgentTimestampNs = runID, fakeEpoch, t.now().UnixNano()
	if t.quiet {
		return
	}
	if t.stale && m.Hello == nil {
		_ = t.Send(&loadpb.LiveStats{RunId: runID, SessionEpoch: fakeEpoch - 1, Status: loadpb.Status_STATUS_ERROR, Sequence: 99})
		_ = t.Send(&loadpb.LiveStats{RunId: "another", SessionEpoch: fakeEpoch, Status: loadpb.Status_STATUS_ERROR, Sequence: 99})
	}
	_ = t.Send(m)
}

// wait takes messages for a time, until one of them is what done looks for.
func (t *talk) wait(d time.Duration, done func(*loadpb.ControlMessage) bool) bool {
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		select {
		case m, ok := <-t.in:
			if !ok {
				return false
			}
			t.take(m)
			if done(m) {
				return true
			}
		case <-over.C:
			return true
		case <-t.Context().Done():
			return false
		}
	}
}

func (t *talk) take(m *loadpb.ControlMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case m.GetCommand() == loadpb.Command_COMMAND_ABORT:
		t.aborts = append(t.aborts, m.GetReason())
		if !t.stubborn {
			t.aborted = m.GetReason()
		}
	case m.GetCommand() == loadpb.Command_COMMAND_ACKNOWLEDGE:
		t.acks = append(t.acks, m)
	case m.GetClockProbe() != nil:
		t.probed++
		t.reply(m.GetClockProbe())
	case m.GetCommand() == loadpb.Command_COMMAND_PING && m.GetHello() == nil:
		t.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_ACKNOWLEDGE})
	}
}

func (t *talk) reply(p *loadpb.ClockProbe) {
	var there, back time.Duration
	if t.delay != nil {
		there, back = t.delay(t.probed)
	}
	time.Sleep(there)
	c := &loadpb.ClockReply{SentNs: p.GetSentNs(), ReceivedNs: t.now().UnixNano(), RepliedNs: t.now().UnixNano()}
	time.Sleep(back)
	t.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_ACKNOWLEDGE, ClockReply: c})
}

func (f *fake) ExecuteWorkload(s grpc.BidiStreamingServer[loadpb.ControlMessage, loadpb.LiveStats]) error {
	t := &talk{fake: f, BidiStreamingServer: s, in: make(chan *loadpb.ControlMessage)}
	go func() {
		defer close(t.in)
		for {
			m, err := s.Recv()
			if err != nil {
				return
			}
			select {
			case t.in <- m:
			case <-s.Context().Done():
				return
			}
		}
	}()
	return t.run()
}

func (t *talk) isAbort(*loadpb.ControlMessage) bool { return t.aborted != "" }

func (t *talk) run() error {
	t.wait(time.Hour, func(m *loadpb.ControlMessage) bool {
		t.mu.Lock()
		t.hello = m.GetHello()
		t.mu.Unlock()
		return m.GetHello() != nil
	})
	if t.busy != nil {
		t.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_ERROR, Error: t.busy})
		t.wait(24*time.Hour, func(*loadpb.ControlMessage) bool { return false })
		return nil
	}
	t.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_ACKNOWLEDGE, Hello: &loadpb.HelloReply{Protocol: 1, SessionEpoch: fakeEpoch, Agent: &loadpb.AgentInfo{Id: "fake"}}})
	ok := t.wait(time.Hour, func(m *loadpb.ControlMessage) bool {
		if m.GetConfigYaml() != "" {
			t.mu.Lock()
			t.config = m.GetConfigYaml()
			t.mu.Unlock()
			t.patience = time.Duration(cmp.Or(m.GetAssignment().GetStartSeconds(), 60)) * time.Second
		}
		return t.isAbort(m) || m.GetConfigYaml() != ""
	})
	if !ok || t.aborted != "" {
		return t.end(loadpb.Status_STATUS_ABORTED, nil)
	}
	t.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_PREPARING})
	if t.stuck {
		t.wait(time.Hour, t.isAbort)
	}
	for left := t.prepare; left > 0 && t.aborted == ""; left -= time.Second {
		t.wait(min(left, time.Second), t.isAbort)
		t.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_PREPARING, Progress: &loadpb.Progress{Phase: "files", Done: 1}})
	}
	switch {
	case t.aborted != "":
		return t.end(loadpb.Status_STATUS_ABORTED, nil)
	case t.refuse != nil:
		return t.end(loadpb.Status_STATUS_ERROR, t.refuse)
	}
	t.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_READY})
	return t.load()
}

func (t *talk) load() error {
	var start int64
	ok := t.wait(t.patience, func(m *loadpb.ControlMessage) bool {
		start = m.GetCoordinatedStartTimeNs()
		return t.isAbort(m) || start != 0
	})
	if ok && start == 0 && t.aborted == "" {
		return t.end(loadpb.Status_STATUS_ERROR, &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_TIMEOUT, Message: "no start time within " + t.patience.String()})
	}
	if !ok || t.aborted != "" {
		return t.end(loadpb.Status_STATUS_ABORTED, nil)
	}
	t.mu.Lock()
	t.startNs = start
	t.mu.Unlock()
	t.startAt = t.trueTime(start)
	t.wait(time.Until(t.startAt), t.isAbort)
	t.sequence++
	t.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_RUNNING, Sequence: t.sequence, Started: &loadpb.Started{IntendedNs: start, FirstNs: t.now().UnixNano(), LastNs: t.now().UnixNano()}})
	total := stats.Table{}
	t.wait(t.quietly, t.isAbort)
	for second := 0; (second < int(fakeTest().Duration/time.Second) && !t.short || t.endless) && t.aborted == ""; second++ {
		if !t.second(second, total) {
			return status.Error(codes.Unavailable, "the stream was broken")
		}
		if t.fails > 0 && time.Since(t.startAt) >= t.fails {
			return t.end(loadpb.Status_STATUS_ERROR, &loadpb.Error{Code: loadpb.ErrorCode_ERROR_CODE_IO, Message: "read: input/output error"})
		}
	}
	if t.aborted != "" {
		return t.end(loadpb.Status_STATUS_ABORTED, nil, total.Proto()...)
	}
	for left := t.cleans; left > 0; left -= time.Second {
		t.wait(time.Second, t.isAbort)
		t.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_ACKNOWLEDGE, Progress: &loadpb.Progress{Phase: "cleanup", Done: 1}})
	}
	return t.end(loadpb.Status_STATUS_COMPLETED, nil, total.Proto()...)
}

func (t *talk) second(n int, total stats.Table) bool {
	t.wait(time.Until(t.startAt.Add(time.Duration(n+1)*time.Second)), t.isAbort)
	since := time.Since(t.startAt)
	if t.breaks > 0 && since >= t.breaks || t.Context().Err() != nil {
		return false
	}
	if t.mute > 0 && since >= t.mute {
		t.quiet = true
	}
	table := stats.Table{{Operation: "read", SizeClass: "<=4KiB"}: t.counter(n)}
	total.Merge(table)
	t.sequence++
	if t.drops && n == 2 {
		return true
	}
	i := &loadpb.Interval{StartNs: int64(n) * 1e9, EndNs: int64(n+1) * 1e9, Operations: table.Proto()}
	if t.ahead {
		i.StartNs, i.EndNs = i.StartNs+7*24*3600e9, i.EndNs+7*24*3600e9
	}
	if t.invents {
		i.Operations[0].Operation = "defragment"
	}
	t.say(&loadpb.LiveStats{Status: loadpb.Status_STATUS_RUNNING, Sequence: t.sequence, Interval: i})
	return true
}

func (t *talk) counter(second int) *stats.Counter {
	values := []int64{1e6}
	if t.latency != nil {
		values = t.latency(second)
	}
	var h histogram.Histogram
	for _, v := range values {
		h.Record(v)
	}
	return &stats.Counter{Operations: uint64(len(values)), Bytes: uint64(4096 * len(values)), Service: h}
}

// end stores the result, sends the last message, and waits for its acknowledgement.
func (t *talk) end(s loadpb.Status, e *loadpb.Error, totals ...*loadpb.OperationStats) error {
	var b bytes.Buffer
	_, _ = protodelim.MarshalTo(&b, &loadpb.ResultRecord{Record: &loadpb.ResultRecord_Result{Result: &loadpb.Result{RunId: runID, Status: s, Error: e, Totals: totals}}})
	sum := sha256.Sum256(b.Bytes())
	t.mu.Lock()
	t.result = b.Bytes()
	if t.lie {
		t.result = append([]byte{1}, t.result...)
	}
	t.mu.Unlock()
	if t.vanish {
		return status.Error(codes.Unavailable, "the stream was broken")
	}
	t.sequence++
	last := func() *loadpb.LiveStats {
		return &loadpb.LiveStats{Status: s, Sequence: t.sequence, Error: e, Result: &loadpb.ResultSummary{Sha256: sum[:], Totals: totals}}
	}
	t.say(last())
	acknowledged := func(m *loadpb.ControlMessage) bool { return m.GetCommand() == loadpb.Command_COMMAND_ACKNOWLEDGE }
	t.wait(time.Hour, acknowledged)
	if t.forget {
		t.say(last())
		t.wait(time.Hour, acknowledged)
	}
	return nil
}

func (f *fake) FetchResult(q *loadpb.FetchResultRequest, s grpc.ServerStreamingServer[loadpb.FetchResultResponse]) error {
	f.mu.Lock()
	result := f.result
	f.fetches++
	torn := f.fetches <= f.torn
	f.mu.Unlock()
	if result == nil || q.GetRunId() != runID {
		return status.Error(codes.NotFound, "no result of that run")
	}
	rest := result[q.GetOffset():]
	if torn {
		_ = s.Send(&loadpb.FetchResultResponse{Data: rest[:1]})
		return status.Error(codes.Unavailable, "cut")
	}
	return s.Send(&loadpb.FetchResultResponse{Data: rest})
}

// serve serves fakes in memory and returns how to reach them.
func serve(t *testing.T, fakes ...*fake) []Target {
	t.Helper()
	var targets []Target
	for i, f := range fakes {
		f.base = time.Now()
		targets = append(targets, serveAgent(t, f, string(rune('a'+i))))
	}
	return targets
}

// serveAgent serves an agent in memory and returns how to reach it.
func serveAgent(t *testing.T, a loadpb.AgentServiceServer, name string) Target {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	s := grpc.NewServer()
	loadpb.RegisterAgentServiceServer(s, a)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { s.Stop(); <-done })
	return Target{Address: name, Options: []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
	}}
}

func fakeTest() *spec.Test {
	return &spec.Test{
		Name: "t", Duration: 5 * time.Second, Interval: time.Second,
		Timeouts: spec.Timeouts{
			Config: 30 * time.Second, Prepare: 30 * time.Second, Start: time.Minute, Silence: 10 * time.Second,
			Acknowledge: 5 * time.Second, Lease: 30 * time.Second, Abort: time.Second,
		},
		Start: spec.Start{Delay: time.Second, Policy: spec.All},
	}
}
