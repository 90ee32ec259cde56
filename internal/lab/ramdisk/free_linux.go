package ramdisk

import (
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// folder is where Linux has a file system in memory, which any user may write to.
const folder = "/dev/shm"

// free returns how many bytes can be written to the file system in memory; 0 if there is none or
// no program can be run from it. Its own limit promises nothing: it may be as large as the memory.
func free() uint64 {
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil || s.Type != unix.TMPFS_MAGIC || s.Flags&unix.ST_NOEXEC != 0 {
		return 0
	}
	return min(s.Bavail*uint64(s.Bsize), memory(os.DirFS("/")))
}

// memory returns how much memory this process can still use: what is available on the machine, and no
// more than its control group and those above it leave (version 2). What cannot be read is 0 on the
// machine and no limit in a group.
func memory(root fs.FS) uint64 {
	least := number(root, "proc/meminfo", "MemAvailable:", 0) << 10
	own, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range strings.Lines(string(own)) {
		if group, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			const top = "sys/fs/cgroup"
			for dir := path.Join(top, path.Join("/", group)); strings.HasPrefix(dir, top); dir = path.Dir(dir) {
				least = min(least, left(root, dir))
			}
		}
	}
	return least
}

// left returns what a control group leaves of its limit. Its cache of files can be reclaimed.
func left(root fs.FS, dir string) uint64 {
	const none = 1<<64 - 1
	limit := number(root, dir+"/memory.max", "", none) // "max" is none
	used := number(root, dir+"/memory.current", "", 0)
	cache := number(root, dir+"/memory.stat", "active_file ", 0) + number(root, dir+"/memory.stat", "inactive_file ", 0)
	return limit - min(limit, used-min(used, cache))
}

// number reads the number behind a name, or the first word of a file if the name is empty.
func number(root fs.FS, file, name string, otherwise uint64) uint64 {
	text, _ := fs.ReadFile(root, file)
	_, behind, _ := strings.Cut("\n"+string(text), "\n"+name)
	words := strings.Fields(behind)
	if len(words) == 0 {
		return otherwise
	}
	n, err := strconv.ParseUint(words[0], 10, 64)
	if err != nil {
		return otherwise
	}
	return n
}
