//go:build !linux && !darwin

package crew

import "golang.org/x/sys/unix"

const monotonicClock = unix.CLOCK_MONOTONIC

func bootID() string { return "" }
