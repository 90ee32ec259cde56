//go:build linux

package controller

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/pawl-dev/pawl"
	loadagent "github.com/pawl-dev/pawl/internal/load/agent"
	"github.com/pawl-dev/pawl/internal/load/histogram"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/load/stats"
	"github.com/pawl-dev/pawl/internal/load/workload"
)

// TestMain makes this program an agent, an engine or a controller if a test has started it as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && parts[os.Args[1]] != nil {
		os.Exit(parts[os.Args[1]](os.Args[2]))
	}
	os.Exit(m.Run())
}

// parts are what this program can be started as, with one argument.
var parts = map[string]func(string) int{
	"part-agent":      agentPart,
	"part-engine":     func(string) int { return workload.Main(context.Background(), nil, os.Stdin, os.Stdout, os.Stderr) },
	"part-controller": controllerPart,
}

// An agentOrder is what an agent is started with.
type agentOrder struct {
	ID, Listen, State, Root string
	Shift                   time.Duration // of its clock
	PPM                     float64       // how much faster its clock is
	Watch                   string        // a socket, the connection to which lives as long as the process
}

func (o agentOrder) argv() []string {
	b, _ := json.Marshal(o) // it has no value that JSON lacks
	return []string{os.Args[0], "part-agent", string(b)}
}

