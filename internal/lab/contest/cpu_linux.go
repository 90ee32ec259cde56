package contest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticksPerSecond is the unit of /proc/PID/stat: USER_HZ, 100 on every Linux.
const ticksPerSecond = 100

// Used returns the CPU time of this process and of the workers, and of the server unless
// postmaster is 0. The time of workers and server includes their children, also those that
// have ended.
func Used(postmaster int, workers ...int) CPU {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r) // fails only for other arguments
	c := CPU{Client: time.Duration(r.Utime.Nano() + r.Stime.Nano()).Seconds()}
	for _, pid := range workers {
		c.Client += family(pid)
	}
	if postmaster != 0 {
		c.Server = family(postmaster)
	}
	return c
}

// family returns the time of a process and its children, also those that have ended.
func family(pid int) (seconds float64) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		f, err := fields(path)
		if err != nil {
			continue // it has ended
		}
		own := filepath.Dir(path) == fmt.Sprintf("/proc/%d", pid)
		if own || f[parent] == int64(pid) {
			seconds += float64(f[user]+f[system]) / ticksPerSecond
		}
		if own {
			seconds += float64(f[endedUser]+f[endedSystem]) / ticksPerSecond
		}
	}
	return seconds
}

// The fields of /proc/PID/stat, counted from the state, which follows the name.
const (
	parent      = 1
	user        = 11
	system      = 12
	endedUser   = 13
	endedSystem = 14
)

func fields(path string) ([endedSystem + 1]int64, error) {
	var f [endedSystem + 1]int64
	b, err := os.ReadFile(path)
	if err != nil {
		return f, err
	}
	_, after, _ := strings.Cut(string(b[strings.LastIndexByte(string(b), ')'):]), " ") // a name may have spaces
	words := strings.Fields(after)
	if len(words) < len(f) {
		return f, fmt.Errorf("%s: %d fields", path, len(words))
	}
	for i := 1; i < len(f); i++ {
		f[i], _ = strconv.ParseInt(words[i], 10, 64) // numbers, by proc(5)
	}
	return f, nil
}

// Postmaster returns the parent of a PostgreSQL backend on this machine, or 0 if there is no
// such process.
func Postmaster(backend int) int {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", backend))
	if err != nil || !strings.HasPrefix(string(name), "postgres") {
		return 0
	}
	f, err := fields(fmt.Sprintf("/proc/%d/stat", backend))
	if err != nil {
		return 0
	}
	return int(f[parent])
}
