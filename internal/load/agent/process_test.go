package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/workload"
)

// The test binary is an engine, or an agent, if its first argument says so.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	switch {
	case len(os.Args) > 1 && os.Args[1] == "engine":
		os.Exit(workload.Main(ctx, nil, os.Stdin, os.Stdout, os.Stderr))
	case len(os.Args) > 1 && os.Args[1] == "agent":
		if err := agentProcess(ctx, os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	stop()
	os.Exit(m.Run())
}

func agentProcess(ctx context.Context, state, root string) error {
	a, err := New(processConfig(state, root))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return a.Serve(ctx, l, nil)
}

func processConfig(state, root string) Config {
	return Config{ID: "a1", StateDir: state, Roots: []Root{{Path: root}}, Engine: []string{os.Args[0], "engine"}}
}

// endless is a run that only ABORT ends. It creates files all the time.
const endless = `name: endless
files: [{name: data, count: 20, size: 4KiB}, {name: new}]
mix: [{operation: read, files: data}, {operation: create, files: new, block: 1KiB}, {operation: delete, files: new}]
rate: 500
duration: 10m
interval: 100ms
`

const short = `name: short
files: [{name: data, count: 3, size: 64KiB}]
mix: [{operation: read, files: data}]
duration: 500ms
interval: 100ms
`

// A served is an agent of this process at a port.
type served struct {
	*Agent
	t       *testing.T
	address string
	state   string
	root    string

	mu      sync.Mutex // guards engines
	engines []*process
}

// serve serves an agent until the test ends.
func serve(t *testing.T, change func(*Config)) *served {
	t.Helper()
	s := &served{t: t, state: t.TempDir(), root: t.TempDir()}
	c := processConfig(s.state, s.root)
	if change != nil {
		change(&c)
	}
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.Agent = a
	start := a.launch
	a.launch = func(job workload.Job) (engine, error) {
		e, err := start(job)
		if err == nil {
			s.mu.Lock()
			s.engines = append(s.engines, e.(*process))
			s.mu.Unlock()
		}
		return e, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Serve(ctx, l, nil) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		a.Close()
		verifyTrails(t, s.state)
	})
	return s
}

func (s *served) busy() bool {
	s.Agent.mu.Lock()
	defer s.Agent.mu.Unlock()
	return s.current != nil
}

// engine returns the pid of the first engine.
func (s *served) engine() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.engines[0].cmd.Process.Pid
}

// A talk is a controller over gRPC.
type talk struct {
	t      *testing.T
	client loadpb.AgentServiceClient
	stream grpc.BidiStreamingClient[loadpb.ControlMessage, loadpb.LiveStats]
	conn   *grpc.ClientConn
	cancel context.CancelFunc
	run    string
	epoch  uint64
}

func dial(t *testing.T, address string) *talk {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &talk{t: t, conn: conn, client: loadpb.NewAgentServiceClient(conn), run: runID}
}

// greet opens a stream and greets, with a lease in milliseconds.
func (c *talk) greet(lease uint32) *talk {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	c.t.Cleanup(cancel)
	c.cancel = cancel
	var err error
	if c.stream, err = c.client.ExecuteWorkload(ctx); err != nil {
		c.t.Fatal(err)
	}
	c.send(&loadpb.ControlMessage{Hello: &loadpb.Hello{ProtocolMin: 1, ProtocolMax: 1, LeaseMs: lease}})
	m := c.next()
	if m.GetHello() == nil {
		c.t.Fatalf("the reply to a greeting: %v", m)
	}
	c.epoch = m.GetHello().GetSessionEpoch()
	return c
}

func (c *talk) send(m *loadpb.ControlMessage) {
	m.RunId, m.SessionEpoch = c.run, c.epoch
	_ = c.stream.Send(m) // next returns why
}

func (c *talk) next() *loadpb.LiveStats {
	c.t.Helper()
	m, err := c.stream.Recv()
	if err != nil {
		c.t.Fatal(err)
	}
	return m
}

func (c *talk) until(s loadpb.Status) *loadpb.LiveStats {
	c.t.Helper()
	for {
		m := c.next()
		if m.GetStatus() == s {
			return m
		}
		if final(m) {
			c.t.Fatalf("want %s, got %v", s, m)
		}
	}
}

// begin goes on to the first statistics of a config.
func (c *talk) begin(config string) {
	c.t.Helper()
	c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, ConfigYaml: config})
	c.until(statusReady)
	c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, CoordinatedStartTimeNs: time.Now().Add(200 * time.Millisecond).UnixNano()})
	for c.until(statusRunning).GetInterval() == nil {
	}
}

