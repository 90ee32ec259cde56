package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// A Cgroup is a control group (cgroups(7), version 2) that programs are started in. Their
// descendants stay in it, whatever they do to their environment, process group or parents.
type Cgroup struct {
	path string
	dir  *os.File
}

// OwnCgroup returns the path of this process's control group. The error is
// errors.ErrUnsupported where the system has none of version 2.
func OwnCgroup() (string, error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	return ownCgroup(string(mounts), string(groups))
}

// ownCgroup parses mountinfo and cgroup of /proc/self.
func ownCgroup(mounts, groups string) (string, error) {
	group := ""
	for line := range strings.Lines(groups) {
		if rest, ok := strings.CutPrefix(line, "0::"); ok && !strings.HasPrefix(rest, "/..") { // /..: outside the cgroup namespace
			group = strings.TrimSuffix(rest, "\n")
		}
	}
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line) // id parent device root place options... - type ...
		i := slices.Index(f, "-")
		if i < 6 || i+1 >= len(f) || f[i+1] != "cgroup2" {
			continue
		}
		below, err := filepath.Rel(unescape(f[3]), group)
		if err == nil && group != "" && filepath.IsLocal(below) {
			return filepath.Join(unescape(f[4]), below), nil
		}
	}
	return "", fmt.Errorf("control groups of version 2: %w", errors.ErrUnsupported)
}

// unescape decodes a path of mountinfo.
func unescape(path string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(path)
}

// OpenCgroup opens the control group at a path, and creates it if need be. The error says
// why this process cannot start programs in it.
func OpenCgroup(path string) (*Cgroup, error) {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	c := &Cgroup{path, dir}
	_, err = os.Stat(filepath.Join(path, killFile))
	if err == nil {
		err = c.checkStart()
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// checkStart tries to start a program that does not exist: where programs cannot be
// started in the group, the kernel reports that first.
func (c *Cgroup) checkStart() error {
	attr := &os.ProcAttr{Sys: &syscall.SysProcAttr{}}
	c.setStartAttr(attr.Sys)
	p, err := os.StartProcess(filepath.Join(c.path, "none"), []string{"none"}, attr)
	if err == nil {
		return p.Release()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("start programs in %s: %w", c.path, err)
}

// setStartAttr makes a program start in the group.
func (c *Cgroup) setStartAttr(a *syscall.SysProcAttr) {
	if c != nil {
		a.UseCgroupFD, a.CgroupFD = true, int(c.dir.Fd())
	}
}

// Path returns the path of the group.
func (c *Cgroup) Path() string { return c.path }

// Close removes the group, unless something runs in it. No program may be started in it
// afterwards.
func (c *Cgroup) Close() error {
	err := c.dir.Close()
	if e := os.Remove(c.path); !errors.Is(e, syscall.EBUSY) && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}

// ErrOwnCgroup is returned by KillCgroup for a control group that this process is in.
var ErrOwnCgroup = errors.New("this process is in the control group")

// Files of a control group.
const (
	killFile  = "cgroup.kill" // Linux 5.14
	procsFile = "cgroup.procs"
)

// KillCgroup kills all processes in the control group at a path and in those below it, and
// removes the groups. It returns how many processes there were, and an error if some still
// exist when ctx ends. A group that does not exist is no error; one that this process is
// in is ErrOwnCgroup.
func KillCgroup(ctx context.Context, path string) (int, error) {
	own, err := OwnCgroup()
	if err != nil {
		return 0, err
	}
	if own == path || strings.HasPrefix(own, path+"/") {
		return 0, ErrOwnCgroup
	}
	killed, left := map[string]bool{}, error(nil)
	pollUntil(ctx.Done(), func() bool {
		for _, pid := range members(path) {
			killed[pid] = true
		}
		if left = os.WriteFile(filepath.Join(path, killFile), []byte("1"), 0); left == nil {
			left = removeGroups(path)
		}
		return left == nil || !errors.Is(left, syscall.EBUSY)
	})
	if errors.Is(left, fs.ErrNotExist) || errors.Is(left, syscall.ENODEV) {
		left = nil // it is gone
	}
	if left != nil && len(members(path)) == 0 {
		left = nil // nothing runs in it, though it cannot be removed
	}
	return len(killed), left
}

// members returns the pids in a control group and in those below it.
func members(path string) (pids []string) {
	_ = filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == procsFile {
			b, _ := os.ReadFile(path) // on an error the group is gone
			for pid := range bytes.FieldsSeq(b) {
				pids = append(pids, string(pid))
			}
		}
		return nil
	})
	return pids
}

// removeGroups removes a control group and those below it. EBUSY means that something runs
// in one.
func removeGroups(path string) error {
	below, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, d := range below {
		if d.IsDir() {
			if err := removeGroups(filepath.Join(path, d.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return os.Remove(path)
}
