package controller

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	After time.Duration // of the request to end
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

// localPattern is that of the folders of local agents.
const localPattern = "pawl-load-*"

// localPrefix is that of the names of local agents, and of their folders.
const localPrefix = "local-"

// LocalAgents starts agents, with the program pawl, that have their folders in a temporary one; end
// ends them and removes it (clearLocal), and gives up cleaning up after one that has died when its
// context ends. They work beneath root, or in that folder if it is empty, and may use the parts of
// buckets that stores has, as the flag --s3 of an agent names them. First it finishes what earlier ones
// were killed at. The log may be nil.
func LocalAgents(ctx context.Context, n int, program, root string, stores []string, log *slog.Logger) (_ []Target, end func(context.Context) error, err error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
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
	return l.Targets, func(ctx context.Context) error {
		stopped := l.Stop()
		if stopped == nil {
			stopped = finishAll(ctx, program, dir.Path, log, l.died)
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

// clearLocal removes the folder of local agents that have been stopped with that error. If a run of
// theirs is not cleaned up, their state stays: it says what is left.
func clearLocal(dir *durable.Scratch, root string, stores []string, stopped error) error {
	left, err := unfinished(dir.Path)
	if err == nil && len(left) == 0 {
		return errors.Join(stopped, dir.Remove())
	}
	dir.Leave()
	if stopped == nil {
		stopped = err
	}
	e := &pawl.Error{Kind: pawl.Internal, Message: "files of the run may be left in " + strings.Join(append([]string{root}, stores...), ", "), Err: stopped}
	if len(left) > 0 {
		e.Hint = "the next pawl load run with local agents deletes them, and so does: pawl agent --state-dir " + left[0].state + " --root " + root
		for _, s := range stores {
			e.Hint += " --s3 '" + s + "'"
		}
	}
	return e
}

// sweepLocal removes the folders of local agents that have ended without their controller. What
// those had created that were killed, too, is deleted first.
func sweepLocal(ctx context.Context, program string, log *slog.Logger) {
	durable.SweepScratch(os.TempDir(), localPattern, func(dir string) bool {
		err := finishAll(ctx, program, dir, log, nil)
		if err != nil {
			log.Warn("what earlier local agents had created cannot be deleted; the next run with local agents tries it again, unless their folder is removed", "error", err, "folder", dir)
		}
		return err != nil
	})
}

// finishAll cleans up after the local agents of a folder, those of which died says why, or all.
func finishAll(ctx context.Context, program, dir string, log *slog.Logger, died func(name string) error) error {
	all, err := unfinished(dir)
	for _, left := range all {
		var why error
		if died != nil {
			if why = died(left.agent()); why == nil { // it has done what it could
				continue
			}
		}
		if e := finishLocal(ctx, program, left, log); e != nil {
			err = errors.Join(err, why, fmt.Errorf("clean up in %s: %w", left.root, e))
		}
	}
	return err
}

// A leftover is the state of a local agent that has a run to clean up.
type leftover struct{ state, root string }

func (l leftover) agent() string { return filepath.Base(filepath.Dir(l.state)) }

// unfinished returns what is left to clean up after the local agents of a folder. What is in that folder
// goes with it. With an error there may be more.
func unfinished(dir string) (all []leftover, err error) {
	agents, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, a := range agents {
		if !strings.HasPrefix(a.Name(), localPrefix) {
			continue
		}
		state := filepath.Join(dir, a.Name(), "state")
		root, e := unfinishedRoot(state, filepath.Join(dir, "root"))
		if err = errors.Join(err, e); root != "" {
			all = append(all, leftover{state, root})
		}
	}
	return all, err
}

// unfinishedRoot returns the root of the run that the state of a local agent has, other than own, or "".
// An agent has had one run.
func unfinishedRoot(state, own string) (root string, err error) {
	runs, err := os.ReadDir(filepath.Join(state, "runs"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for _, run := range runs {
		var job workload.Job
		b, e := os.ReadFile(filepath.Join(state, "runs", run.Name(), "job.json"))
		if errors.Is(e, fs.ErrNotExist) { // nothing was started
			continue
		}
		if e == nil {
			e = json.Unmarshal(b, &job)
		}
		if err = errors.Join(err, e); job.Root != own {
			root = cmp.Or(job.Root, root)
		}
	}
	return root, err
}

// finishLocal has an agent clean up what one before it has left: it does so before it listens, and
// gives up by itself if it makes no progress.
func finishLocal(ctx context.Context, program string, left leftover, log *slog.Logger) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	log.Warn("a local agent has left what a run had created; it is being deleted", "agent", left.agent(), "root", left.root, "state", left.state)
	own := filepath.Dir(left.state)
	socket := filepath.Join(own, "socket")
	a := &localAgent{name: left.agent(), done: make(chan struct{})}
	if err := a.start(agentLine(program, a.name, "unix:"+socket, left.state, left.root), io.Discard, nil); err != nil {
		return err
	}
	l := &Local{agents: []*localAgent{a}, patience: localStop}
	if err := errors.Join(a.serves(ctx, "unix:"+socket), l.Stop()); err != nil {
		return err
	}
	switch again, err := unfinished(filepath.Dir(own)); {
	case err != nil:
		return err
	case slices.Contains(again, left):
		why, _, _ := strings.Cut(a.said.String(), "\n")
		return fmt.Errorf("not everything could be deleted: %s", why)
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
		id := localPrefix + strconv.Itoa(i+1)
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

// serves waits until the agent has cleaned up, and serves, or ctx ends.
func (a *localAgent) serves(ctx context.Context, address string) error {
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
			return fmt.Errorf("it was stopped while it was cleaning up: %w", context.Cause(ctx))
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

// died says how an agent has ended that has not ended by itself, or returns nil. All have ended.
func (l *Local) died(name string) error {
	for _, a := range l.agents {
		if a.name != name || a.cmd.ProcessState.ExitCode() == 0 {
			continue
		}
		return fmt.Errorf("agent %s has ended with %s", name, a.cmd.ProcessState)
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
