package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// protocol is the version of the protocol that this controller speaks.
const protocol = 1

// A Config describes a run.
type Config struct {
	ID     string     // a ULID
	File   []byte     // the config, as the agents get it
	Test   *spec.Test // what it says
	Agents []Target   // at least one
	Build  string     // the name and version of this program, for people

	// Records is a folder that exists, into which the records of agents are written as they come.
	// The returned run is about files in it.
	Records string

	// Stop aborts the run when it is closed: its agents end it and clean up. Nil: nothing does.
	Stop <-chan struct{}
	// Abort aborts the run likewise, for the reason that it receives. Nil: nothing does.
	Abort <-chan string
	// Changed, if not nil, is called after each change of an agent, Interval with the sums of each
	// interval, and Moved with each transition that an agent reports. All are called by one
	// goroutine, which waits for them.
	Changed  func(View)
	Interval func(Interval)
	Moved    func(agent int, t *loadpb.Transition)
	// Recorded, if not nil, is called once for each agent that has sent an interval, with the file in
	// Records into which its intervals are written as they come. The goroutine that writes them calls it.
	Recorded func(agent int, file string)

	Clock func() time.Time // default: the system's, which no step disturbs during the run
	Log   *slog.Logger     // default: none
}

// A Target is an agent to be used.
type Target struct {
	Name    string            // for people; default the address
	Address string            // HOST:PORT, or unix:PATH
	Options []grpc.DialOption // how to connect; see Credentials.Options
}

// A run is one run. Its fields are of the goroutine of Run.
type run struct {
	Config
	agents []*agent
	calls  chan func()   // from other goroutines
	over   chan struct{} // closed: nobody takes calls any more
	wg     sync.WaitGroup

	keeper   *keeper
	phase    Phase
	series   series
	failures []*agent  // in their order
	start    time.Time // the coordinated one, by Clock; zero: there was none
	begins   time.Time // the same on the monotonic clock
	ready    time.Time // when the first agent was ready
	reason   string    // why the run is being aborted
	outcome  string    // how it ends then
	aborting bool
}

// errStopped is the reason of a run that its user has aborted.
var errStopped = errors.New("cancelled by user")

// An AbortedError is the error of a run that was aborted for a reason.
type AbortedError struct{ Reason string }

func (e *AbortedError) Error() string { return "aborted " + e.Reason }

// Run has the agents do the test, and returns what there is to know about it. The error says why
// the run has failed; it is context.Canceled if Stop was closed, and an *AbortedError if Abort has
// said so. If ctx ends, Run returns at once: agents notice
// that the connection is lost, end the run by themselves and clean up.
func Run(ctx context.Context, c Config) (*report.Run, error) {
	r, err := newRun(c)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer r.close()
	defer cancel()
	r.keeper = newKeeper(c.Records, c.Recorded)
	err = r.execute(ctx)
	if err != nil {
		r.abort(err)
		_ = r.until(ctx, r.allOver) // it only fails if ctx ends, and then there is nothing left to do
	}
	r.series.flush()
	r.keeper.stop()
	return r.conclude(ctx, err)
}

func newRun(c Config) (*run, error) {
	if c.Clock == nil {
		begun := time.Now()
		c.Clock = func() time.Time { return begun.Add(time.Since(begun)) }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	r := &run{Config: c, calls: make(chan func()), over: make(chan struct{})}
	r.series = series{every: c.Test.Interval, emit: r.emit}
	if len(c.Agents) == 0 {
		return nil, pawl.Errorf(pawl.Invalid, "a run needs an agent")
	}
	if c.Records == "" {
		return nil, pawl.Errorf(pawl.Invalid, "a run needs a folder for records")
	}
	if err := Enough(c.Test, len(c.Agents)); err != nil {
		return nil, err
	}
	for i, t := range c.Agents {
		if err := r.add(i, t); err != nil {
			r.closeConns()
			return nil, err
		}
	}
	return r, nil
}

// Enough returns an error if a test needs more than so many agents.
func Enough(t *spec.Test, agents int) error {
	if t.Start.Policy == spec.Quorum && t.Start.Quorum > agents {
		return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("start.quorum %d: there are %d agents", t.Start.Quorum, agents),
			Hint: "name more agents, or write a lower quorum"}
	}
	return nil
}

