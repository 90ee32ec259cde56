//go:build linux

package workload

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/lab/s3test"
	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/s3"
)

// asEngine makes the test program an engine.
const asEngine = "PAWL_TEST_LOAD_ENGINE"

// withoutRights has an engine renounce what root may do: to write into folders that may not be written, for example.
const withoutRights = "PAWL_TEST_WITHOUT_RIGHTS"

func TestMain(m *testing.M) {
	if os.Getenv(asEngine) == "" {
		code := m.Run()
		s3test.Remove()
		os.Exit(code)
	}
	if os.Getenv(withoutRights) != "" {
		fmt.Fprintln(os.Stderr, renounce())
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	code := Main(ctx, testAccess, os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// renounce starts this program anew, as the same user and without capabilities. It returns why it cannot.
func renounce() error {
	runtime.LockOSThread() // whose rights are those of what it executes
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), unix.Capset(&header, &none[0]), os.Unsetenv(withoutRights)); err != nil {
		return fmt.Errorf("renounce capabilities: %w", err)
	}
	return unix.Exec("/proc/self/exe", os.Args, os.Environ())
}

// testAccess is the access of an engine, from its environment.
func testAccess() (c s3.Credentials, ca []byte, err error) {
	c, err = s3.NewCredentials(os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"), os.Getenv("AWS_SESSION_TOKEN"))
	if name := os.Getenv("AWS_CA_BUNDLE"); err == nil && name != "" {
		ca, err = os.ReadFile(name)
	}
	return c, ca, err
}

// A process is an engine, a real one.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	frames *bufio.Reader
	errors *strings.Builder
}

// start starts an engine with a job.
func start(t testing.TB, job Job, env ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0]), errors: &strings.Builder{}}
	p.cmd.Env = append(append(os.Environ(), asEngine+"=1"), env...)
	p.cmd.Stderr = p.errors
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.frames = bufio.NewReader(stdout)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	line, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) send(c *enginepb.EngineCommand) {
	p.t.Helper()
	if _, err := protodelim.MarshalTo(p.stdin, c); err != nil {
		p.t.Fatal(err)
	}
}

// until reads frames up to one of which f is true. An error of the engine ends the test unless it is wanted.
func (p *process) until(f func(*enginepb.EngineFrame) bool) *enginepb.EngineFrame {
	p.t.Helper()
	for {
		frame := &enginepb.EngineFrame{}
		if err := protodelim.UnmarshalFrom(p.frames, frame); err != nil {
			p.t.Fatalf("%v; the engine says: %s", err, p.errors)
		}
		if f(frame) {
			return frame
		}
		if e := frame.GetFailed(); e != nil {
			p.t.Fatalf("the engine has failed: %v", e)
		}
	}
}

// isFailed finds an error of the engine.
func isFailed(f *enginepb.EngineFrame) bool { return f.GetFailed() != nil }

func (p *process) prepare() *loadpb.PrepareStats {
	p.t.Helper()
	p.send(&enginepb.EngineCommand{Command: &enginepb.EngineCommand_Prepare{Prepare: &enginepb.Prepare{}}})
	return p.until(func(f *enginepb.EngineFrame) bool { return f.GetPrepared() != nil }).GetPrepared()
}

// refused sends PREPARE and returns why it has failed.
func (p *process) refused() *loadpb.Error {
	p.t.Helper()
	p.send(&enginepb.EngineCommand{Command: &enginepb.EngineCommand_Prepare{Prepare: &enginepb.Prepare{}}})
	return p.until(func(f *enginepb.EngineFrame) bool { return f.GetFailed() != nil }).GetFailed()
}

func (p *process) run(at int64) {
	p.t.Helper()
	p.send(&enginepb.EngineCommand{Command: &enginepb.EngineCommand_Run{Run: &enginepb.Run{StartMonotonicNs: at}}})
}

// finished returns the intervals and the end of a run.
func (p *process) finished() (intervals []*loadpb.Interval, started *loadpb.Started, f *enginepb.Finished) {
	p.t.Helper()
	f = p.until(func(f *enginepb.EngineFrame) bool {
		if i := f.GetInterval(); i != nil {
			intervals = append(intervals, i)
		}
		if s := f.GetStarted(); s != nil {
			started = s
		}
		return f.GetFinished() != nil
	}).GetFinished()
	return intervals, started, f
}

func (p *process) clean() *loadpb.CleanupReport {
	p.t.Helper()
	p.send(&enginepb.EngineCommand{Command: &enginepb.EngineCommand_Cleanup{Cleanup: &enginepb.Cleanup{}}})
	return p.until(func(f *enginepb.EngineFrame) bool { return f.GetCleaned() != nil }).GetCleaned()
}

// wait closes stdin and returns the exit code.
func (p *process) wait() int {
	p.t.Helper()
	_ = p.stdin.Close()
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// newJob returns a job of one agent in a root of its own.
func newJob(t testing.TB, config string) Job {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	return Job{Config: config, RunID: "01RUN", AgentCount: 1, Root: root, Manifest: filepath.Join(dir, "manifest")}
}

// perform runs a job from its beginning to its end and cleans up.
func perform(t testing.TB, job Job) ([]*loadpb.Interval, *enginepb.Finished) {
	t.Helper()
	p := start(t, job)
	p.prepare()
	p.run(soon())
	intervals, _, f := p.finished()
	left(t, job, p.clean())
	if code := p.wait(); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.errors)
	}
	return intervals, f
}

// left fails if a cleaned up root has anything.
func left(t testing.TB, job Job, report *loadpb.CleanupReport) {
	t.Helper()
	if report.GetLeftFiles() > 0 || len(report.GetErrors()) > 0 {
		t.Errorf("the cleanup has left %v", report)
	}
	found, err := filepath.Glob(filepath.Join(job.Root, "*"))
	if err != nil || len(found) > 0 {
		t.Errorf("left in the root: %v %v", found, err)
	}
}

// soon is a start time a little ahead.
func soon() int64 {
	c := newClock()
	return c.now() + int64(20*time.Millisecond)
}

// total returns the statistics of one operation.
func total(t testing.TB, f *enginepb.Finished, operation string) (operations, bytes, errors uint64) {
	t.Helper()
	for _, o := range f.GetTotals() {
		if o.GetOperation() == operation {
			operations += o.GetOperations()
			bytes += o.GetBytes()
			for _, n := range o.GetErrors() {
				errors += n
			}
		}
	}
	return operations, bytes, errors
}

// memory returns a folder in memory.
func memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pawl-test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
