package process

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// A fault is an error with a text of its own in place of its cause's.
type fault struct {
	text  string
	cause error
}

func (f *fault) Error() string { return f.text }
func (f *fault) Unwrap() error { return f.cause }

// startFault explains why a program did not start.
func startFault(s Spec, err error) error {
	return &fault{"start " + s.Path + ": " + startReason(s, err), err}
}

func startReason(s Spec, err error) string {
	switch {
	case errors.As(err, new(*fault)):
		return err.Error()
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENOTDIR):
		return whatIsMissing(s)
	case errors.Is(err, syscall.ENOEXEC):
		return "it is neither a program nor does it begin with #!"
	case errors.Is(err, syscall.E2BIG):
		return "its arguments and env are longer than the system allows"
	case errors.Is(err, syscall.EPERM) && s.Limits.traced():
		return "permission denied, to execute it or to trace it, which limits need"
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return "permission denied, to execute it or to enter its folder"
	}
	var number syscall.Errno
	if errors.As(err, &number) {
		return number.Error()
	}
	return err.Error()
}

func whatIsMissing(s Spec) string {
	info, err := os.Stat(s.Dir)
	switch {
	case s.Dir != "" && err != nil:
		return fmt.Sprintf("the folder %q does not exist", s.Dir)
	case s.Dir != "" && !info.IsDir():
		return fmt.Sprintf("%q is not a folder", s.Dir)
	}
	if _, err := os.Stat(s.Path); err != nil {
		return "it does not exist"
	}
	return "the interpreter that it asks for does not exist"
}
