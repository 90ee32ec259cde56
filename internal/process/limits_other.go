//go:build unix && !linux

package process

import (
	"errors"
	"os/exec"
)

func (l Limits) setNice() error {
	if l.any() {
		return &fault{"limits cannot be set on this system", errors.ErrUnsupported}
	}
	return nil
}

func (Limits) apply(*exec.Cmd) error { return nil }
