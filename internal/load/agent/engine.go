package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/pawl-dev/pawl/internal/load/enginepb"
	"github.com/pawl-dev/pawl/internal/load/workload"
)

const (
	maxFrame  = 64 << 20 // bytes of one frame of an engine
	maxStderr = 8 << 10  // bytes of an engine's standard error that are kept
)

// An engine does the work of a run.
type engine interface {
	// send gives it a command, and does not wait.
	send(*enginepb.EngineCommand)
	// frames are what it reports. The channel is closed when it has ended.
	frames() <-chan *enginepb.EngineFrame
	// stop makes it end: at once, or after the grace at the latest. It does not wait, and may be
	// called again.
	stop(grace time.Duration)
	// stderr returns the end of what it has written to its standard error.
	stderr() string
	// ending says how it has ended. It is called when the channel of frames is closed.
	ending() string
}

// A process is an engine in a process group of its own. It ends when its standard input does,
// with this process; on Linux the kernel kills it then, too.
type process struct {
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	out      chan *enginepb.EngineFrame
	commands chan *enginepb.EngineCommand
	errors   tail
	ended    chan struct{} // closed when it has ended
	how      string        // valid when ended is closed

	mu     sync.Mutex // guards what follows
	reaped bool       // its process group may be another's by now
	killer *time.Timer
}

// launch starts an engine. held is a file that stays open in it, so that a lock is kept.
func launch(argv []string, held *os.File, job workload.Job) (engine, error) {
	line, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), out: make(chan *enginepb.EngineFrame),
		commands: make(chan *enginepb.EngineCommand, 4), // more than a run has
		ended:    make(chan struct{})}
	p.cmd.Stderr, p.cmd.SysProcAttr, p.cmd.WaitDelay = &p.errors, attributes(), time.Second
	if held != nil {
		p.cmd.ExtraFiles = []*os.File{held}
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, w, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, p.stdin.Close())
	}
	p.cmd.Stdout = w
	started := make(chan error)
	go pinned(func() { p.run(started) })
	err = <-started
	_ = w.Close() // the engine has it
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the engine: %w", err), stdout.Close())
	}
	go p.feed(append(line, '\n'))
	go p.read(stdout)
	return p, nil
}

// run starts the process and reaps it.
func (p *process) run(started chan<- error) {
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.wait() // how it has ended is in how
	close(p.ended)
}

func (p *process) wait() error {
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	if p.killer != nil {
		p.killer.Stop()
	}
	p.how = p.cmd.ProcessState.String()
	return err
}

// feed writes the job and then commands, until the process has ended.
func (p *process) feed(job []byte) {
	_, err := p.stdin.Write(job)
	for err == nil {
		select {
		case c := <-p.commands:
			_, err = protodelim.MarshalTo(p.stdin, c)
		case <-p.ended:
			return
		}
	}
}

// read passes frames on, until the process has ended and nothing is left to read.
func (p *process) read(stdout *os.File) {
	defer close(p.out)
	defer stdout.Close()
	in := bufio.NewReaderSize(stdout, 64<<10)
	for {
		f := new(enginepb.EngineFrame)
		err := protodelim.UnmarshalOptions{MaxSize: maxFrame}.UnmarshalFrom(in, f)
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				fmt.Fprintf(&p.errors, "the engine's output is not well-formed: %v\n", err)
				p.stop(0)
			}
			<-p.ended
			return
		}
		p.out <- f
	}
}

func (p *process) send(c *enginepb.EngineCommand) {
	select {
	case p.commands <- c:
	default: // it reads nothing, and will be found to make no progress
	}
}

func (p *process) frames() <-chan *enginepb.EngineFrame { return p.out }

func (p *process) stop(grace time.Duration) {
	if grace > 0 {
		p.signal(syscall.SIGTERM)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.killer != nil {
		p.killer.Stop()
	}
	if !p.reaped {
		p.killer = time.AfterFunc(grace, func() { p.signal(syscall.SIGKILL) })
	}
}

// signal sends a signal to the process group.
func (p *process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // it may just have ended
	}
}

func (p *process) stderr() string { return p.errors.String() }

func (p *process) ending() string { return p.how }

// A tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex // guards b
	b  []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	if over := len(t.b) - maxStderr; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return text(string(t.b)) // it may begin within a character
}
