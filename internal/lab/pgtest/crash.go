package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Kill ends the server and all its processes by signal 9, like a crash of the machine except
// that the disk's cache survives. Restart starts it again.
func (c *Cluster) Kill() {
	if c.server == nil {
		return
	}
	postmaster := c.server.Process
	_ = postmaster.Signal(syscall.SIGSTOP) // it starts no more processes
	own := children(postmaster.Pid)
	for _, pid := range own {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = postmaster.Kill()
	<-c.exited
	c.server = nil
	for _, pid := range own {
		outlive(pid)
	}
}

// Pause stops every process of the server: connections are accepted but get no reply. Resume
// continues them.
func (c *Cluster) Pause() { c.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (c *Cluster) Resume() { c.signal(syscall.SIGCONT) }

// signal sends a signal to the server, and then to its other processes: while the server is
// stopped it starts no more of them.
func (c *Cluster) signal(s syscall.Signal) {
	postmaster := c.server.Process
	_ = postmaster.Signal(s)
	for _, pid := range children(postmaster.Pid) {
		_ = syscall.Kill(pid, s)
	}
}

// outlive waits for the end of a process that was killed: while one holds the shared
// memory, the server does not start again.
func outlive(pid int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if parent, state := stat(fmt.Sprintf("/proc/%d/stat", pid)); parent == "" || state == "Z" {
			return
		}
		<-tick.C
	}
}

// Restart starts the server again on the same data and port after Kill, and waits until it has
// recovered.
func (c *Cluster) Restart(ctx context.Context) error { return c.serve(ctx) }

// children returns the child processes of a process, according to /proc. On systems without
// /proc it returns none: PostgreSQL's processes then end by themselves.
func children(parent int) []int {
	var pids []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if of, _ := stat(path); of != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stat reads from a process's file in /proc its parent and its state, empty if it is gone.
func stat(path string) (parent, state string) {
	b, _ := os.ReadFile(path)
	_, rest, _ := strings.Cut(string(b), ") ") // the name of the program may hold blanks
	if fields := strings.Fields(rest); len(fields) > 1 {
		return fields[1], fields[0]
	}
	return "", ""
}