// add makes the connection to an agent, which is opened with the first call.
func (r *run) add(index int, t Target) error {
	options := append([]grpc.DialOption{
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithUserAgent(r.Build),
		grpc.WithNoProxy(),
	}, t.Options...)
	conn, err := grpc.NewClient(endpoint(t.Address), options...)
	if err != nil {
		return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("agent %q: %v", t.Address, err), Err: err}
	}
	r.agents = append(r.agents, &agent{
		index: index, name: "agent " + cmp.Or(t.Name, t.Address), address: t.Address, runID: r.ID, clock: r.Clock, begun: time.Now(), moved: time.Now(), sent: time.Now(),
		conn: conn, client: loadpb.NewAgentServiceClient(conn),
		out: make(chan *loadpb.ControlMessage, outbox), replies: make(chan probe, outbox),
		cancel: func(error) {},
	})
	return nil
}

const (
	keepaliveTime    = 10 * time.Second // without any frame, until the connection is tested
	keepaliveTimeout = 5 * time.Second  // for the reply
	maxMessage       = 16 << 20         // bytes of a message from an agent
)

// close ends all goroutines of the run and its connections.
func (r *run) close() {
	close(r.over)
	r.wg.Wait()
	r.closeConns()
}

func (r *run) closeConns() {
	for _, a := range r.agents {
		_ = a.conn.Close() // nothing is in flight any more
	}
}

// execute is the course of a run. Its error is why the run is to be aborted.
func (r *run) execute(ctx context.Context) error {
	r.enter(Connecting)
	for _, a := range r.agents {
		r.connect(ctx, a)
	}
	if err := r.until(ctx, r.connected); err != nil {
		return err
	}
	r.enter(Preparing)
	for _, a := range r.alive() {
		r.prepare(a)
	}
	if err := r.until(ctx, r.prepared); err != nil {
		return err
	}
	r.enter(Starting)
	for _, a := range r.alive() {
		r.measure(ctx, a)
	}
	if err := r.until(ctx, r.measured); err != nil {
		return err
	}
	r.begin()
	r.enter(Running)
	return r.until(ctx, r.allOver)
}

