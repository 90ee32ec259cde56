package runner

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl"
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

// findProgram answers the file of a program: a name with a slash as it stands
// relative to dir, any other as found along the search path that the program
// itself will see. Entries of the path that are not absolute are passed over.
func findProgram(name, dir, searchPath string) (string, *pawl.Failure) {
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return path, checkProgram(name, path)
	}
	barred := ""
	for _, folder := range filepath.SplitList(searchPath) {
		path := filepath.Join(folder, name)
		if !filepath.IsAbs(path) {
			continue
		}
		f := checkProgram(name, path)
		if f == nil {
			return path, nil
		}
		if f.Class == "not_executable" {
			barred = path
		}
	}
	if barred != "" {
		return "", permanent("not_executable", "command: %q is not executable: %s", name, barred)
	}
	return "", permanent("not_found", "command: %q was not found in PATH %q", name, searchPath)
}

func checkProgram(name, path string) *pawl.Failure {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return permanent("not_found", "command: %q was not found: %s does not exist", name, path)
	case err != nil:
		return permanent("not_executable", "command: %q is not executable: %v", name, err)
	case info.IsDir():
		return permanent("not_executable", "command: %q is not executable: %s is a folder", name, path)
	case info.Mode()&0o111 == 0:
		return permanent("not_executable", "command: %q is not executable: %s has mode %v", name, path, info.Mode())
	}
	return nil
}

// startFailure says why cmd did not start, though its file was there.
func startFailure(cmd *exec.Cmd, err error) *pawl.Failure {
	switch {
	case errors.Is(err, syscall.ENOENT):
		return permanent("not_found", "command: %q cannot start: the interpreter it asks for does not exist", cmd.Args[0])
	case errors.Is(err, syscall.ENOEXEC):
		return permanent("not_executable", "command: %q cannot start: it is neither a program nor does it begin with #!", cmd.Args[0])
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return permanent("not_executable", "command: %q cannot start: permission denied", cmd.Args[0])
	case errors.Is(err, syscall.E2BIG):
		return permanent("invalid_work", "command: %q cannot start: its arguments and env are longer than the system allows", cmd.Args[0])
	}
	return retryable("start_failed", "command: %q cannot start: %v", cmd.Args[0], err)
}
