package workdir

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/private"
)

func newRoot(t *testing.T) *Root {
	t.Helper()
	r, err := Open(filepath.Join(t.TempDir(), "work", "db"))
	must(t, err)
	return r
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func enter(t *testing.T, r *Root, name string) *Stay {
	t.Helper()
	s, err := r.Enter(name)
	must(t, err)
	t.Cleanup(s.Leave)
	return s
}

func wantGone(t *testing.T, r *Root) {
	t.Helper()
	if left, err := os.ReadDir(r.path); err != nil || len(left) > 0 {
		t.Errorf("left in the root: %v, %v; want nothing", left, err)
	}
}

// TestFolder: all who enter share a folder of one user, which stays while anybody is in it.
func TestFolder(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	a := enter(t, r, "j")
	must(t, os.WriteFile(filepath.Join(a.Path, "file"), nil, 0o600))
	other, err := Open(r.path) // as another process does
	must(t, err)
	b := enter(t, other, "j")
	if info, err := os.Stat(filepath.Join(b.Path, "file")); err != nil || a.Path != b.Path {
		t.Errorf("the second one is in %s, with %v, %v; want %s and the file", b.Path, info, err, a.Path)
	}
	if info, err := os.Stat(a.Path); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", info.Mode(), err)
	}
	a.Leave()
	a.Leave()
	if err := r.Remove("j"); !errors.Is(err, ErrInUse) {
		t.Errorf("removed in use: %v, want %v", err, ErrInUse)
	}
	if names, err := r.Names(); err != nil || len(names) != 1 || names[0] != "j" {
		t.Errorf("names: %q, %v", names, err)
	}
	b.Leave()
	must(t, other.Remove("j"), r.Remove("j"))
	wantGone(t, r)
	r.Close()
	if _, err := os.Stat(r.path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty root: %v, want it gone", err)
	}
	enter(t, r, "j").Leave()
	r.Close()
	if _, err := os.Stat(filepath.Join(r.path, "j")); err != nil {
		t.Errorf("a folder in a root that was closed: %v", err)
	}
}

// TestOpenRefuses: a root that others may enter is none.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o755))
	var unfit *private.UnfitError
	if _, err := Open(dir); !errors.As(err, &unfit) {
		t.Errorf("got %v", err)
	}
}

// TestRemoveFollowsNoLink: neither one in a folder, nor one in the place of a folder.
func TestRemoveFollowsNoLink(t *testing.T) {
	t.Parallel()
	r, outside := newRoot(t), t.TempDir()
	precious := filepath.Join(outside, "data")
	must(t, os.WriteFile(precious, nil, 0o600))
	s := enter(t, r, "j1")
	must(t, os.Symlink(outside, filepath.Join(s.Path, "folder")), os.Symlink(precious, filepath.Join(s.Path, "file")),
		os.Symlink(outside, filepath.Join(r.path, "j2")), os.WriteFile(filepath.Join(r.path, "j3"), nil, 0o600),
		syscall.Mkfifo(filepath.Join(r.path, "j4"), 0o600))
	s.Leave()
	for _, name := range []string{"j1", "j2", "j3", "j4", "none"} {
		if err := r.Remove(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantGone(t, r)
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	must(t, os.Symlink(outside, filepath.Join(r.path, "j5")))
	if s, err := r.Enter("j5"); err == nil {
		t.Errorf("entered %s, a link", s.Path)
	}
}

// TestMounted: what is mounted in a folder is not removed with it.
func TestMounted(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "linux" && !mounted("") {
		t.Error("nothing is mounted below /")
	}
	if dir := t.TempDir(); mounted(dir) {
		t.Errorf("something is mounted below %s", dir)
	}
}

// TestClear: a removal that was cut off is completed, unless another process continues
// it.
func TestClear(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	for _, name := range []string{gone + "left", gone + "going"} {
		must(t, os.MkdirAll(filepath.Join(r.path, name, "below"), 0o700))
	}
	going, err := locked(filepath.Join(r.path, gone+"going"), syscall.LOCK_EX)
	must(t, err)
	must(t, r.Clear())
	if left, err := filepath.Glob(r.path + "/" + gone + "*"); err != nil || len(left) != 1 || !strings.HasSuffix(left[0], "going") {
		t.Errorf("left: %v, %v", left, err)
	}
	if names, err := r.Names(); err != nil || len(names) > 0 {
		t.Errorf("names: %q, %v", names, err)
	}
	going.Close()
	must(t, r.Clear())
	wantGone(t, r)
}

// TestRemoveReadOnly: folders that their owner may not write to, or look into, go too.
// Root may do all of that, so that the test runs itself as another user.
func TestRemoveReadOnly(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	r := newRoot(t)
	for name, modes := range map[string][3]fs.FileMode{"top": {0o500, 0o700, 0o700}, "middle": {0o700, 0o500, 0o500}, "closed": {0, 0, 0}} {
		s := enter(t, r, name)
		a, b := filepath.Join(s.Path, "a"), filepath.Join(s.Path, "a", "b")
		must(t, os.MkdirAll(b, 0o700), os.WriteFile(filepath.Join(b, "file"), nil, 0o400),
			os.Chmod(b, modes[2]), os.Chmod(a, modes[1]), os.Chmod(s.Path, modes[0]))
		s.Leave()
		if err := r.Remove(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantGone(t, r)
}

const nobody = 65534

func asNobody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "workdir")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	self, err := os.ReadFile("/proc/self/exe")
	must(t, err)
	program := filepath.Join(dir, "test")
	must(t, os.WriteFile(program, self, 0o755), os.Chown(dir, nobody, nobody))
	c := exec.Command(program, "-test.run=^"+t.Name()+"$", "-test.v")
	c.Dir, c.Env = dir, []string{"TMPDIR=" + dir}
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as user %d: %v\n%s", nobody, err, out)
	}
}

// TestEnterDuringRemoval: a process that has entered a folder has it until it leaves, whatever
// others remove in the meantime, and finds nothing of one that was removed.
func TestEnterDuringRemoval(t *testing.T) {
	t.Parallel()
	r := newRoot(t)
	const rounds = 300
	var workers, removers sync.WaitGroup
	var over atomic.Bool
	var removed atomic.Int64
	for range 2 {
		removers.Go(func() {
			for !over.Load() {
				switch err := errors.Join(r.Remove("j"), r.Clear()); {
				case err == nil:
					removed.Add(1)
				case !errors.Is(err, ErrInUse):
					t.Error(err)
					return
				}
			}
		})
	}
	for n := range 3 {
		workers.Go(func() {
			for i := range rounds {
				if err := stay(r, strconv.Itoa(n), i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	workers.Wait()
	over.Store(true)
	removers.Wait()
	if removed.Load() == 0 {
		t.Error("nothing was ever removed")
	}
	must(t, r.Remove("j"), r.Clear())
	wantGone(t, r)
}

// stay works in the folder for a moment, and reports if it is removed.
func stay(r *Root, who string, round int) error {
	s, err := r.Enter("j")
	if err != nil {
		return err
	}
	defer s.Leave()
	path := filepath.Join(s.Path, "of"+who)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return err
	}
	want := filepath.Join(path, strconv.Itoa(round))
	if err := os.WriteFile(want, nil, 0o600); err != nil {
		return err
	}
	_, err = os.Stat(want)
	return err
}
