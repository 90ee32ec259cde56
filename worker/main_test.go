package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
	"go.uber.org/goleak"
)

// The test binary stands in for programs that steps run: "program NAME ARG...".
var programs = map[string]func(args []string){
	"env":    printEnviron,
	"args":   printArgs,
	"flood":  flood,
	"block":  block,
	"escape": escape,
	"hold":   hold,
	"host":   host,
}

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "program" {
		programs[os.Args[2]](os.Args[3:])
		return
	}
	goleak.VerifyTestMain(m)
}

// program returns the argv that runs one of programs.
func program(name string, args ...string) []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return append([]string{self, "program", name}, args...)
}

func printEnviron([]string) {
	env := os.Environ()
	slices.Sort(env)
	_ = json.NewEncoder(os.Stdout).Encode(env)
}

func printArgs(args []string) { _ = json.NewEncoder(os.Stdout).Encode(args) }

// flood prints so many MiB without a newline.
func flood(args []string) {
	n, _ := strconv.Atoi(args[0])
	mib := make([]byte, 1<<20)
	for i := range mib {
		mib[i] = 'x'
	}
	for range n {
		_, _ = os.Stdout.Write(mib)
	}
}

// block says ready and stays, whatever SIGTERM says.
func block([]string) {
	signal.Ignore(syscall.SIGTERM)
	fmt.Println("ready")
	select {}
}

// escape starts a process in a session of its own that keeps the output open,
// prints its number and ends.
func escape([]string) {
	argv := program("block")
	c := exec.Command(argv[0], argv[1:]...)
	c.Stdout = os.Stdout
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := c.Start(); err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stderr, c.Process.Pid)
}

// hold opens a named pipe for writing, says ready and stays.
func hold(args []string) {
	f, err := os.OpenFile(args[0], os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	defer f.Close() // keeps it from being collected
	signal.Ignore(syscall.SIGTERM)
	fmt.Println("ready")
	select {}
}

// host runs hold as a step, with args[0] as the folder of temporary ones, and
// shows what it prints.
func host(args []string) {
	log := NewLog(LogConfig{Tee: func(_ string, p []byte) { _, _ = os.Stdout.Write(p) }})
	Command(CommandConfig{TempDir: args[0]})(context.Background(), &Task{
		Work: &workflow.Work{Kind: workflow.KindCommand, Argv: program("hold", args[1])},
		Log:  log,
	})
}

// A printout is the log of a task under test.
type printout struct {
	*Log
	mu    sync.Mutex
	text  map[string]string
	await map[string]chan struct{} // closed when the line was printed to stdout
}

func newPrintout(t *testing.T, lines ...string) *printout {
	t.Helper()
	p := &printout{text: map[string]string{}, await: map[string]chan struct{}{}}
	for _, line := range lines {
		p.await[line] = make(chan struct{})
	}
	p.Log = NewLog(LogConfig{Tee: p.tee})
	t.Cleanup(func() { _ = p.Close(context.Background()) })
	return p
}

func (p *printout) tee(stream string, b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text[stream] += string(b)
	for line, c := range p.await {
		if stream == Stdout && slices.Contains(lines(p.text[Stdout]), line) {
			close(c)
			delete(p.await, line)
		}
	}
}

func (p *printout) of(stream string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text[stream]
}

func lines(text string) []string {
	var l []string
	_ = json.Unmarshal(source{bytes: []byte(text), limit: 1 << 30}.lines([]byte(text)).Output, &l)
	return l
}

func argv(args ...string) *workflow.Work {
	return &workflow.Work{Kind: workflow.KindCommand, Argv: args}
}

func script(text string) *workflow.Work {
	return &workflow.Work{Kind: workflow.KindRun, Script: text}
}

// newTask returns a task in a folder of its own.
func newTask(t *testing.T, w *workflow.Work) *Task {
	t.Helper()
	return &Task{JobID: "j_1", StepID: "st_1", Key: "load[3]", Attempt: 2, Claim: 4, Work: w, BaseDir: t.TempDir()}
}

// execute runs the task by Command, and looks after its temporary folder.
func execute(t *testing.T, ctx context.Context, task *Task) Result {
	t.Helper()
	temp := t.TempDir()
	r := Command(CommandConfig{TempDir: temp})(ctx, task)
	left, err := os.ReadDir(temp)
	if err != nil || len(left) > 0 {
		t.Errorf("the folder of the attempt was left behind: %v %v", left, err)
	}
	if (r.Failure == nil) == (r.Output == nil) {
		t.Errorf("neither success nor failure: %+v", r)
	}
	return r
}

func wantOutput(t *testing.T, r Result, want string) {
	t.Helper()
	if r.Failure != nil {
		t.Fatalf("failed: %+v %s", r.Failure, r.Failure.Metadata)
	}
	if diff := cmp.Diff(want, string(r.Output)); diff != "" {
		t.Fatalf("output (-want +got):\n%s", diff)
	}
}

func wantFailure(t *testing.T, r Result, class string, permanent bool) *pawl.Failure {
	t.Helper()
	if r.Failure == nil {
		t.Fatalf("succeeded with %s, want %s", r.Output, class)
	}
	if r.Failure.Class != class || r.Failure.Permanent != permanent {
		t.Fatalf("failed with %+v, want class %s, permanent %v", r.Failure, class, permanent)
	}
	return r.Failure
}

// namedPipe makes a named pipe and opens it for reading. Its end is read when
// the last process that writes it has died.
func namedPipe(t *testing.T) (path string, r *os.File) {
	t.Helper()
	path = t.TempDir() + "/fifo"
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return path, r
}
