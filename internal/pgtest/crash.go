package pgtest

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Kill ends the server and every process of it by signal 9, as a crash of the
// machine would but for the disk's cache. Restart brings it back.
func (c *Cluster) Kill() {
	if c.server == nil {
		return
	}
	postmaster := c.server.Process
	_ = postmaster.Signal(syscall.SIGSTOP) // it makes no more processes
	for _, pid := range children(postmaster.Pid) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = postmaster.Kill()
	<-c.exited
	c.server = nil
}

// Restart starts the server again on the same data and port after Kill, and
// waits until it has recovered and answers.
func (c *Cluster) Restart(ctx context.Context) error { return c.serve(ctx) }

// children answers the processes that a process has started, where /proc tells.
// Elsewhere there are none: those of PostgreSQL then end by themselves.
func children(parent int) []int {
	var pids []int
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		b, _ := os.ReadFile(path)
		_, rest, _ := strings.Cut(string(b), ") ") // the name of the program may hold blanks
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[1] != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}