// until takes calls until done reports true. It fails when the run is to be aborted, unless it is
// already, and when ctx ends.
func (r *run) until(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(beat)
	defer tick.Stop()
	stop, abort := r.Stop, r.Abort
	if r.aborting {
		stop, abort = nil, nil
	}
	for {
		if err := r.judge(); err != nil {
			return err
		}
		if done() {
			return nil
		}
		select {
		case f := <-r.calls:
			f()
		case <-tick.C:
			r.beat(time.Now())
		case <-stop:
			return errStopped
		case reason := <-abort:
			return &AbortedError{reason}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// do has the goroutine of Run call f, unless the run is over.
func (r *run) do(f func()) {
	select {
	case r.calls <- f:
	case <-r.over:
	}
}

// connect opens the stream to an agent.
func (r *run) connect(ctx context.Context, a *agent) {
	stream, cancel := context.WithCancelCause(ctx)
	a.cancel = cancel
	r.wg.Go(func() {
		err := a.converse(stream, r.hello(), func(m *loadpb.LiveStats) {
			r.do(func() { r.receive(ctx, a, m) })
		})
		r.do(func() { r.closed(ctx, a, err) })
	})
}

func (r *run) hello() *loadpb.Hello {
	return &loadpb.Hello{
		ProtocolMin: protocol, ProtocolMax: protocol, Build: r.Build,
		LeaseMs: uint32(r.Test.Timeouts.Lease.Milliseconds()), ConfigMs: uint32(r.Test.Timeouts.Config.Milliseconds()),
	}
}

// connected reports whether all agents that count have greeted.
func (r *run) connected() bool {
	return !slices.ContainsFunc(r.alive(), func(a *agent) bool { return a.info == nil })
}

func (r *run) prepare(a *agent) {
	a.configured, a.moved = true, time.Now()
	r.send(a, &loadpb.ControlMessage{
		Command: loadpb.Command_COMMAND_START, ConfigYaml: string(r.File),
		Assignment: &loadpb.Assignment{AgentIndex: uint32(a.index), AgentCount: uint32(len(r.agents)), StartSeconds: r.patience()},
	})
}

// patience returns for how many seconds an agent has to wait for the start: the others may prepare
// for hours, and those that make no progress are given up.
func (r *run) patience() uint32 {
	if len(r.agents) == 1 || r.Test.Start.Policy != spec.All {
		return 0
	}
	return uint32(longestPrepare / time.Second)
}

// longestPrepare is how long agents wait for one that prepares.
const longestPrepare = 7 * 24 * time.Hour

// prepared reports whether all agents that count are ready. Those that would make the others
// wait until their own time is over do not count any more, if the policy allows it.
func (r *run) prepared() bool {
	waiting, ready := 0, 0
	for _, a := range r.alive() {
		if a.status == loadpb.Status_STATUS_READY {
			ready++
		} else {
			waiting++
		}
	}
	if waiting == 0 {
		return true
	}
	if r.Test.Start.Policy == spec.All || ready < r.needed() || time.Since(r.ready) < r.Test.Timeouts.Start*3/4 {
		return false
	}
	for _, a := range r.alive() {
		if a.status != loadpb.Status_STATUS_READY {
			r.giveUp(a, loadpb.ErrorCode_ERROR_CODE_TIMEOUT, "it was not ready as the others had to begin")
		}
	}
	return true
}

// measure measures the clock of an agent.
func (r *run) measure(ctx context.Context, a *agent) {
	r.wg.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, r.Test.Timeouts.Acknowledge)
		defer cancel()
		c, err := a.measure(ctx)
		r.do(func() {
			if err != nil {
				r.giveUp(a, loadpb.ErrorCode_ERROR_CODE_TIMEOUT, err.Error())
				return
			}
			a.measured, a.offset = true, c
			r.changed()
		})
	})
}

// measured reports whether the clocks of all agents that count are known.
func (r *run) measured() bool {
	return !slices.ContainsFunc(r.alive(), func(a *agent) bool { return !a.measured })
}

// begin chooses the start time and sends it to each agent by that agent's clock.
func (r *run) begin() {
	r.start, r.begins = r.Clock().Add(r.Test.Start.Delay), time.Now().Add(r.Test.Start.Delay)
	for _, a := range r.alive() {
		a.offset.Bound += drift(r.Test.Start.Delay)
		a.started, a.moved = true, r.begins
		r.send(a, &loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, CoordinatedStartTimeNs: agentTime(r.start, a.offset)})
	}
	r.Log.Info("the agents begin", "run", r.ID, "at", r.start, "agents", len(r.alive()))
}

// allOver reports whether nothing more is expected of any agent.
func (r *run) allOver() bool {
	return !slices.ContainsFunc(r.agents, func(a *agent) bool { return !a.over })
}

// alive returns the agents that count.
func (r *run) alive() []*agent {
	return slices.DeleteFunc(slices.Clone(r.agents), (*agent).failed)
}

// needed returns how many agents have to count for the run to go on.
func (r *run) needed() int {
	switch r.Test.Start.Policy {
	case spec.Quorum:
		return r.Test.Start.Quorum
	case spec.BestEffort:
		return 1
	default:
		return len(r.Agents)
	}
}

// judge returns why the run has failed, if too few agents count.
func (r *run) judge() error {
	if r.aborting || len(r.alive()) >= r.needed() {
		return nil
	}
	first := r.failures[0]
	message := fmt.Sprintf("%s: %s", first.name, first.failure.GetMessage())
	if len(r.agents) > 1 && r.needed() < len(r.agents) {
		message = fmt.Sprintf("%d of %d agents are left and %d are needed; the first to fail: %s", len(r.alive()), len(r.agents), r.needed(), message)
	}
	return &pawl.Error{Kind: kindOf(first.failure.GetCode()), Message: message, Hint: first.failure.GetHint()}
}

