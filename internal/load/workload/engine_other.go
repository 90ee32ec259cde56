//go:build !linux

package workload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
)

// remoteIO is an error that systems without an engine do not have.
const remoteIO = syscall.Errno(0)

var (
	errGone  = errors.New("the agent has closed stdin")
	errLinux = errors.New("load engines run on Linux only")
)

// Main is the engine process, which there is on Linux only.
func Main(_ context.Context, _ Access, _ io.Reader, _, stderr io.Writer) int {
	fmt.Fprintln(stderr, errLinux)
	return 1
}

// Plan returns what a job would create, on Linux.
func Plan(context.Context, Job) (*loadpb.Plan, []*loadpb.Error) {
	return nil, []*loadpb.Error{{Code: loadpb.ErrorCode_ERROR_CODE_CONFIG_INVALID, Message: errLinux.Error()}}
}

// Clean deletes what a manifest lists, on Linux.
func Clean(context.Context, Job, func(*loadpb.Progress)) (*loadpb.CleanupReport, error) {
	return nil, errLinux
}

func checkRing() error { return errLinux }
