package ramdisk

import (
	"testing"
	"testing/fstest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	const meminfo = "MemTotal:       9000 kB\nMemFree:         100 kB\nMemAvailable:    800 kB\n"
	for _, c := range []struct {
		name  string
		files map[string]string
		want  uint64
	}{
		{"nothing is known", nil, 0},
		{"the machine", map[string]string{"proc/meminfo": meminfo}, 800 << 10},
		{"no limit", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/a/memory.current": "700000\n"}, 800 << 10},
		{"a limit", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "5000\n", "sys/fs/cgroup/a/memory.current": "3000\n"}, 2000},
		{"cache", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "5000\n", "sys/fs/cgroup/a/memory.current": "3000\n", "sys/fs/cgroup/a/memory.stat": "inactive_anon 9\ninactive_file 1000\nactive_file 500\n"}, 3500},
		{"more than the limit", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "5000\n", "sys/fs/cgroup/a/memory.current": "6000\n"}, 0},
		{"a limit above", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "1:cpu:/\n0::/a/b\n", "sys/fs/cgroup/a/memory.max": "6000\n", "sys/fs/cgroup/a/b/memory.max": "max\n"}, 6000},
		{"the root of a container", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../..\n", "sys/fs/cgroup/memory.max": "7000\n"}, 7000},
		{"version 1", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/a\n0::/\n"}, 800 << 10},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := memory(root); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}
