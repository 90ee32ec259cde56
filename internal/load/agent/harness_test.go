package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/stats"
	"github.com/pawl-dev/pawl/internal/load/workload"
)

const runID = "01JZZZZZZZZZZZZZZZZZZZZZZZ"

const config = `name: test
files: [{name: data, count: 1, size: 4KiB}]
mix: [{operation: read, files: data}]
duration: 3s
`

// A fake is an engine that does nothing but follow the protocol, except in what a test sets.
type fake struct {
	job     workload.Job
	out     chan *enginepb.EngineFrame
	in      chan *enginepb.EngineCommand
	end     chan struct{} // closed to have it end
	ended   bool
	how     string
	said    string
	begins  int64 // the start time that it got
	stopped bool
	script  *script
}

// A script is how the engines of a test behave.
type script struct {
	monotonic func() int64
	prepare   func(f *fake) // in place of reporting Prepared at once
	run       func(f *fake) // in place of three seconds
	cleanup   func(f *fake) // in place of reporting that one file was deleted
	deaf      bool          // TERM does not end it
	immortal  bool          // nothing ends it
	launch    func() error  // fails a launch
	engines   []*fake
	commands  []string
}

func (s *script) start(job workload.Job) (engine, error) {
	if s.launch != nil {
		if err := s.launch(); err != nil {
			return nil, err
		}
	}
	f := &fake{job: job, out: make(chan *enginepb.EngineFrame), in: make(chan *enginepb.EngineCommand, 4), end: make(chan struct{}), how: "exit status 0", script: s}
	s.engines = append(s.engines, f)
	go f.work()
	return f, nil
}

func (f *fake) work() {
	defer close(f.out)
	for {
		select {
		case c := <-f.in:
			switch {
			case c.GetPrepare() != nil:
				f.do(f.script.prepare, func(f *fake) { f.say(prepared) })
			case c.GetRun() != nil:
				f.begins = c.GetRun().GetStartMonotonicNs()
				f.do(f.script.run, (*fake).runs)
			case c.GetCleanup() != nil:
				f.do(f.script.cleanup, func(f *fake) {
					f.say(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Cleaned{Cleaned: &loadpb.CleanupReport{DeletedFiles: 1}}})
				})
			}
		case <-f.end:
			return
		}
	}
}

func (f *fake) do(special, usual func(*fake)) {
	if special != nil {
		special(f)
		return
	}
	usual(f)
}

var prepared = &enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Prepared{Prepared: &loadpb.PrepareStats{Files: 1, Bytes: 4096}}}

// say reports a frame, and reports whether the engine goes on.
func (f *fake) say(m *enginepb.EngineFrame) bool {
	select {
	case f.out <- m:
		return true
	case <-f.end:
		return false
	}
}

// wait waits, and reports whether the engine goes on.
func (f *fake) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-f.end:
		return false
	}
}

// begin waits for the start time and reports Started.
func (f *fake) begin() bool {
	at := time.Duration(f.begins - f.script.monotonic())
	return f.wait(at) && f.say(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Started{Started: &loadpb.Started{FirstNs: f.begins + 1000, LastNs: f.begins + 2000, Threads: 1}}})
}

func (f *fake) second(n int) bool {
	return f.wait(time.Second) && f.say(&enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Interval{Interval: interval(n)}})
}

func (f *fake) runs() {
	if !f.begin() {
		return
	}
	for n := range 3 {
		if !f.second(n) {
			return
		}
	}
	f.say(finished(nil))
}

func finished(e *loadpb.Error) *enginepb.EngineFrame {
	return &enginepb.EngineFrame{Frame: &enginepb.EngineFrame_Finished{Finished: &enginepb.Finished{Seconds: 3, Totals: interval(0).Operations, Error: e}}}
}

func interval(n int) *loadpb.Interval {
	var h histogram.Histogram
	h.Record(1e6)
	t := stats.Table{{Operation: "read", SizeClass: "<=4KiB"}: {Operations: 1, Bytes: 4096, Service: h}}
	return &loadpb.Interval{StartNs: int64(n) * 1e9, EndNs: int64(n+1) * 1e9, Operations: t.Proto()}
}

