//go:build linux

package workload

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// TestLinksAreRefused: a target that a symbolic link leads to is refused, wherever it leads, and nothing is
// created there (L10).
func TestLinksAreRefused(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"link", "link/deeper", "inner"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			job := newJob(t, "{name: links, target: "+target+", files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}]}")
			outside := t.TempDir()
			write(t, filepath.Join(job.Root, "real/file"), "")
			for from, to := range map[string]string{"link": outside, "inner": "real"} {
				if err := os.Symlink(to, filepath.Join(job.Root, from)); err != nil {
					t.Fatal(err)
				}
			}
			p := start(t, job)
			if e := p.refused(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_PERMISSION || !strings.Contains(e.GetMessage(), "symbolic link") {
				t.Error(e)
			}
			p.clean()
			if found := tree(t, outside); len(found) > 0 {
				t.Errorf("outside of the root: %v", found)
			}
		})
	}
}

// TestSwappedFolder: a folder of the run that is swapped for a link to another one while the run is prepared is
// not followed, neither by operations nor by the cleanup (L10).
func TestSwappedFolder(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		job := newJob(t, `
name: swapped
shared: `+strconv.FormatBool(shared)+`
files: [{name: data, count: 4, size: 4KiB}]
mix: [{operation: delete}, {operation: create}, {operation: append}]
errors: {percent: 100}
cleanup: nothing
count: 200
`)
		outside := t.TempDir()
		for _, name := range []string{"f0", "f1", "f2", "f3", "c0.0.0"} {
			write(t, filepath.Join(outside, name), "precious")
		}
		p := start(t, job)
		p.prepare()
		data := filepath.Join(job.Root, "load/01RUN/agent-0/data")
		if shared {
			data = filepath.Join(job.Root, "load/01RUN/data")
		}
		if err := os.Rename(data, data+".old"); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, data); err != nil {
			t.Fatal(err)
		}
		p.run(soon())
		if shared {
			p.until(isFailed) // it opens folders when it starts
		} else {
			p.finished() // in the folder that was prepared
		}
		p.clean()
		if diff := cmp.Diff([]string{"c0.0.0", "f0", "f1", "f2", "f3"}, tree(t, outside)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestForeignFolder: a run whose folder is there already is refused, and what is in it stays.
func TestForeignFolder(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: foreign, files: [{name: data, count: 1, size: 4KiB}], mix: [{operation: read}]}")
	theirs := filepath.Join(job.Root, "load/01RUN/agent-0/data/f0")
	write(t, theirs, "precious")
	p := start(t, job)
	if e := p.refused(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED || !strings.Contains(e.GetMessage(), "exists already") {
		t.Error(e)
	}
	p.clean()
	if _, err := os.Stat(theirs); err != nil {
		t.Error(err)
	}
}

// TestForeignFile: a file of another size in a shared folder is refused, and the cleanup leaves it.
func TestForeignFile(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: foreign, shared: true, files: [{name: data, count: 3, size: 4KiB}], mix: [{operation: read}]}")
	theirs := filepath.Join(job.Root, "load/01RUN/data/f1")
	write(t, theirs, "precious")
	p := start(t, job)
	if e := p.refused(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_PREPARE_FAILED || !strings.Contains(e.GetMessage(), "exists already, with 8 bytes in place of 4096") || e.GetHint() == "" {
		t.Error(e)
	}
	p.clean()
	if diff := cmp.Diff([]string{"load", "load/01RUN", "load/01RUN/data", "load/01RUN/data/f1"}, tree(t, job.Root)); diff != "" {
		t.Error(diff)
	}
}

// TestTargets: a target is beneath the root, whether relative or absolute.
func TestTargets(t *testing.T) {
	t.Parallel()
	job := newJob(t, "")
	for target, good := range map[string]bool{
		"a/b": true, job.Root: true, job.Root + "/a": true, filepath.Dir(job.Root): false, "/": false, job.Root + "2": false,
	} {
		job.Config = "{name: t, target: " + target + ", files: [{name: data}], mix: [{operation: create}]}"
		if _, faults := Plan(t.Context(), job); (len(faults) == 0) != good {
			t.Errorf("%s: %v", target, faults)
		}
	}
	for _, id := range []string{"", ".", "..", "a/b", ".hidden"} {
		job.RunID = id
		if _, err := newLayout(job); err == nil {
			t.Errorf("the run id %q is accepted", id)
		}
	}
}

// TestDeletedMeanwhile: a target that another run deletes as it ends is made again, whatever was about to
// be done in it (L5).
func TestDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	root, err := openRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.close()
	times := 0
	err = root.makeOpen("a/b", func(target *folder) error {
		if times++; times < 3 {
			root.unmake("a/b")
		}
		if times == 1 {
			if _, err := survey(target, false); err != nil {
				return err
			}
		}
		_, err := target.mkdir("run")
		return err
	})
	if _, there, has := root.has("a/b/run"); err != nil || !there || times != 3 {
		t.Error(err, has, times)
	}
}

