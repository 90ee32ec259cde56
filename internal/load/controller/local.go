package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/load/workload"
	"github.com/pawl-dev/pawl/internal/sleep"
)

const (
	localStart = 15 * time.Second // for a local agent to listen
	localClean = time.Minute      // for one to clean up after one that was killed
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
	After time.Duration // of the request to end; 0: it was killed by somebody else
}

func (e *KilledError) Error() string {
	if e.After == 0 {
		return fmt.Sprintf("agent %s was killed", strings.Join(e.Names, ", "))
	}
	return fmt.Sprintf("agent %s did not end within %s and was killed", strings.Join(e.Names, ", "), e.After)
}

// A localAgent is one of the processes.
type localAgent struct {
	name string
	cmd  *exec.Cmd
	said tail
	done chan struct{} // closed when it has ended
}

// localPattern is that of the folders of local agents.
const localPattern = "pawl-load-*"

// LocalAgents starts agents, with the program pawl, that have their folders in a temporary one; end
// ends them and removes it (clearLocal). They work beneath root, or in that folder if it is empty, and
// may use the parts of buckets that stores has, as the flag --s3 of an agent names them. First it
// finishes what earlier ones were killed at. The log may be nil.
func LocalAgents(ctx context.Context, n int, program, root string, stores []string, log *slog.Logger) (_ []Target, end func() error, err error) {
	sweepLocal(ctx, program, log)
	dir, err := durable.NewScratch("", localPattern) // short: it has sockets
	if err != nil {
		return nil, nil, err
	}
	if root == "" {
		root = filepath.Join(dir.Path, "root")
		if err := os.Mkdir(root, 0o700); err != nil {
			return nil, nil, errors.Join(err, dir.Remove())
		}
	}
	l, err := startLocal(ctx, n, dir.Path, io.Discard, dir.File(), func(id, listen, state string) []string {
		return agentLine(program, id, listen, state, append([]string{root}, stores...)...)
	})
	if err != nil {
		return nil, nil, errors.Join(err, dir.Remove())
	}
	return l.Targets, func() error {
		stopped := l.Stop()
		if stopped == nil { // but somebody else may have killed one
			stopped = finishAll(context.WithoutCancel(ctx), program, dir.Path)
		}
		return clearLocal(dir, root, stores, stopped)
	}, nil
}

// agentLine returns the command of an agent that may use folders, and parts of buckets by their URLs.
func agentLine(program, id, listen, state string, roots ...string) []string {
	line := []string{program, "agent", "--listen", listen, "--id", id, "--state-dir", state}
	for _, r := range roots {
		if strings.Contains(r, "://") {
			line = append(line, "--s3", r)
		} else {
			line = append(line, "--root", r)
		}
	}
	return line
}

// clearLocal removes the folder of local agents that have been stopped with that error. If one was
// killed that works elsewhere, its state stays: it says what it has left there.
func clearLocal(dir *durable.Scratch, root string, stores []string, stopped error) error {
	var killed *KilledError
	if !errors.As(stopped, &killed) || root == filepath.Join(dir.Path, "root") && len(stores) == 0 {
		return errors.Join(stopped, dir.Remove())
	}
	dir.Leave()
	hint := "the next pawl load run with local agents deletes them, and so does: pawl agent --state-dir " + filepath.Join(dir.Path, killed.Names[0], "state") + " --root " + root
	for _, s := range stores {
		hint += " --s3 '" + s + "'"
	}
	return &pawl.Error{Kind: pawl.Internal, Message: "files of the run may be left in " + strings.Join(append([]string{root}, stores...), ", "), Err: stopped, Hint: hint}
}

// sweepLocal removes the folders of local agents that have ended without their controller. What
// those had created that were killed, too, is deleted first.
func sweepLocal(ctx context.Context, program string, log *slog.Logger) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	durable.SweepScratch(os.TempDir(), localPattern, func(dir string) bool {
		if err := finishAll(ctx, program, dir); err != nil {
			log.Warn("what a local agent that was killed had created cannot be deleted", "error", err, "state", dir)
			return true
		}
		return false
	})
}

