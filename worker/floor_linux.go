package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// measure returns the memory of the machine and of this process's control group,
// if that has a limit, and the disks of the folders.
func measure(folders []string) []Room {
	rooms := []Room{machineMemory(), groupMemory()}
	for _, folder := range folders {
		var s syscall.Statfs_t
		if err := syscall.Statfs(folder, &s); err == nil {
			rooms = append(rooms, Room{"the disk of " + folder, s.Bavail * uint64(s.Bsize), s.Blocks * uint64(s.Bsize)})
		}
	}
	return rooms
}

func machineMemory() Room {
	text, _ := os.ReadFile("/proc/meminfo") // on an error nothing is known
	return Room{"the memory", field(text, "MemAvailable:"), field(text, "MemTotal:")}
}

// groupMemory reads the control group's limit (version 2). Its cache can be reclaimed,
// so it counts as free.
func groupMemory() Room {
	own, err := os.ReadFile("/proc/self/cgroup")
	path, found := strings.CutPrefix(strings.TrimSpace(string(own)), "0::")
	if err != nil || !found {
		return Room{}
	}
	dir := filepath.Join("/sys/fs/cgroup", path)
	limit, used := number(dir, "memory.max"), number(dir, "memory.current")
	stat, err := os.ReadFile(filepath.Join(dir, "memory.stat"))
	if err != nil || limit == 0 {
		return Room{} // no limit, or not readable
	}
	used -= min(used, field(stat, "inactive_file"))
	return Room{"the memory of its control group", limit - min(limit, used), limit}
}

// number reads a file of one number; 0 is none.
func number(dir, file string) uint64 {
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64) // "max" is none
	return n
}

// field reads the number behind a name, in bytes.
func field(text []byte, name string) uint64 {
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != name {
			continue
		}
		n, err := strconv.ParseUint(words[1], 10, 64)
		if err == nil && len(words) == 3 && words[2] == "kB" {
			n *= 1024
		}
		return n
	}
	return 0
}