// TestLimits: what a run may make is checked before it prepares, and while it creates, appends and makes folders;
// what it deletes it may make again (L10).
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files, mix string
		bytes      uint64
		things     uint64
		refused    bool
		ends       bool
	}{
		"bytes of the files":    {"count: 4, size: 8KiB", "{operation: read}", 32767, 0, true, false},
		"all bytes":             {"count: 4, size: 8KiB", "{operation: read}", 32768, 0, false, false},
		"number of files":       {"count: 4, size: 8KiB", "{operation: read}", 0, 6, true, false},
		"all files":             {"count: 4, size: 8KiB", "{operation: read}", 0, 7, false, false},
		"appended bytes":        {"count: 1, size: 4KiB", "{operation: append, block: 4KiB}", 5 * 4096, 0, false, true},
		"created bytes":         {"count: 0", "{operation: create, block: 4KiB}", 5 * 4096, 0, false, true},
		"created files":         {"count: 0", "{operation: create, block: 4KiB}", 0, 10, false, true},
		"folders":               {"count: 0", "{operation: mkdir}", 0, 10, false, true},
		"deleted files go back": {"count: 1, size: 4KiB", "{operation: delete}", 8192, 4, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := newJob(t, "{name: limits, files: [{name: data, "+c.files+"}], mix: ["+c.mix+"], count: 100}")
			job.LimitBytes, job.LimitFiles = c.bytes, c.things
			p := start(t, job)
			if c.refused {
				if e := p.refused(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID || e.GetSubject() != "files" || e.GetHint() == "" {
					t.Error(e)
				}
				if found := tree(t, job.Root); len(found) > 0 {
					t.Errorf("refused, and created: %v", found)
				}
				return
			}
			p.prepare()
			p.run(soon())
			_, _, f := p.finished()
			if ended := f.GetError().GetCode() == loadpb.ErrorCode_ERROR_CODE_NO_SPACE; ended != c.ends || !ended && f.GetError() != nil {
				t.Errorf("ended by the limit: %t, want %t: %v", ended, c.ends, f.GetError())
			}
			if c.things > 0 && uint64(len(tree(t, job.Root))-1) > c.things {
				t.Errorf("%d things were made, %d are allowed", len(tree(t, job.Root))-1, c.things)
			}
			left(t, job, p.clean())
		})
	}
}

// TestFullDisk: a full disk ends a run at once, with what it has done, and in the preparation it is its error (L9).
func TestFullDisk(t *testing.T) {
	t.Parallel()
	job := newJob(t, "{name: full, files: [{name: data}], mix: [{operation: create, block: 64KiB}], duration: 1h, errors: {percent: 100}}")
	disk := job.Root
	mounted := syscall.Mount("pawl-test", disk, "tmpfs", 0, "size=12m") == nil
	if mounted {
		t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	}
	p := start(t, job)
	p.prepare()
	if !mounted { // where none may be mounted, no file may be as large
		if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 4096, Max: unix.RLIM_INFINITY}, nil); err != nil {
			t.Fatal(err)
		}
	}
	p.run(soon())
	_, _, f := p.finished()
	n, _, errors := total(t, f, "create")
	if f.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_NO_SPACE || mounted && n == 0 || errors != 1 || len(f.GetErrorSamples()) != 1 {
		t.Error(f)
	}
	left(t, job, p.clean())

	job = newJob(t, "{name: full, files: [{name: data, count: 1, size: 16TiB}], mix: [{operation: read}]}")
	if e := start(t, job).refused(); e.GetCode() != loadpb.ErrorCode_ERROR_CODE_NO_SPACE || !strings.Contains(e.GetMessage(), "17592186044416 bytes") {
		t.Error(e)
	}
	job.Config = strings.Replace(job.Config, "count: 1", "allocate: sparse, count: 1", 1)
	if _, faults := Plan(t.Context(), job); len(faults) > 0 {
		t.Errorf("a sparse file takes no space: %v", faults)
	}
}

// TestForbidden: a file system that becomes read-only, or a folder that may not be written, ends a run with its first
// error, whatever its budget: every further operation would fail, too (L9, pain 17).
func TestForbidden(t *testing.T) {
	t.Parallel()
	t.Run("permission", func(t *testing.T) {
		t.Parallel()
		job := forbiddenJob(t)
		folder := filepath.Join(job.Root, "load", job.RunID)
		testForbidden(t, job, start(t, job, withoutRights+"=1"), func() error { return forbid(folder, 0o555) }, func() error { return forbid(folder, 0o755) })
	})
	job := forbiddenJob(t)
	if syscall.Mount("pawl-test", job.Root, "tmpfs", 0, "size=12m") != nil {
		return // who may not mount has seen the error of a folder
	}
	t.Cleanup(func() { _ = syscall.Unmount(job.Root, syscall.MNT_DETACH) })
	t.Run("read_only", func(t *testing.T) {
		remount := func(flags uintptr) func() error {
			return func() error { return syscall.Mount("", job.Root, "", syscall.MS_REMOUNT|flags, "") }
		}
		testForbidden(t, job, start(t, job), remount(syscall.MS_RDONLY), remount(0))
	})
}

func forbiddenJob(t *testing.T) Job {
	return newJob(t, "{name: forbidden, files: [{name: data}], mix: [{operation: create, block: 1KiB}], duration: 10s, errors: {percent: 100}}")
}

// testForbidden runs a job whose folder may not be written once it is prepared. The test is named as the class of the
// errors.
func testForbidden(t *testing.T, job Job, p *process, forbid, allow func() error) {
	t.Helper()
	p.prepare()
	if err := forbid(); err != nil {
		t.Fatal(err)
	}
	p.run(soon())
	_, _, f := p.finished()
	errs := map[string]uint64{}
	for _, o := range f.GetTotals() {
		errs = o.GetErrors()
	}
	if f.GetError().GetCode() != loadpb.ErrorCode_ERROR_CODE_PERMISSION || len(errs) != 1 || errs[path.Base(t.Name())] != 1 {
		t.Errorf("%v, %v", errs, f)
	}
	if err := allow(); err != nil {
		t.Fatal(err)
	}
	left(t, job, p.clean())
}

// forbid sets the mode of a folder and of those in it.
func forbid(folder string, mode fs.FileMode) error {
	return filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, mode)
		}
		return err
	})
}