func (c *talk) abort() {
	c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ABORT, Reason: "enough"})
}

// end acknowledges the final message and waits until the agent closes the stream.
func (c *talk) end(m *loadpb.LiveStats) {
	c.t.Helper()
	c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_ACKNOWLEDGE, Sequence: m.GetSequence(), ResultSha256: m.GetResult().GetSha256()})
	for {
		if _, err := c.stream.Recv(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			c.t.Fatal(err)
		}
	}
}

// fetch returns a result from an offset on.
func (c *talk) fetch(offset uint64) ([]byte, error) {
	s, err := c.client.FetchResult(context.Background(), &loadpb.FetchResultRequest{RunId: c.run, Offset: offset})
	if err != nil {
		return nil, err
	}
	var b []byte
	for {
		part, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return nil, err
		}
		b = append(b, part.GetData()...)
	}
}

// idle waits until the agent has no run, and returns the last one.
func (c *talk) idle() *loadpb.RunView {
	c.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		r, err := c.client.GetAgent(context.Background(), &loadpb.GetAgentRequest{})
		if err == nil && len(r.GetKeptRunIds()) > 0 {
			return r.GetRun()
		}
	}
	c.t.Fatal("the run does not end")
	return nil
}

// files returns the files in a folder.
func files(t *testing.T, root string) (found []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// isClean checks that nothing is left of the runs, once the agent is free.
func (s *served) isClean() {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); s.busy() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if left := files(s.t, s.root); len(left) > 0 {
		s.t.Errorf("%d files are left, such as %s", len(left), left[0])
	}
	if jobs, _ := os.ReadDir(filepath.Join(s.state, "runs")); len(jobs) > 0 {
		s.t.Errorf("the job of %s is left", jobs[0].Name())
	}
}

// A whole run with the real engine, and its result from every offset (L6).
func TestRun(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := dial(t, s.address).greet(0)
	c.begin(short)
	m := c.until(statusCompleted)
	c.end(m)
	whole, err := c.fetch(0)
	sum := sha256.Sum256(whole)
	if err != nil || !bytes.Equal(sum[:], m.GetResult().GetSha256()) || uint64(len(whole)) != m.GetResult().GetSizeBytes() {
		t.Errorf("%d bytes, %v", len(whole), err)
	}
	for _, at := range []int{1, len(whole) - 1, len(whole)} {
		if rest, err := c.fetch(uint64(at)); err != nil || !bytes.Equal(rest, whole[at:]) {
			t.Errorf("from %d on: %d bytes, %v", at, len(rest), err)
		}
	}
	if _, err := c.fetch(uint64(len(whole) + 1)); err == nil {
		t.Error("what is behind the end was fetched")
	}
	if n := m.GetResult().GetTotals()[0].GetOperations(); n == 0 {
		t.Error("nothing was done")
	}
	s.isClean()
}

// An engine that is stopped, and so ignores TERM, does not hold up ABORT (L5).
func TestAbortOfAStoppedEngine(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := dial(t, s.address).greet(0)
	c.begin(endless)
	if err := syscall.Kill(s.engine(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	c.abort()
	m := c.until(statusAborted)
	if m.GetResult().GetCleanup().GetDeletedFiles() == 0 || len(m.GetResult().GetCleanup().GetErrors()) > 0 {
		t.Errorf("the cleanup: %v", m.GetResult().GetCleanup())
	}
	c.end(m)
	s.isClean()
}

// An engine whose threads take every processor, many times over, keeps the agent from neither a PING within its 5 s nor an
// ABORT, and statistics come meanwhile (L2, L5, pain 12). It is not parallel: it would hold up the other tests.
func TestBesideBusyProcessors(t *testing.T) {
	s := serve(t, nil)
	c := dial(t, s.address).greet(0)
	c.begin(fmt.Sprintf("{name: busy, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}], engine: \"null\", jobs: %d, duration: 10m, interval: 100ms}", 4*runtime.NumCPU()))
	for range 3 {
		asked := time.Now()
		c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_PING})
		c.until(loadpb.Status_STATUS_ACKNOWLEDGE)
		if took := time.Since(asked); took > 5*time.Second {
			t.Errorf("the agent has replied after %s", took)
		}
		for c.until(statusRunning).GetInterval() == nil {
		}
	}
	asked := time.Now()
	c.abort()
	m := c.until(statusAborted)
	if took := time.Since(asked); took > 10*time.Second {
		t.Errorf("the run was aborted after %s", took)
	}
	c.end(m)
	s.isClean()
}