// kindOf returns what an error of an agent means to who runs it.
func kindOf(c loadpb.ErrorCode) pawl.Kind {
	switch c {
	case loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID:
		return pawl.Invalid
	case loadpb.ErrorCode_ERROR_CODE_BUSY, loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST:
		return pawl.Unavailable
	case loadpb.ErrorCode_ERROR_CODE_UNSUPPORTED_VERSION:
		return pawl.Conflict
	default:
		return pawl.Internal
	}
}

// abort has all agents end the run.
func (r *run) abort(why error) {
	r.aborting, r.reason, r.outcome = true, why.Error(), outcomeOf(why)
	r.enter(Ending)
	for _, a := range r.agents {
		r.stop(a)
	}
}

// stop has an agent end its run; one that has not greeted has none.
func (r *run) stop(a *agent) {
	switch {
	case a.over || a.closed || a.final != nil || !a.aborted.IsZero():
	case a.info == nil:
		a.cancel(nil)
		a.over = true
	default:
		a.aborted, a.moved = time.Now(), time.Now()
		reason := r.reason
		if reason == "" {
			reason = a.failure.GetMessage()
		}
		r.send(a, &loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT, Reason: reason})
	}
}

// fail has an agent not count any more.
func (r *run) fail(a *agent, e *loadpb.Error) {
	if a.failed() {
		return
	}
	a.failure = e
	r.failures = append(r.failures, a)
	r.Log.Info("an agent has failed", "run", r.ID, "agent", a.address, "code", e.GetCode().String(), "error", e.GetMessage())
	r.changed()
}

// giveUp has an agent not count any more, and end its run.
func (r *run) giveUp(a *agent, code loadpb.ErrorCode, message string) {
	r.fail(a, &loadpb.Error{Code: code, Message: message})
	r.stop(a)
}

func (r *run) send(a *agent, m *loadpb.ControlMessage) {
	a.sent = time.Now()
	r.Log.Debug("message to an agent", "run", r.ID, "agent", a.address, "command", m.GetCommand().String())
	a.post(m)
}

// outcomeOf returns how a run ends that is aborted for a reason.
func outcomeOf(why error) string {
	var aborted *AbortedError
	if errors.Is(why, errStopped) || errors.As(why, &aborted) || errors.Is(why, context.Canceled) {
		return report.Aborted
	}
	return report.Failed
}

// conclude returns the run as it has ended. The error of a run that was stopped is
// context.Canceled.
func (r *run) conclude(ctx context.Context, err error) (*report.Run, error) {
	out := &report.Run{ID: r.ID, Config: r.File, Test: r.Test, Started: r.start, Ended: r.Clock(), Outcome: report.Completed}
	switch {
	case ctx.Err() != nil:
		out.Outcome, out.Reason, err = report.Aborted, "forced to end by user", ctx.Err()
	case err != nil:
		out.Outcome, out.Reason = outcomeOf(err), err.Error()
	}
	if errors.Is(err, errStopped) {
		err = context.Canceled
	}
	for _, a := range r.agents {
		out.Agents = append(out.Agents, r.part(a))
	}
	return out, err
}

// part returns the part of an agent. Without a result it is what the agent has sent while it ran.
func (r *run) part(a *agent) report.Agent {
	p := report.Agent{
		Index: a.index, Address: a.address, Info: a.info, Status: a.status, Error: a.failure,
		Clock: a.offset, Skew: a.skew, Begun: a.hasBegun, Records: a.result, Missing: a.missing, Dropped: a.dropped,
	}
	live, err := r.keeper.take(a.index)
	switch {
	case a.result != "" && live != "":
		if err := os.Remove(live); err != nil {
			r.Log.Warn("what has come while an agent ran cannot be removed, though its result has come", "file", live, "error", err)
		}
	case a.result == "":
		p.Records, p.Live = live, live != ""
		p.Dropped += a.unkept
		if err != nil {
			p.Missing = strings.TrimPrefix(p.Missing+"; statistics could not be written: "+err.Error(), "; ")
		}
	}
	return p
}