// finishAll cleans up after the local agents of a folder that were killed. The error is a
// *KilledError, within others.
func finishAll(ctx context.Context, program, dir string) (err error) {
	for state, root := range unfinished(dir) {
		if e := finishLocal(ctx, program, state, root); e != nil {
			name := filepath.Base(filepath.Dir(state))
			err = errors.Join(err, fmt.Errorf("clean up in %s: %w: %w", root, &KilledError{Names: []string{name}}, e))
		}
	}
	return err
}

// unfinished returns the state folders of local agents that have runs to clean up, with the root of
// each. What is in the folder of the agents goes with it.
func unfinished(dir string) map[string]string {
	jobs, _ := filepath.Glob(filepath.Join(dir, "local-*", "state", "runs", "*", "job.json")) // the pattern is well-formed
	found := map[string]string{}
	for _, name := range jobs {
		var job workload.Job
		if b, err := os.ReadFile(name); err == nil && json.Unmarshal(b, &job) == nil && job.Root != filepath.Join(dir, "root") {
			found[filepath.Dir(filepath.Dir(filepath.Dir(name)))] = job.Root
		}
	}
	return found
}

// finishLocal has an agent clean up what one before it has left: it does so before it listens.
func finishLocal(ctx context.Context, program, state, root string) error {
	own := filepath.Dir(state)
	socket := filepath.Join(own, "socket")
	a := &localAgent{name: filepath.Base(own), done: make(chan struct{})}
	if err := a.start(agentLine(program, a.name, "unix:"+socket, state, root), io.Discard, nil); err != nil {
		return err
	}
	l := &Local{agents: []*localAgent{a}, patience: localStop}
	if err := errors.Join(a.serves(ctx, "unix:"+socket), l.Stop()); err != nil {
		return err
	}
	if _, left := unfinished(filepath.Dir(own))[state]; left {
		return errors.New("not everything could be deleted")
	}
	return nil
}

// StartLocal starts agents and waits until they listen. Each has a folder of its own in dir, with
// its socket and its state; command returns the command line of an agent.
func StartLocal(ctx context.Context, n int, dir string, out io.Writer, command func(id, listen, state string) []string) (*Local, error) {
	return startLocal(ctx, n, dir, out, nil, command)
}

// startLocal has the agents inherit a file, too, if it is not nil.
func startLocal(ctx context.Context, n int, dir string, out io.Writer, held *os.File, command func(id, listen, state string) []string) (*Local, error) {
	l := &Local{patience: localStop}
	for i := range n {
		id := "local-" + strconv.Itoa(i+1)
		own := filepath.Join(dir, id)
		if err := os.MkdirAll(own, 0o700); err != nil {
			return nil, errors.Join(err, l.Stop())
		}
		listen := "unix:" + filepath.Join(own, "socket")
		a := &localAgent{name: id, done: make(chan struct{})}
		if err := a.start(command(id, listen, filepath.Join(own, "state")), out, held); err != nil {
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
func (a *localAgent) start(argv []string, out io.Writer, held *os.File) error {
	a.cmd = exec.Command(argv[0], argv[1:]...)
	a.cmd.Stdout, a.cmd.Stderr = io.MultiWriter(out, &a.said), io.MultiWriter(out, &a.said)
	a.cmd.SysProcAttr = localAttributes()
	if held != nil {
		a.cmd.ExtraFiles = []*os.File{held}
	}
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

// serves waits until the agent has cleaned up, and serves.
func (a *localAgent) serves(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, localClean)
	defer cancel()
	for {
		_, err := Inspect(ctx, address, Credentials{})
		if err == nil {
			return nil
		}
		select {
		case <-a.done:
			return fmt.Errorf("it has ended: %s", strings.TrimSpace(a.said.String()))
		default:
		}
		if !sleep.For(ctx, localPause) {
			return fmt.Errorf("it still cleans up after %s", localClean)
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