func (f *fake) send(c *enginepb.EngineCommand) {
	f.script.commands = append(f.script.commands, strings.Fields(c.String())[0])
	f.in <- c
}
func (f *fake) frames() <-chan *enginepb.EngineFrame { return f.out }
func (f *fake) stderr() string                       { return f.said }
func (f *fake) ending() string                       { return f.how }

func (f *fake) stop(grace time.Duration) {
	f.stopped = true
	switch {
	case f.script.immortal:
	case f.script.deaf && grace > 0:
		time.AfterFunc(grace, f.kill)
	default:
		f.kill()
	}
}

func (f *fake) kill() {
	if !f.ended {
		f.ended = true
		close(f.end)
	}
}

// A wire is a stream in memory.
type wire struct {
	ctx    context.Context
	cancel context.CancelFunc
	up     chan *loadpb.ControlMessage
	down   chan *loadpb.LiveStats
	stuck  atomic.Pointer[chan struct{}] // Send waits for it; nil: it does not
}

func (w *wire) Context() context.Context { return w.ctx }

func (w *wire) Send(m *loadpb.LiveStats) error {
	if stuck := w.stuck.Load(); stuck != nil {
		select {
		case <-*stuck:
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
	select {
	case w.down <- m:
		return nil
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

// stick makes Send wait until free is called.
func (w *wire) stick() (free func()) {
	stuck := make(chan struct{})
	w.stuck.Store(&stuck)
	return func() { close(stuck) }
}

func (w *wire) Recv() (*loadpb.ControlMessage, error) {
	select {
	case m, ok := <-w.up:
		if !ok {
			return nil, io.EOF
		}
		return m, nil
	case <-w.ctx.Done():
		return nil, errors.New("connection reset")
	}
}

// A bench is an agent in a bubble, with a controller that a test plays.
type bench struct {
	*testing.T
	agent  *Agent
	script *script
	skew   atomic.Int64 // of the clock, in nanoseconds
	log    bytes.Buffer
}

// inBubble runs a test with an agent whose engines are fakes.
func inBubble(t *testing.T, f func(b *bench)) {
	t.Helper()
	state, root := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, script: &script{}}
		base := time.Now()
		b.script.monotonic = func() int64 { return int64(time.Since(base)) + 5e9 }
		b.agent = b.newAgent(state, root)
		f(b)
		synctest.Wait()
		b.agent.Close()
	})
	verifyTrails(t, state)
}

func (b *bench) newAgent(state, root string) *Agent {
	b.Helper()
	a, err := New(Config{ID: "a1", StateDir: state, Roots: []Root{{Path: root}}, Engine: []string{"none"},
		Clock: func() time.Time { return time.Now().Add(time.Duration(b.skew.Load())) }, Log: slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		b.Fatal(err)
	}
	a.monotonic, a.launch = b.script.monotonic, b.script.start
	return a
}

// verifyTrails checks the trails of an agent.
func verifyTrails(t *testing.T, state string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(state, "trail", "*.jsonl"))
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := audit.VerifyLines(f); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f.Close()
	}
}

// A controller is a test's end of a stream.
type controller struct {
	*bench
	*wire
	run   string
	epoch uint64
	done  chan struct{} // closed when the agent has closed the stream
}

// dial opens a stream without a greeting.
func (b *bench) dial() *controller {
	ctx, cancel := context.WithCancel(context.Background())
	c := &controller{bench: b, run: runID, done: make(chan struct{}),
		wire: &wire{ctx: ctx, cancel: cancel, up: make(chan *loadpb.ControlMessage), down: make(chan *loadpb.LiveStats, 10_000)}}
	go func() {
		defer close(c.done)
		defer cancel()
		b.agent.execute(c.wire, "test")
	}()
	return c
}

