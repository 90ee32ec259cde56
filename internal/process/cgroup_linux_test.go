package process

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// newCgroup returns a control group, or nil where this process may not make one: that
// is all that a system without has to show.
func newCgroup(t *testing.T) *Cgroup {
	t.Helper()
	own, err := OwnCgroup()
	var c *Cgroup
	if err == nil {
		c, err = OpenCgroup(filepath.Join(own, "pawl-test-"+strconv.Itoa(os.Getpid())+"-"+t.Name()))
	}
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EROFS) && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		t.Logf("no control group: %v", err)
		return nil
	}
	return c
}

// TestCgroupHoldsWhatNobodyElseFinds: a descendant without the mark, without the group and
// without its parents is killed with the control group (S14).
func TestCgroupHoldsWhatNobodyElseFinds(t *testing.T) {
	t.Parallel()
	c := newCgroup(t)
	if c == nil {
		return
	}
	file := filepath.Join(t.TempDir(), "pid")
	p, err := Start(Spec{Path: "/bin/sh", Args: []string{"sh", "-c", `env -i setsid sh -c "echo \$\$ >` + file + `.new; mv ` + file + `.new ` + file + `; exec sleep 1000" & exec sleep 1000`},
		Env: []string{"PATH=" + os.Getenv("PATH")}, Cgroup: c})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var pid int
	pollUntil(ctx.Done(), func() bool {
		b, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		members, _ := os.ReadFile(filepath.Join(c.path, procsFile))
		return pid != 0 && bytes.Count(members, []byte("\n")) == 2 // mv has ended, and env, sh and setsid are one
	})
	if err := c.Close(); err != nil {
		t.Errorf("closed while it is in use: %v", err)
	}
	n, err := KillCgroup(ctx, c.path)
	if n != 2 || err != nil {
		t.Errorf("killed %d, %v; want 2", n, err)
	}
	if s, ok := statOf(pid); ok && s.state != 'Z' {
		t.Errorf("process %d lives on, as %c", pid, s.state)
	}
	<-p.Done()
	if _, err := os.Stat(c.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the control group: %v, want it gone", err)
	}
	if n, err := KillCgroup(ctx, c.path); n != 0 || err != nil {
		t.Errorf("killed again: %d, %v", n, err)
	}
}

// TestKillCgroupSparesItself: neither the control group of this process nor one above.
func TestKillCgroupSparesItself(t *testing.T) {
	t.Parallel()
	own, err := OwnCgroup()
	if err != nil {
		if !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		return
	}
	for _, path := range []string{own, filepath.Dir(own)} {
		if n, err := KillCgroup(t.Context(), path); n != 0 || !errors.Is(err, ErrOwnCgroup) {
			t.Errorf("%s: killed %d, %v", path, n, err)
		}
	}
}

// TestOwnCgroup: where the control group of a process is, from what the kernel says.
func TestOwnCgroup(t *testing.T) {
	t.Parallel()
	const unified = "35 24 0:30 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"
	for _, test := range []struct{ mounts, groups, want string }{
		{unified, "0::/user.slice/a.scope\n", "/sys/fs/cgroup/user.slice/a.scope"},
		{"1 2 0:3 / / rw - ext4 /dev/a rw\n2 1 0:9 / /sys/fs/cgroup/unified rw - cgroup2 x rw\n", "5:cpu:/x\n0::/\n", "/sys/fs/cgroup/unified"},
		{"35 24 0:30 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro\n", "0::/docker/abc/d\n", "/sys/fs/cgroup/d"},
		{"35 24 0:30 / /with\\040space rw - cgroup2 cgroup rw\n", "0::/a\n", "/with space/a"},
		{"35 24 0:30 /docker/abc /sys/fs/cgroup ro - cgroup2 cgroup ro\n", "0::/elsewhere\n", ""},
		{unified, "0::/../../a\n", ""},
		{unified, "4:memory:/a\n", ""},
		{"", "0::/a\n", ""},
		{"broken\n", "0::/a\n", ""},
	} {
		got, err := ownCgroup(test.mounts, test.groups)
		if got != test.want || (test.want == "") != errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%q, %q: %q, %v; want %q", test.mounts, test.groups, got, err, test.want)
		}
	}
}
