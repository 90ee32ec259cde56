//go:build unix && !linux

package process

import (
	"errors"
	"os/exec"
)

func (l Limits) inherit() error {
	if l.any() {
		return &fault{"limits cannot be set on this system", errors.ErrUnsupported}
	}
	return nil
}

func (Limits) impose(*exec.Cmd) error { return nil }
