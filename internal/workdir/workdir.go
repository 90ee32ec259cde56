// Package workdir keeps the working directories of jobs: folders below a root, one for
// each job, that only one user may enter. Several processes may share a root.
//
// A process that works in a folder holds a shared lock on it (flock). Removing a folder
// takes the exclusive lock, and renames the folder before anything in it is deleted. So
// no process enters a folder that is half removed, and what a killed process left of a
// removal is recognized by its name. The root has to be on a local disk, where such
// locks work.
package workdir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/internal/private"
)

// gone is the prefix of the names of folders that are being removed.
const gone = ".removed-"

// ErrInUse is returned by Remove for a folder that was entered and not left.
var ErrInUse = errors.New("it is in use")

// A Root is the folder that holds the working directories. It is safe for concurrent use.
type Root struct{ path string }

// Open returns the root at an absolute path, and creates it if it is missing. The error is
// a *private.UnfitError if others could have put something there.
func Open(path string) (*Root, error) {
	if err := private.Make(path); err != nil {
		return nil, err
	}
	return &Root{path}, nil
}

// Close removes the root if it is empty. It may be used again.
func (r *Root) Close() { _ = os.Remove(r.path) } // on an error it is not empty, or gone

// A Stay is a folder that was entered. It keeps the folder from being removed.
type Stay struct {
	Path string
	lock *os.File
}

// Enter returns the folder of a name, and creates it if it is missing. The caller must
// call Leave.
func (r *Root) Enter(name string) (*Stay, error) {
	path := filepath.Join(r.path, name)
	for tries := 1; ; tries++ {
		lock, err := r.enter(path)
		if err == nil {
			return &Stay{path, lock}, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || tries == maxTries {
			return nil, err
		}
	}
}

// maxTries is how often Enter creates a folder that others remove at the same moment.
const maxTries = 100

// enter returns the locked folder. fs.ErrNotExist means that it was removed meanwhile.
func (r *Root) enter(path string) (*os.File, error) {
	if err := private.Make(r.path); err != nil {
		return nil, err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return locked(path, syscall.LOCK_SH)
}

// Leave lets the folder be removed. It may be called more than once.
func (s *Stay) Leave() { s.lock.Close() }

// Names lists the folders.
func (r *Root) Names() ([]string, error) {
	all, err := os.ReadDir(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range all {
		if !strings.HasPrefix(e.Name(), gone) {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// Remove removes the folder of a name with all that is in it, and follows no link. A
// missing one is no error; one that is in use is ErrInUse.
func (r *Root) Remove(name string) error {
	return r.remove(name, gone+name+"-"+rand.Text())
}

// Clear removes what is left of interrupted removals.
func (r *Root) Clear() error {
	left, err := filepath.Glob(filepath.Join(r.path, gone+"*"))
	for _, path := range left {
		if e := r.remove(filepath.Base(path), filepath.Base(path)); !errors.Is(e, ErrInUse) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// remove renames and removes a folder. A file or a link of that name is removed directly.
func (r *Root) remove(name, as string) error {
	root, err := os.OpenRoot(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	lock, err := lockExclusive(root, filepath.Join(r.path, name), name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return root.Remove(name)
	case errors.Is(err, syscall.EWOULDBLOCK):
		return ErrInUse
	case err != nil:
		return err
	}
	defer lock.Close()
	if root.Remove(name) == nil {
		return nil // it was empty, as most are
	}
	if mounted(filepath.Join(r.path, name)) {
		return ErrMounted
	}
	if as != name {
		if err := root.Rename(name, as); err != nil {
			return err
		}
	}
	return removeAll(root, as)
}

// lockExclusive locks a folder exclusively, even if its mode keeps its owner out.
func lockExclusive(root *os.Root, path, name string) (*os.File, error) {
	const exclusive = syscall.LOCK_EX | syscall.LOCK_NB
	lock, err := locked(path, exclusive)
	if !errors.Is(err, fs.ErrPermission) {
		return lock, err
	}
	if err := root.Chmod(name, 0o700); err != nil {
		return nil, err
	}
	return locked(path, exclusive)
}

// locked opens and locks a folder that is not a link. fs.ErrNotExist means that it no
// longer exists.
func locked(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := flock(f, path, how); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func flock(f *os.File, path string, how int) error {
	err := syscall.Flock(int(f.Fd()), how)
	for errors.Is(err, syscall.EINTR) {
		err = syscall.Flock(int(f.Fd()), how)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	have, err := f.Stat()
	if err != nil {
		return err
	}
	now, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !os.SameFile(have, now) {
		return fs.ErrNotExist
	}
	return nil
}

// ErrMounted is returned by Remove for a folder in which a file system is mounted: its
// contents are not the job's.
var ErrMounted = errors.New("a file system is mounted in it")

// mounted reports whether a file system is mounted in a folder, if the system has
// /proc/self/mountinfo.
func mounted(path string) bool {
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // Linux
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(unescape.Replace(f[4]), path+"/") {
			return true
		}
	}
	return false
}

var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)

// removeAll removes a folder, even if folders in it are not writable.
func removeAll(root *os.Root, name string) error {
	if root.RemoveAll(name) == nil {
		return nil
	}
	if err := root.Chmod(name, 0o700); err != nil {
		return err
	}
	inside, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer inside.Close()
	err = fs.WalkDir(inside.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return inside.Chmod(path, 0o700)
	})
	return errors.Join(err, root.RemoveAll(name))
}
