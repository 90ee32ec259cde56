package worker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/process"
)

// workingDir returns the absolute path of the folder that a command runs in: its dir,
// relative to the folder in which commands of the job start.
func workingDir(t *Task) (string, *pawl.Failure) {
	path, what, hint := t.Work.Dir, "dir:", inOwnDir(t)
	if !filepath.IsAbs(path) {
		path = filepath.Join(t.BaseDir, path)
	}
	if t.Work.Dir == "" {
		what, hint = "the job's folder", " on "+thisHost()+"; make it there, or submit the job with another --dir"
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", retryable("start_failed", "find the current folder: %v", err)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", permanent("dir_not_found", "%s %s does not exist%s", what, path, hint)
	case err != nil:
		return "", permanent("dir_not_found", "%s %v%s", what, err, hint)
	case !info.IsDir():
		return "", permanent("dir_not_found", "%s %s is not a folder%s", what, path, hint)
	}
	return path, nil
}

// thisHost names this machine in a message.
func thisHost() string {
	name, err := os.Hostname()
	if err != nil {
		return "this machine"
	}
	return name
}

// inOwnDir returns a hint for a file that is missing in the folder that was made for a
// job.
func inOwnDir(t *Task) string {
	if !t.ownDir {
		return ""
	}
	return "; the folder of a submitted job begins empty: name another one with --dir of pawl submit"
}

// findProgram returns the file of a task's program.
func findProgram(t *Task, name, dir, searchPath string) (string, *pawl.Failure) {
	path, err := process.Find(name, dir, searchPath)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(name, "/") && !filepath.IsAbs(name):
		return "", permanent("not_found", "command: %v%s", err, inOwnDir(t))
	case errors.Is(err, fs.ErrNotExist):
		return "", permanent("not_found", "command: %v", err)
	case err != nil:
		return "", permanent("not_executable", "command: %v", err)
	}
	return path, nil
}

// startFailure returns why a program did not start although its file exists.
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
