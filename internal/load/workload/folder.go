//go:build linux

package workload

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

const (
	fileMode   = 0o600
	folderMode = 0o700
	// markedMode is that of a folder of the target that was not there: the sticky bit, which has no
	// effect on a folder of which one user may do anything, says that whoever empties it may delete it.
	markedMode = folderMode | unix.S_ISVTX
)

// beneath is how a path is resolved: never above its folder, and through no symbolic link.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// remoteIO is the error of a disk behind a controller that does not respond.
const remoteIO = unix.EREMOTEIO

// openBeneath opens a path that is relative to an open folder.
func openBeneath(folder int, name string, flags int, mode uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: mode, Resolve: beneath}
	for {
		fd, err := unix.Openat2(folder, name, &how)
		if err != unix.EINTR && err != unix.EAGAIN {
			return fd, err
		}
	}
}

// A folder is an open one, beneath which everything happens.
type folder struct {
	fd   int
	name string // for errors
}

func (f *folder) close() {
	if f != nil {
		_ = unix.Close(f.fd) // nothing is written by way of it
	}
}

// openRoot opens the root of a job. Symbolic links that lead to the root itself are its owner's.
func openRoot(root string) (*folder, error) {
	if !filepath.IsAbs(root) {
		return nil, invalid("root", "", "the root %q is no absolute path", root)
	}
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, pathFault("open the root", root, err)
	}
	return &folder{fd, root}, nil
}

// open opens a folder beneath another one.
func (f *folder) open(name string) (*folder, error) {
	fd, err := openBeneath(f.fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	whole := filepath.Join(f.name, name)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EXDEV):
		return nil, &fault{loadpb.ErrorCode_ERROR_CODE_PERMISSION, whole, "use a path without symbolic links",
			fmt.Errorf("open %s: the path beneath %s goes through a symbolic link", whole, f.name)}
	case err != nil:
		return nil, pathFault("open", whole, err)
	}
	return &folder{fd, whole}, nil
}

// make creates a folder that may be there already, and its parents. Those that it creates have the
// mark by which unmake knows them.
func (f *folder) make(name string) error {
	at, left := f, strings.Split(path.Clean(name), "/")
	for i, part := range left {
		if err := unix.Mkdirat(at.fd, part, markedMode); err != nil && err != unix.EEXIST {
			return pathFault("create the folder", filepath.Join(at.name, part), err)
		}
		next, err := at.open(part)
		if i > 0 {
			at.close()
		}
		if err != nil {
			return err
		}
		at = next
	}
	at.close()
	return nil
}

// again calls do until others have not deleted meanwhile what it needs.
func again(do func() error) (err error) {
	for range 100 {
		if err = do(); err == nil || classOf(err) != notFound {
			break
		}
	}
	return err
}

// makeOpen makes a folder, opens it and uses it. Others may unmake it meanwhile: then it does so again.
func (f *folder) makeOpen(name string, use func(*folder) error) error {
	return again(func() error {
		if err := f.make(name); err != nil {
			return err
		}
		made, err := f.open(name)
		if err != nil {
			return err
		}
		defer made.close()
		return use(made)
	})
}

// unmake deletes what make has created of a folder and its parents, the innermost first, as far as
// nothing is in it.
func (f *folder) unmake(name string) {
	for name = path.Clean(name); name != "."; name = path.Dir(name) {
		parent, base, err := f.in(name)
		if err != nil {
			return
		}
		var st unix.Stat_t
		err = unix.Fstatat(parent.fd, base, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil && st.Mode&(0o777|unix.S_ISVTX) == markedMode {
			err = unix.Unlinkat(parent.fd, base, unix.AT_REMOVEDIR)
		} else if err == nil {
			err = unix.EEXIST // it is of somebody else
		}
		parent.close()
		if err != nil && err != unix.ENOENT {
			return
		}
	}
}

// has reports whether there is anything of a name, and its size.
func (f *folder) has(name string) (size int64, ok bool, err error) {
	fd, err := openBeneath(f.fd, name, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err == unix.ENOENT {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, pathFault("open", filepath.Join(f.name, name), err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, false, pathFault("examine", filepath.Join(f.name, name), err)
	}
	return st.Size, true, nil
}

// deleted reports whether the folder has been deleted since it was opened.
func (f *folder) deleted() bool {
	var st unix.Stat_t
	return unix.Fstat(f.fd, &st) == nil && st.Nlink == 0
}

// device returns which file system a folder is on.
func (f *folder) device() (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return 0, pathFault("examine", f.name, err)
	}
	return uint64(st.Dev), nil
}

// in opens the folder in which a name is, and returns the last part of the name.
func (f *folder) in(name string) (parent *folder, base string, err error) {
	dir, base := path.Split(name)
	if parent, err = f.open(path.Clean("./" + dir)); err != nil {
		return nil, "", err
	}
	return parent, base, nil
}

// mkdir creates a folder; it reports whether there was none.
func (f *folder) mkdir(name string) (bool, error) {
	parent, base, err := f.in(name)
	if err != nil {
		return false, err
	}
	defer parent.close()
	err = unix.Mkdirat(parent.fd, base, folderMode)
	if err != nil && err != unix.EEXIST {
		return false, pathFault("create the folder", filepath.Join(f.name, name), err)
	}
	return err == nil, nil
}
