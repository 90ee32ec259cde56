//go:build unix && !linux

package process

import (
	"context"
	"errors"
	"syscall"
)

// ErrOwnCgroup is not returned here.
var ErrOwnCgroup = errors.New("this process is in the control group")

// A Cgroup is a control group of Linux.
type Cgroup struct{}

// OwnCgroup returns errors.ErrUnsupported.
func OwnCgroup() (string, error) { return "", errors.ErrUnsupported }

// OpenCgroup returns errors.ErrUnsupported.
func OpenCgroup(string) (*Cgroup, error) { return nil, errors.ErrUnsupported }

// KillCgroup returns errors.ErrUnsupported.
func KillCgroup(context.Context, string) (int, error) { return 0, errors.ErrUnsupported }

// Path returns nothing.
func (*Cgroup) Path() string { return "" }

// Close does nothing.
func (*Cgroup) Close() error { return nil }

func (*Cgroup) setStartAttr(*syscall.SysProcAttr) {}
