package agent

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// Info returns what the agent is.
func (a *Agent) Info() *loadpb.AgentInfo {
	host, _ := os.Hostname() // without it, the id says who it is
	i := &loadpb.AgentInfo{Id: a.config.ID, Hostname: host, Pid: int32(os.Getpid()), Cpus: uint32(runtime.NumCPU()), Build: a.config.Build, Engines: a.engines,
		BootId:      firstLine("/proc/sys/kernel/random/boot_id"),
		ClockSource: firstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
		MemoryBytes: memory(), Kernel: kernel()}
	for _, r := range a.config.Roots {
		i.Roots = append(i.Roots, &loadpb.Root{Path: r.Path, FreeBytes: free(r.Path), LimitBytes: r.Bytes, LimitFiles: r.Files})
	}
	for _, s := range a.config.Stores {
		i.Roots = append(i.Roots, &loadpb.Root{Path: s.Path, LimitBytes: s.Bytes, LimitFiles: s.Files})
	}
	return i
}

// firstLine returns the first line of a file, empty where there is none.
func firstLine(path string) string {
	b, _ := os.ReadFile(path)
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// memory returns how many bytes of memory the machine has, 0 if it does not say.
func memory() uint64 {
	kib := uint64(0)
	_, _ = fmt.Sscanf(firstLine("/proc/meminfo"), "MemTotal: %d kB", &kib)
	return kib << 10
}

func kernel() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return runtime.GOOS
	}
	return unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
}

// free returns how many bytes the agent may still write to the file system of a folder, 0 if that
// is not known.
func free(path string) uint64 {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return 0
	}
	return uint64(s.Bavail) * uint64(s.Bsize)
}
