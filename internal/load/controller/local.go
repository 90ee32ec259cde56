package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/internal/sleep"

	"github.com/pawl-dev/pawl"
)

const (
	localStart = 15 * time.Second // for a local agent to listen
	localStop  = 10 * time.Second // for it to end, until it is killed
	localPause = 10 * time.Millisecond
	maxSaid    = 4 << 10 // bytes of what an agent that does not come up has printed
)

// Local is agents on this machine that live as long as one run. When this process dies, for any
// reason, the kernel ends them (on Linux): they end their run and clean up.
type Local struct {
	Targets  []Target
	agents   []*localAgent
	patience time.Duration // for an agent to end, until it is killed
}

// A KilledError says which local agents did not end in time and were killed. What their run had
// created may still be there; their state says what that is.
type KilledError struct {
	Names []string
	After time.Duration
}

func (e *KilledError) Error() string {
	return fmt.Sprintf("agent %s did not end within %s and was killed", strings.Join(e.Names, ", "), e.After)
}

// A localAgent is one of the processes.
type localAgent struct {
	name string
	cmd  *exec.Cmd
	said tail
	done chan struct{} // closed when it has ended
}

// LocalAgents starts agents, with the program pawl, that have their folders in a temporary one; end
// ends them and removes it (clearLocal). They work beneath root, or in that folder if it is empty, and
// may use the parts of buckets that stores has, as the flag --s3 of an agent names them.
func LocalAgents(ctx context.Context, n int, program, root string, stores []string) (_ []Target, end func() error, err error) {
	dir, err := os.MkdirTemp("", "pawl-load-") // short: it has sockets
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	if root == "" {
		root = filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o700); err != nil {
			return nil, nil, errors.Join(err, remove())
		}
	}
	l, err := StartLocal(ctx, n, dir, io.Discard, func(id, listen, state string) []string {
		return append([]string{program, "agent", "--listen", listen, "--id", id, "--state-dir", state}, roots(root, stores)...)
	})
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return l.Targets, func() error { return clearLocal(dir, root, stores, l.Stop()) }, nil
}

// clearLocal removes the folder of local agents that have been stopped with that error. If one was
// killed that works elsewhere, its state stays: it says what it has left there.
func clearLocal(dir, root string, stores []string, stopped error) error {
	var killed *KilledError
	if !errors.As(stopped, &killed) || root == filepath.Join(dir, "root") && len(stores) == 0 {
		return errors.Join(stopped, os.RemoveAll(dir))
	}
	return &pawl.Error{Kind: pawl.Internal, Message: "files of the run may be left in " + strings.Join(append([]string{root}, stores...), ", "), Err: stopped,
		Hint: fmt.Sprintf("pawl agent --state-dir %s %s deletes them", filepath.Join(dir, killed.Names[0], "state"), strings.Join(roots(root, stores), " "))}
}

// roots returns the flags of an agent that say what it may use.
func roots(root string, stores []string) []string {
	flags := []string{"--root", root}
	for _, s := range stores {
		flags = append(flags, "--s3", s)
	}
	return flags
}

// StartLocal starts agents and waits until they listen. Each has a folder of its own in dir, with
// its socket and its state; command returns the command line of an agent.
func StartLocal(ctx context.Context, n int, dir string, out io.Writer, command func(id, listen, state string) []string) (*Local, error) {
	l := &Local{patience: localStop}
	for i := range n {
		id := "local-" + strconv.Itoa(i+1)
		own := filepath.Join(dir, id)
		if err := os.MkdirAll(own, 0o700); err != nil {
			return nil, errors.Join(err, l.Stop())
		}
		listen := "unix:" + filepath.Join(own, "socket")
		a := &localAgent{name: id, done: make(chan struct{})}
		if err := a.start(command(id, listen, filepath.Join(own, "state")), out); err != nil {
			return nil, errors.Join(fmt.Errorf("start agent %s: %w", id, err), l.Stop())
		}
		l.agents = append(l.agents, a)
		options, err := Credentials{}.Options(listen)
		if err != nil {
			return nil, errors.Join(err, l.Stop())
		}
		l.Targets = append(l.Targets, Target{Name: id, Address: listen, Options: options})
	}
	for i, a := range l.agents {
		if err := a.wait(ctx, strings.TrimPrefix(l.Targets[i].Address, "unix:")); err != nil {
			return nil, errors.Join(fmt.Errorf("agent local-%d: %w", i+1, err), l.Stop())
		}
	}
	return l, nil
}

// start starts the process from a thread that lives as long as it does: the kernel ends it when
// that thread dies.
func (a *localAgent) start(argv []string, out io.Writer) error {
	a.cmd = exec.Command(argv[0], argv[1:]...)
	a.cmd.Stdout, a.cmd.Stderr = io.MultiWriter(out, &a.said), io.MultiWriter(out, &a.said)
	a.cmd.SysProcAttr = localAttributes()
	started := make(chan error)
	go pinned(func() {
		err := a.cmd.Start()
		started <- err
		if err == nil {
			_ = a.cmd.Wait() // it says itself what is wrong
		}
		close(a.done)
	})
	return <-started
}

// wait waits until the agent listens.
func (a *localAgent) wait(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, localStart)
	defer cancel()
	for {
		c, err := net.Dial("unix", socket)
		if err == nil {
			return c.Close()
		}
		select {
		case <-a.done:
			return fmt.Errorf("it has ended: %s", strings.TrimSpace(a.said.String()))
		default:
		}
		if !sleep.For(ctx, localPause) {
			return fmt.Errorf("it does not listen: %w", err)
		}
	}
}

// Stop ends the agents, and waits until they have ended. It may be called again. The error is a
// *KilledError.
func (l *Local) Stop() error {
	var killed []string
	ctx, cancel := context.WithTimeout(context.Background(), l.patience)
	defer cancel()
	for _, a := range l.agents {
		_ = a.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
	for _, a := range l.agents {
		if !a.ended(ctx) {
			killed = append(killed, a.name)
			_ = a.cmd.Process.Kill()
			<-a.done
		}
	}
	if len(killed) > 0 {
		return &KilledError{killed, l.patience}
	}
	return nil
}

// ended waits until the agent has ended, and reports false if ctx ends first.
func (a *localAgent) ended(ctx context.Context) bool {
	select {
	case <-a.done:
		return true
	case <-ctx.Done():
	}
	select {
	case <-a.done: // at the same time
		return true
	default:
		return false
	}
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Write(p)
	t.b.Next(max(0, t.b.Len()-maxSaid))
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
