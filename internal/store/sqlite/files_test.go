package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/store"
)

// use opens a database, writes to it and to its logs, and holds a name. The database
// is open until the test ends.
func use(t *testing.T, path string) {
	t.Helper()
	db, err := Open(t.Context(), Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	release, err := db.Hold(t.Context(), "worker/1", []byte("note"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	if err := db.AppendLogs(t.Context(), []pawl.Chunk{{Data: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	if err := db.Do(t.Context(), &store.Query{}, func(*store.Facts) (*store.Changes, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
}

// modesIn returns the modes of all that lies in a folder.
func modesIn(t *testing.T, dir string) map[string]fs.FileMode {
	t.Helper()
	modes := map[string]fs.FileMode{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := d.Info()
		modes[strings.TrimPrefix(path, dir)] = info.Mode().Perm()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return modes
}

// TestFilesAreTheUsersAlone: whatever the umask. Not parallel: the umask is the process's.
func TestFilesAreTheUsersAlone(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o002} {
		dir := t.TempDir()
		old := syscall.Umask(mask)
		use(t, filepath.Join(dir, "pawl.db"))
		syscall.Umask(old)
		modes := modesIn(t, dir)
		for name, mode := range modes {
			want := fs.FileMode(0o600)
			if name == "/pawl.db.locks" {
				want = 0o700
			}
			if mode != want {
				t.Errorf("umask %04o: %s has mode %04o, want %04o", mask, name, mode, want)
			}
		}
		if len(modes) < 7 {
			t.Errorf("files %v: want the database, its log and logs with theirs, and lock files", modes)
		}
	}
}

// TestSharedWithTheGroup: a file that its operator shares with the group takes all that
// lies beside it along. Not parallel: the umask is the process's.
func TestSharedWithTheGroup(t *testing.T) {
	old := syscall.Umask(0o022)
	defer syscall.Umask(old)
	dir := t.TempDir()
	path := filepath.Join(dir, "pawl.db")
	if err := errors.Join(os.WriteFile(path, nil, 0o660), os.Chmod(path, 0o660)); err != nil {
		t.Fatal(err)
	}
	use(t, path)
	for name, mode := range modesIn(t, dir) {
		want := fs.FileMode(0o660)
		if name == "/pawl.db.locks" {
			want = 0o770
		}
		if mode != want {
			t.Errorf("%s has mode %04o, want %04o", name, mode, want)
		}
	}
}

// TestDoctorFindsOpenFiles: files that everybody can read keep their modes, and the
// doctor says how to change them.
func TestDoctorFindsOpenFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "it's here")
	path := filepath.Join(dir, "pawl.db")
	if err := errors.Join(os.Mkdir(dir, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	use(t, path)
	find := func() (found []health.Finding) {
		for _, f := range Diagnose(t.Context(), Config{Path: path}, 0) {
			if f.Check == "file_mode" && f.Severity != health.OK {
				found = append(found, f)
			}
		}
		return found
	}
	if f := find(); len(f) > 0 {
		t.Errorf("of new files: %v", f)
	}
	for _, name := range []string{path, path + "-logs"} {
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	quoted := "'" + strings.ReplaceAll(path, "'", `'\''`)
	want := "chmod o-rwx " + quoted + "' " + quoted + "-logs'"
	if f := find(); len(f) != 1 || f[0].Severity != health.Warning || f[0].Cure != want {
		t.Errorf("found %v, want a warning with %s", f, want)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if f := find(); len(f) > 0 {
		t.Errorf("in a folder that others cannot enter: %v", f)
	}
}

// TestForeignLockFolder: lock files are written through no link, and into no folder
// that another user has made.
func TestForeignLockFolder(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(dir string) error{
		"link":              func(dir string) error { return os.Symlink(os.TempDir(), dir) },
		"open to everybody": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
	} {
		path := filepath.Join(t.TempDir(), "pawl.db")
		if err := prepare(path + ".locks"); err != nil {
			t.Fatal(err)
		}
		db, err := Open(t.Context(), Config{Path: path})
		if pawl.KindOf(err) != pawl.Refused {
			t.Errorf("%s: %v, want an error of kind Refused", name, err)
		}
		if db != nil {
			db.Close()
		}
	}
}

// TestManyOpenANewFile: whoever makes it, each handle has it whole.
func TestManyOpenANewFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pawl.db")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			db, err := Open(t.Context(), Config{Path: path})
			if err == nil {
				err = db.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}