// open opens a stream and greets. The run is runID unless another one is given.
func (b *bench) open(run ...string) *controller {
	b.Helper()
	c := b.dial()
	if len(run) > 0 {
		c.run = run[0]
	}
	c.send(&loadpb.ControlMessage{Hello: &loadpb.Hello{ProtocolMin: 1, ProtocolMax: 1}})
	m := c.next()
	if m.GetHello() == nil {
		b.Fatalf("the reply to a greeting: %v", m)
	}
	c.epoch = m.GetHello().GetSessionEpoch()
	return c
}

func (c *controller) send(m *loadpb.ControlMessage) {
	if m.RunId == "" {
		m.RunId = c.run
	}
	if m.SessionEpoch == 0 {
		m.SessionEpoch = c.epoch
	}
	select {
	case c.up <- m:
	case <-c.ctx.Done():
	}
}

// next returns the next message.
func (c *controller) next() *loadpb.LiveStats {
	c.Helper()
	select {
	case m := <-c.down:
		return m
	default:
	}
	select {
	case m := <-c.down:
		return m
	case <-c.done:
		c.Fatal("the stream has ended")
	case <-time.After(time.Hour):
		c.Fatal("no message")
	}
	return nil
}

// until returns the next message with a status.
func (c *controller) until(s loadpb.Status) *loadpb.LiveStats {
	c.Helper()
	for {
		m := c.next()
		if m.GetStatus() == s {
			return m
		}
		if final(m) {
			c.Fatalf("want %s, got %v", s, m)
		}
	}
}

func final(m *loadpb.LiveStats) bool {
	switch m.GetStatus() {
	case loadpb.Status_STATUS_COMPLETED, loadpb.Status_STATUS_ERROR, loadpb.Status_STATUS_ABORTED:
		return true
	}
	return false
}

func (c *controller) configure() {
	c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, ConfigYaml: config})
}

// ready opens a stream and goes on to READY.
func (b *bench) ready() *controller {
	b.Helper()
	c := b.open()
	c.configure()
	c.until(loadpb.Status_STATUS_READY)
	return c
}

// startIn sends a start time.
func (c *controller) startIn(d time.Duration) int64 {
	at := c.agent.now().Add(d).UnixNano()
	c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, CoordinatedStartTimeNs: at})
	return at
}

// running goes on to RUNNING.
func (b *bench) running() *controller {
	b.Helper()
	c := b.ready()
	c.startIn(time.Second)
	c.until(loadpb.Status_STATUS_RUNNING)
	return c
}

// ended returns the final message, acknowledges it, and waits until the agent closes the stream.
func (c *controller) ended(s loadpb.Status) *loadpb.LiveStats {
	c.Helper()
	m := c.until(s)
	c.acknowledge(m)
	<-c.done
	return m
}

func (c *controller) acknowledge(m *loadpb.LiveStats) {
	c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ACKNOWLEDGE, Sequence: m.GetSequence(), ResultSha256: m.GetResult().GetSha256()})
}

// path returns the states that the trail of a run leads through.
func (b *bench) path(run string) string {
	b.Helper()
	t, err := openTrail(b.agent.trails(), run, "")
	if err != nil {
		b.Fatal(err)
	}
	var states []string
	for _, r := range t.rows {
		if r.GetFrom() != r.GetTo() {
			states = append(states, r.GetTo())
		}
	}
	return strings.Join(states, " ")
}

// stored returns the records of a result, and its hash.
func stored(t *testing.T, a *Agent, run string) (intervals []*loadpb.Interval, result *loadpb.Result, sum [32]byte) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(a.results(), run))
	if err != nil {
		t.Fatal(err)
	}
	for r := bytes.NewReader(b); r.Len() > 0; {
		var m loadpb.ResultRecord
		if err := protodelim.UnmarshalFrom(r, &m); err != nil {
			t.Fatal(err)
		}
		if m.GetResult() != nil {
			result = m.GetResult()
		} else {
			intervals = append(intervals, m.GetInterval())
		}
	}
	return intervals, result, sha256.Sum256(b)
}