// An engine that ends by itself is an error with the end of its standard error (pain 12).
func TestEngineIsKilled(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	c := dial(t, s.address).greet(0)
	c.begin(endless)
	if err := syscall.Kill(s.engine(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	m := c.until(statusError)
	if m.GetError().GetCode() != codeCrashed || !strings.Contains(m.GetErrorMessage(), "killed") {
		t.Errorf("got %v", m)
	}
	c.end(m)
	s.isClean()
}

// The programs of others in place of an engine: each ends the run with what it has printed.
func TestOtherProgramsAsEngine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ script, want string }{
		"exits":   {"echo out of luck >&2; exit 3", "exit status 3: out of luck"},
		"babbles": {"yes | head -c 100000; sleep 60", "not well-formed"},
		"missing": {"", "start the engine"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(c *Config) {
				if c.Engine = []string{"sh", "-c", test.script}; test.script == "" {
					c.Engine = []string{"/does/not/exist"}
				}
			})
			c := dial(t, s.address).greet(0)
			c.send(&loadpb.ControlMessage{Command: loadpb.Command_COMMAND_START, ConfigYaml: short})
			if m := c.until(statusError); !strings.Contains(m.GetErrorMessage(), test.want) {
				t.Errorf("got %s", m.GetErrorMessage())
			}
			c.cancel()
		})
	}
}

// A killed agent leaves no engine, and the next one on its folder closes the trail, deletes what
// the run has created, and has its result (L5, pain 15).
func TestAgentIsKilled(t *testing.T) {
	t.Parallel()
	state, root := t.TempDir(), t.TempDir()
	agent, address := startAgent(t, state, root)
	c := dial(t, address).greet(0)
	c.begin(endless)
	engine := childOf(t, agent.Process.Pid)
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
	for { // the stream breaks
		if _, err := c.stream.Recv(); err != nil {
			break
		}
	}
	_, address = startAgent(t, state, root) // it waits for the lock, which the engine has, too
	if err := syscall.Kill(engine, 0); !errors.Is(err, syscall.ESRCH) && !isZombie(engine) {
		t.Errorf("engine %d lives: %v", engine, err)
	}
	c = dial(t, address)
	if c.idle() != nil {
		t.Error("the new agent has a run")
	}
	b, err := c.fetch(0)
	if err != nil || !bytes.Contains(b, []byte(lostMessage)) {
		t.Errorf("the result: %d bytes, %v", len(b), err)
	}
	if left := files(t, root); len(left) > 0 {
		t.Errorf("%d files are left, such as %s", len(left), left[0])
	}
	c.run = "second"
	c.greet(0).begin(short)
	c.end(c.until(statusCompleted))
	verifyTrails(t, state)
}

// startAgent starts an agent process, which ends with the test, and returns its address.
func startAgent(t *testing.T, state, root string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "agent", state, root)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	line := make([]byte, 64)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(string(line[:n]))
}

// childOf returns the pid of the only child of a process.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range tasks {
		if b, err := os.ReadFile(name); err == nil && len(strings.Fields(string(b))) > 0 {
			child, err := strconv.Atoi(strings.Fields(string(b))[0])
			if err != nil {
				t.Fatal(err)
			}
			return child
		}
	}
	t.Fatalf("process %d has no child", pid)
	return 0
}

// isZombie reports whether a process has ended and nobody has waited for it: in a container,
// nobody may.
func isZombie(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(b), ") Z ")
}

// A state folder is of one agent.
func TestStateFolderIsTaken(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	_, err := New(processConfig(s.state, s.root))
	if pawl.KindOf(err) != pawl.Conflict {
		t.Errorf("got %v", err)
	}
}

// An engine that outlives its agent keeps the state folder.
func TestStateFolderIsOfTheEngine(t *testing.T) {
	t.Parallel()
	state, root := t.TempDir(), t.TempDir()
	a, err := New(processConfig(state, root))
	if err != nil {
		t.Fatal(err)
	}
	e, err := launch([]string{"sleep", "60"}, a.lock.File(), workload.Job{})
	if err != nil {
		t.Fatal(err)
	}
	a.Close()
	if held, err := durable.Held(filepath.Join(state, "lock")); err != nil || !held {
		t.Errorf("held: %t, %v", held, err)
	}
	e.stop(0)
	for range e.frames() {
	}
	if a, err = New(processConfig(state, root)); err != nil {
		t.Fatal(err)
	}
	a.Close()
}
