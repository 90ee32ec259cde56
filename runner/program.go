package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/process"
)

// workingDir answers the folder that a command runs in, absolute: dir as it
// stands relative to base.
func workingDir(base, dir string) (string, *pawl.Failure) {
	path := dir
	if !filepath.IsAbs(path) {
		path = filepath.Join(base, dir)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", retryable("start_failed", "find the current folder: %v", err)
	}
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", permanent("dir_not_found", "dir: %s does not exist", path)
	}
	if err != nil {
		return "", permanent("dir_not_found", "dir: %v", err)
	}
	if !info.IsDir() {
		return "", permanent("dir_not_found", "dir: %s is not a folder", path)
	}
	return path, nil
}

// findProgram answers the file of a program.
func findProgram(name, dir, searchPath string) (string, *pawl.Failure) {
	path, err := process.Find(name, dir, searchPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", permanent("not_found", "command: %v", err)
	case err != nil:
		return "", permanent("not_executable", "command: %v", err)
	}
	return path, nil
}

// startFailure says why a program did not start, though its file was there.
func startFailure(name string, err error) *pawl.Failure {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return permanent("not_found", "command: %q cannot start: the interpreter it asks for does not exist", name)
	case errors.Is(err, syscall.ENOEXEC):
		return permanent("not_executable", "command: %q cannot start: it is neither a program nor does it begin with #!", name)
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return permanent("not_executable", "command: %q cannot start: permission denied", name)
	case errors.Is(err, syscall.E2BIG):
		return permanent("invalid_work", "command: %q cannot start: its arguments and env are longer than the system allows", name)
	}
	return retryable("start_failed", "command: %q cannot start: %v", name, err)
}
