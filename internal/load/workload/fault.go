package workload

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/s3"
)

// A fault is an error as the protocol reports it.
type fault struct {
	code    loadpb.ErrorCode
	subject string // the key of the config, or the path
	hint    string
	err     error
}

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// invalid is a config that cannot be run here.
func invalid(subject, hint, format string, args ...any) error {
	return &fault{loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID, subject, hint, fmt.Errorf(format, args...)}
}

// pathFault is an error of the system with a path.
func pathFault(do, path string, err error) error {
	return &fault{codeOf(err), path, "", fmt.Errorf("%s %s: %w", do, path, err)}
}

// proto returns an error as the protocol reports it, with the code otherwise if it has none.
func proto(err error, otherwise loadpb.ErrorCode) *loadpb.Error {
	var f *fault
	if !errors.As(err, &f) {
		return &loadpb.Error{Code: otherwise, Message: err.Error()}
	}
	code := f.code
	if code == loadpb.ErrorCode_ERROR_CODE_IO {
		code = otherwise
	}
	return &loadpb.Error{Code: code, Message: err.Error(), Subject: f.subject, Hint: f.hint}
}

// The classes of errors, by their index.
const (
	noSpace = iota
	readOnly
	permission
	notFound
	exists
	inputOutput
	verification
	throttled
	timedOut
	connection
	otherError
	errorClasses
)

var classNames = [errorClasses]string{"no_space", "read_only", "permission", "not_found", "exists", "io", "verification", "throttled", "timeout", "connection", "other"}

// storeClasses are the classes of errors of an object store, by their kind.
var storeClasses = map[s3.Kind]int{
	s3.Other: otherError, s3.NotFound: notFound, s3.Denied: permission, s3.Throttled: throttled, s3.TimedOut: timedOut,
	s3.Connection: connection, s3.Full: noSpace, s3.Internal: inputOutput, s3.Mismatch: verification,
}

// classOf returns the class of an error.
func classOf(err error) int {
	var e syscall.Errno
	if s := (*s3.Error)(nil); errors.As(err, &s) {
		return storeClasses[s.Kind]
	}
	if !errors.As(err, &e) {
		return otherError
	}
	switch e {
	case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
		return noSpace
	case syscall.EROFS:
		return readOnly
	case syscall.EACCES, syscall.EPERM:
		return permission
	case syscall.ENOENT, syscall.ENOTDIR, syscall.ESTALE:
		return notFound
	case syscall.EEXIST, syscall.ENOTEMPTY:
		return exists
	case syscall.EIO, syscall.EINVAL, syscall.ETIMEDOUT, remoteIO:
		return inputOutput
	}
	return otherError
}

// fatal reports whether an error of a class ends a run at once, since the next operation would fail, too.
func fatal(class int) bool { return class == noSpace || class == readOnly || class == permission }

func codeOf(err error) loadpb.ErrorCode {
	switch classOf(err) {
	case noSpace:
		return loadpb.ErrorCode_ERROR_CODE_NO_SPACE
	case readOnly, permission:
		return loadpb.ErrorCode_ERROR_CODE_PERMISSION
	}
	return loadpb.ErrorCode_ERROR_CODE_IO
}
