package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A member is one process of the system under test: it is started, hit, and restarted, always
// under the same name.
type member struct {
	name, role string
	argv       []string
	env        []string
	dir        string // of its logs
	host       *host
	proxy      *proxy // to the database; nil on SQLite
	sign       string // what its log says once it has started to work; empty: as pawl does

	pain sync.Mutex // held by the fault applied to it

	mu      sync.Mutex // guards what follows
	life    int        // counts the starts
	cmd     *exec.Cmd
	exited  chan struct{} // closed when the process of this life has ended
	doomed  bool          // its end is intended
	crashes []error       // unintended ends, in all lives
}

func (m *member) String() string { return m.name }

// start starts the process anew.
func (m *member) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.life++
	m.doomed = false
	log, err := os.Create(m.log())
	if err != nil {
		return err
	}
	defer log.Close()
	m.cmd = exec.Command(m.argv[0], m.argv[1:]...)
	m.cmd.Env, m.cmd.Dir, m.cmd.Stderr, m.cmd.Stdout = m.env, m.dir, log, log
	m.cmd.SysProcAttr = attributes()
	m.exited = make(chan struct{})
	return m.host.start(m.cmd, m.exited)
}

// log returns the path of this life's log.
func (m *member) log() string { return filepath.Join(m.dir, fmt.Sprintf("%s-%d.log", m.name, m.life)) }

func (m *member) pid() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cmd.Process.Pid
}

// signal sends a signal to the process alone, not to its children.
func (m *member) signal(s syscall.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.cmd.Process.Signal(s) // one that has ended is found to have by whoever waits
}

// kill ends the process by signal 9 and waits until it is gone.
func (m *member) kill() {
	m.doom()
	m.signal(syscall.SIGKILL)
	<-m.done()
	m.bury()
}

// stop asks the process to end, and waits for at most bound.
func (m *member) stop(bound time.Duration) error {
	m.doom()
	m.signal(syscall.SIGTERM)
	t := time.NewTimer(bound)
	defer t.Stop()
	select {
	case <-m.done():
		m.bury()
		return nil
	case <-t.C:
		m.signal(syscall.SIGQUIT) // its log then shows what it is doing
		return fmt.Errorf("%s has not ended %s after SIGTERM, see %s", m.name, bound, m.log())
	}
}

// doom marks the end of the process as intended, unless it has ended already.
func (m *member) doom() {
	if !m.running() {
		m.bury()
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.doomed = true
}

func (m *member) done() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.exited
}

func (m *member) running() bool {
	select {
	case <-m.done():
		return false
	default:
		return true
	}
}

// Exit codes of pawl that say something here.
const (
	exitOK          = 0
	exitUnavailable = 6   // it could not reach the database when it started
	exitInterrupted = 130 // it was asked to end before it had started
)

// bury checks how a process has ended, and records anything wrong with it.
func (m *member) bury() {
	m.mu.Lock()
	defer m.mu.Unlock()
	code, early := m.cmd.ProcessState.ExitCode(), !m.ready()
	switch {
	case m.doomed && (code == exitOK || code == -1):
	case early && (code == exitUnavailable || m.says("no space left", "is full")), early && m.doomed && code == exitInterrupted:
	default:
		m.crashes = append(m.crashes, fmt.Errorf("%s ended by itself or not well: %s, see %s", m.name, m.cmd.ProcessState, m.log()))
	}
	m.doomed = true // and it is buried once
}

// revive restarts a process that has ended, unless it must not end. It reports whether the
// process runs and has started to work.
func (m *member) revive() (bool, error) {
	if !m.running() {
		m.doom()
		return false, m.start()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready(), nil
}

// crashed returns all unintended ends.
func (m *member) crashed() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.crashes...)
}

// ready reports whether this life of the process has started to work.
func (m *member) ready() bool { return m.says(cmp.Or(m.sign, "stop with Ctrl-C")) }

// says reports whether the log of this life contains one of the texts.
func (m *member) says(texts ...string) bool {
	b, err := os.ReadFile(m.log())
	return err == nil && slices.ContainsFunc(texts, func(t string) bool { return bytes.Contains(b, []byte(t)) })
}

// faults are texts that no log may contain.
var faults = [][]byte{[]byte("panic:"), []byte("pawl has a bug"), []byte("fatal error:"), []byte("DATA RACE"), []byte("Traceback (most recent call last)")}

// faultsInLogs searches the logs of all lives.
func faultsInLogs(dir string) error {
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	var found []error
	for _, path := range logs {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, f := range faults {
			if i := bytes.Index(b, f); i >= 0 {
				found = append(found, fmt.Errorf("%s: %s", path, bytes.SplitN(b[i:], []byte("\n"), 2)[0]))
			}
		}
	}
	return errors.Join(append(found, err)...)
}