func agentPart(order string) int {
	var o agentOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return complain(err)
	}
	if o.Watch != "" {
		c, err := net.Dial("unix", o.Watch)
		if err != nil {
			return complain(err)
		}
		defer c.Close()
	}
	base := time.Now()
	a, err := loadagent.New(loadagent.Config{
		ID: o.ID, StateDir: o.State, Roots: []loadagent.Root{{Path: o.Root}}, Engine: []string{os.Args[0], "part-engine", ""}, Build: "test",
		Clock: func() time.Time {
			t := time.Since(base)
			return base.Add(o.Shift + t + time.Duration(float64(t)*o.PPM/1e6))
		},
	})
	if err != nil {
		return complain(err)
	}
	defer a.Close()
	l, err := net.Listen("unix", strings.TrimPrefix(o.Listen, "unix:"))
	if err != nil {
		return complain(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := a.Serve(ctx, l, nil); err != nil {
		return complain(err)
	}
	return 0
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// A controllerOrder is what a controller is started with.
type controllerOrder struct {
	File, Dir, Root, Watch string
	Sockets                []string // of agents; none: it starts one
}

// controllerPart runs a load and prints a line when the load is on.
func controllerPart(order string) int {
	var o controllerOrder
	if err := json.Unmarshal([]byte(order), &o); err != nil {
		return complain(err)
	}
	test, err := spec.Parse([]byte(o.File))
	if err != nil {
		return complain(err)
	}
	var targets []Target
	for _, s := range o.Sockets {
		options, _ := Credentials{}.Options(s)
		targets = append(targets, Target{Address: s, Options: options})
	}
	if len(targets) == 0 {
		l, err := StartLocal(context.Background(), 1, o.Dir, os.Stderr, func(id, listen, state string) []string {
			return agentOrder{ID: id, Listen: listen, State: state, Root: o.Root, Watch: o.Watch}.argv()
		})
		if err != nil {
			return complain(err)
		}
		targets = l.Targets
	}
	_, err = Run(context.Background(), Config{ID: runID, File: []byte(o.File), Test: test, Agents: targets, Records: o.Dir, Interval: func(Interval) { fmt.Println("running") }})
	if err != nil {
		return complain(err)
	}
	return 0
}

// localAgents starts agents beneath a root and returns them.
func localAgents(t testing.TB, n int, order func(i int, o *agentOrder)) (l *Local, root string) {
	t.Helper()
	root = t.TempDir()
	dir := socketDir(t)
	i := 0
	l, err := StartLocal(t.Context(), n, dir, io.Discard, func(id, listen, state string) []string {
		o := agentOrder{ID: id, Listen: listen, State: state, Root: root}
		if order != nil {
			order(i, &o)
		}
		i++
		return o.argv()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Stop(); err != nil {
			t.Error(err)
		}
	})
	return l, root
}

// socketDir returns a folder whose name is short enough for sockets.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pawl-c-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// parsed returns a config for the run of a file.
func parsed(t testing.TB, file string, l *Local) Config {
	t.Helper()
	test, err := spec.Parse([]byte(file))
	if err != nil {
		t.Fatal(err)
	}
	return Config{ID: newID(), File: []byte(file), Test: test, Agents: l.Targets, Build: "test", Records: t.TempDir()}
}

var ids struct {
	sync.Mutex
	n int
}

func newID() string {
	ids.Lock()
	defer ids.Unlock()
	ids.n++
	return fmt.Sprintf("01JZZZZZZZZZZZZZZZZZ%06d", ids.n)
}

// filesIn returns the files beneath a folder.
func filesIn(t testing.TB, root string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

const smallLoad = `name: small
files: [{name: data, count: 4, size: 64KiB}]
mix:
  - {operation: read, files: data, block: 4KiB}
  - {operation: stat, files: data}
jobs: 4
warmup: 200ms
duration: 1s
interval: 200ms
start: {delay: 200ms}
`

// TestAgents: a run on three agents in processes of their own, whose clocks are seconds apart,
// begins at no agent before its time, has the sum of what each of them has measured, interval by
// interval unless some came late or gave way to newer ones, and leaves no file (L4, L7).
func TestAgents(t *testing.T) {
	t.Parallel()
	l, root := localAgents(t, 3, func(i int, o *agentOrder) { o.Shift = time.Duration(i-1) * 5 * time.Second })
	c := parsed(t, smallLoad, l)
	sums, whole := stats.Table{}, true
	c.Interval = func(i Interval) {
		whole = whole && i.Agents == len(l.Targets)
		if !i.Warmup {
			sums.Merge(i.Operations)
		}
	}
	got, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := report.Evaluate(got)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range got.Agents {
		whole = whole && a.Dropped == 0
		if want := time.Duration(i-1) * 5 * time.Second; (a.Clock.Offset-want).Abs() > a.Clock.Bound+time.Millisecond || a.Status != loadpb.Status_STATUS_COMPLETED {
			t.Errorf("agent %d: offset %v, bound %v, %v", i, a.Clock.Offset, a.Clock.Bound, a.Status)
		}
	}
	if diff := cmp.Diff(r.Totals, sums, cmp.AllowUnexported(histogram.Histogram{})); whole && diff != "" {
		t.Errorf("the intervals are not the totals:\n%s", diff)
	}
	if all, shown := r.Summary.Total.Operations, report.Total(sums, 1).Operations; shown > all {
		t.Errorf("the intervals have %d operations of %d", shown, all)
	}
	if s := r.Summary.Skew; s.First < -s.Bound {
		t.Errorf("a thread has begun %v early", time.Duration(-s.First))
	}
	if n := r.Summary.Total.Operations; n < 1000 {
		t.Errorf("%d operations", n)
	}
	if left := filesIn(t, root); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestStall: while the target stalls, operations that are due wait. Nearly all service times are
// as before, but a fifth of all response times has the stall in it: it is not hidden by a load
// that waits (L7, L9).
func TestStall(t *testing.T) {
	t.Parallel()
	const stall = 400 * time.Millisecond
	l, _ := localAgents(t, 1, nil)
	c := parsed(t, "name: stall\nfiles: [{name: d, count: 1, size: 64KiB}]\nmix: [{operation: read, files: d}]\nrate: 200\nduration: 2s\ninterval: 200ms\nstart: {delay: 100ms}\n", l)
	var once sync.Once
	c.Interval = func(Interval) {
		once.Do(func() {
			engine := engineOf(t, l.agents[0].cmd.Process.Pid)
			if err := syscall.Kill(engine, syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
			time.AfterFunc(stall, func() { _ = syscall.Kill(engine, syscall.SIGCONT) })
		})
	}
	got, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := report.Evaluate(got)
	if err != nil {
		t.Fatal(err)
	}
	total := whole.Summary.Total
	if total.Operations < 300 || total.Response == nil || time.Duration(total.Response.P90) < stall/4 || time.Duration(total.Response.Max) < stall*3/4 {
		t.Errorf("%d operations; response times %+v do not show a stall of %v", total.Operations, total.Response, stall)
	}
	if time.Duration(total.Service.P90) > stall/4 {
		t.Errorf("service times %+v show it in operations that were not issued", total.Service)
	}
}

// engineOf returns the child of an agent.
func engineOf(t *testing.T, agent int) int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", agent))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tasks {
		if b, err := os.ReadFile(name); err == nil && len(b) > 0 {
			var pid int
			if _, err := fmt.Sscan(string(b), &pid); err == nil {
				return pid
			}
		}
	}
	t.Fatalf("agent %d has no engine", agent)
	return 0
}

const longLoad = `name: long
files: [{name: data, count: 2, size: 64KiB}]
mix:
  - {operation: read, files: data, block: 4KiB, weight: 9}
  - {operation: create, files: data, block: 4KiB}
rate: 100
duration: 1h
interval: 100ms
start: {delay: 100ms, POLICY}
timeouts: {silence: 500ms, acknowledge: 500ms}
`

// TestAgentIsKilled: an agent that is killed, or stopped by its kernel, ends the run of all by the
// policy `+"`all`"+`, with an error that names it, and the others clean up; by another policy the
// run goes on, and Ctrl-C ends it (L7).
func TestAgentIsKilled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		signal os.Signal
		policy string
	}{
		{"killed", syscall.SIGKILL, "policy: all"},
		{"stopped", syscall.SIGSTOP, "policy: all"},
		{"killed, and the others go on", syscall.SIGKILL, "policy: best-effort"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, root := localAgents(t, 2, func(i int, o *agentOrder) {
				o.Root = filepath.Join(o.Root, o.ID)
				if err := os.Mkdir(o.Root, 0o755); err != nil {
					t.Fatal(err)
				}
			})
			c := parsed(t, strings.ReplaceAll(longLoad, "POLICY", tt.policy), l)
			stop := make(chan struct{})
			var once, over sync.Once
			c.Stop = stop
			c.Interval = func(i Interval) {
				once.Do(func() { _ = l.agents[1].cmd.Process.Signal(tt.signal) })
				if i.Agents == 1 && tt.policy != "policy: all" {
					over.Do(func() { close(stop) })
				}
			}
			got, err := Run(t.Context(), c)
			_ = l.agents[1].cmd.Process.Kill()
			if tt.policy != "policy: all" {
				if !errors.Is(err, context.Canceled) || got.Outcome != "aborted" {
					t.Errorf("%v, %s", err, got.Outcome)
				}
			} else if err == nil || !strings.HasPrefix(err.Error(), "agent local-2: the connection was lost") || pawl.KindOf(err) != pawl.Unavailable {
				t.Error(err)
			}
			if s := got.Agents[0].Status; s != loadpb.Status_STATUS_ABORTED || got.Agents[0].Records == "" || got.Agents[0].Live || got.Agents[1].Error.GetCode() != loadpb.ErrorCode_ERROR_CODE_CONNECTION_LOST {
				t.Errorf("%v, %v", s, got.Agents[1].Error)
			}
			if left := filesIn(t, filepath.Join(root, "local-1")); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// TestKilledAgentCounts: what an agent had sent before it was killed is in the result, histograms
// included, exactly as it has measured it: its figures are the sum of these intervals and are marked, and
// the others have their whole results (L5, L7).
func TestKilledAgentCounts(t *testing.T) {
	t.Parallel()
	l, _ := localAgents(t, 2, nil)
	c := parsed(t, strings.NewReplacer("POLICY", "policy: best-effort", "duration: 1h", "duration: 1500ms").Replace(longLoad), l)
	dir := filepath.Join(t.TempDir(), "result")
	folder, err := report.NewFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	c.Records = folder.Records()
	killed := false
	c.Interval = func(i Interval) {
		if i.End >= 400*time.Millisecond && !killed {
			killed = true
			_ = l.agents[1].cmd.Process.Kill()
		}
	}
	run, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Write(run); err != nil {
		t.Fatal(err)
	}
	r, err := report.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	measured := recordedIn(t, filepath.Dir(strings.TrimPrefix(l.Targets[1].Address, "unix:"))+"/state/results/"+c.ID+".partial")
	sum := stats.Table{}
	for start, i := range recordedIn(t, filepath.Join(dir, "agents/local-2/live.pb")) {
		if !proto.Equal(i, measured[start]) {
			t.Errorf("the interval at %v is %v, and was %v on the agent", time.Duration(start), i, measured[start])
		}
		if err := sum.Add(i.GetOperations()); err != nil {
			t.Error(err)
		}
	}
	whole, lost := r.Summary.Agents[0], r.Summary.Agents[1]
	if whole.Partial || whole.Live || whole.Status != "completed" || lost.Operations+whole.Operations != r.Summary.Total.Operations {
		t.Errorf("the other agent: %+v", whole)
	}
	if !lost.Live || !lost.Partial || lost.Operations == 0 || lost.Seconds == 0 || lost.Response.P99 == 0 || cmp.Diff(report.Total(sum, lost.Seconds), lost.Figures) != "" ||
		!strings.HasPrefix(lost.Problem, "there is no result; its figures are of the ") || lost.State() != "lost, partial" || r.Summary.Live != 1 || !r.Summary.Partial {
		t.Errorf("the killed agent: %+v", lost)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*")); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	for name, want := range map[string]bool{"agents/local-1/result.pb": true, "agents/local-1/live.pb": false, "agents/local-2/live.pb": true, "agents/local-2/result.pb": false, "records": false} {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// recordedIn returns the intervals of a file of records by their starts.
func recordedIn(t *testing.T, path string) map[int64]*loadpb.Interval {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[int64]*loadpb.Interval{}
	for in := bytes.NewReader(b); in.Len() > 0; {
		var r loadpb.ResultRecord
		if err := protodelim.UnmarshalFrom(in, &r); err != nil {
			break // the agent was killed while it wrote
		}
		all[r.GetInterval().GetStartNs()] = r.GetInterval()
	}
	return all
}

// TestControllerIsKilled: a controller that is killed leaves its agents without a run and without
// files: those that are there go on with the next run, and those that it has started end (L2, L7).
func TestControllerIsKilled(t *testing.T) {
	t.Parallel()
	file := strings.ReplaceAll(longLoad, "POLICY", "policy: all")
	t.Run("agents elsewhere", func(t *testing.T) {
		t.Parallel()
		l, root := localAgents(t, 2, nil)
		killRunning(t, controllerOrder{File: file, Dir: t.TempDir(), Sockets: []string{l.Targets[0].Address, l.Targets[1].Address}})
		c := parsed(t, smallLoad, l)
		for {
			got, err := Run(t.Context(), c)
			if err == nil {
				break
			}
			if code := got.Agents[0].Error.GetCode(); code != loadpb.ErrorCode_ERROR_CODE_BUSY && got.Agents[1].Error.GetCode() != loadpb.ErrorCode_ERROR_CODE_BUSY {
				t.Fatal(err)
			}
			c.ID = newID() // it still ends the other one
		}
		if left := filesIn(t, root); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
	t.Run("its own agents", func(t *testing.T) {
		t.Parallel()
		dir, root := socketDir(t), t.TempDir()
		watch, err := net.Listen("unix", filepath.Join(dir, "watch"))
		if err != nil {
			t.Fatal(err)
		}
		defer watch.Close()
		alive := make(chan net.Conn, 1)
		go func() {
			c, _ := watch.Accept()
			alive <- c
		}()
		killRunning(t, controllerOrder{File: file, Dir: dir, Root: root, Watch: watch.Addr().String()})
		c := <-alive
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the agent lives on: %v", err)
		}
		if left := filesIn(t, root); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// killRunning starts a controller and kills it when its load is on.
func killRunning(t *testing.T, o controllerOrder) {
	t.Helper()
	b, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "part-controller", string(b))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "running\n" {
		t.Error(line, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
}

// TestLocalAgentThatEnds: an agent that cannot start is an error that has what it said.
func TestLocalAgentThatEnds(t *testing.T) {
	t.Parallel()
	_, err := StartLocal(t.Context(), 2, socketDir(t), io.Discard, func(id, listen, state string) []string {
		return agentOrder{ID: id, Listen: listen, State: state, Root: "/nowhere"}.argv()
	})
	if err == nil || !strings.Contains(err.Error(), "agent local-1: it has ended: ") || !strings.Contains(err.Error(), "/nowhere") {
		t.Error(err)
	}
}

// TestLocalAgentThatDoesNotEnd: one that does not end is killed, and named; one that has ended is not.
func TestLocalAgentThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	l := &Local{patience: 100 * time.Millisecond}
	for name, script := range map[string]string{"deaf": "trap '' TERM; echo up; exec sleep 100", "good": "echo up; exec sleep 100"} {
		a := &localAgent{name: name, done: make(chan struct{})}
		r, w := io.Pipe()
		if err := a.start([]string{"sh", "-c", script}, w, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(r, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		l.agents = append(l.agents, a)
	}
	var killed *KilledError
	if err := l.Stop(); !errors.As(err, &killed) || !slices.Equal(killed.Names, []string{"deaf"}) {
		t.Error(err)
	}
	if err := l.Stop(); err != nil {
		t.Error("again:", err)
	}
}

// TestSkew: with clocks that are 5 s off in both directions, and drift by 100 ppm in both, all threads of four agents begin
// within 2 ms of the start, in the median of nine runs (L7): a busy machine may let a thread wait longer. It is not
// parallel, as other tests would be what its threads wait for.
func TestSkew(t *testing.T) {
	l, _ := skewedAgents(t, 4)
	c := parsed(t, skewLoad+"rate: 200\n", l)
	worst := make([]time.Duration, 9)
	for n := range worst {
		c.ID = newID()
		got, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range got.Agents {
			worst[n] = max(worst[n], a.Skew[0].Abs(), a.Skew[1].Abs())
		}
	}
	slices.Sort(worst)
	if worst[len(worst)/2] > 2*time.Millisecond {
		t.Errorf("of most runs a thread has begun more than 2 ms off the start: %v", worst)
	}
	t.Log(worst)
}

// skewedAgents returns agents whose clocks are 5 s off, and drift.
func skewedAgents(t testing.TB, n int) (*Local, string) {
	return localAgents(t, n, func(i int, o *agentOrder) {
		o.Shift, o.PPM = time.Duration(i%2*2-1)*5*time.Second, float64(i%3-1)*100
	})
}

const skewLoad = "name: skew\nfiles: [{name: d, count: 1, size: 4KiB}]\nmix: [{operation: read, files: d}]\nduration: 20ms\nstart: {delay: 300ms}\n"

// BenchmarkSkew measures how exactly agents begin at one time, with clocks that are seconds apart
// and drift: the first operations of all threads against the start, by the controller's clock. It
// prints the uncertainty of that, too (L7). A busy load takes all processors from its first
// operation on, so that threads of other agents on this machine may have to wait for them.
func BenchmarkSkew(b *testing.B) {
	for _, n := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("agents=%d", n), func(b *testing.B) { benchmarkSkew(b, n, "rate: 200\n") })
	}
	b.Run("busy,agents=4", func(b *testing.B) { benchmarkSkew(b, 4, "") })
}

func benchmarkSkew(b *testing.B, n int, rate string) {
	l, _ := skewedAgents(b, n)
	c := parsed(b, skewLoad+rate, l)
	var skews, bounds []time.Duration
	for b.Loop() {
		c.ID = newID()
		got, err := Run(b.Context(), c)
		if err != nil {
			b.Fatal(err)
		}
		for _, a := range got.Agents {
			skews, bounds = append(skews, max(a.Skew[0].Abs(), a.Skew[1].Abs())), append(bounds, a.Clock.Bound)
		}
	}
	slices.Sort(skews)
	slices.Sort(bounds)
	at := func(all []time.Duration, q float64) float64 {
		return float64(all[int(q*float64(len(all)-1))]) / 1e3
	}
	b.ReportMetric(at(skews, 0.5), "p50-µs")
	b.ReportMetric(at(skews, 0.95), "p95-µs")
	b.ReportMetric(at(skews, 1), "max-µs")
	b.ReportMetric(at(bounds, 0.5), "bound-p50-µs")
	b.ReportMetric(at(bounds, 1), "bound-max-µs")
}
