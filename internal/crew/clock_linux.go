package crew

import (
	"os"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

const monotonicClock = unix.CLOCK_MONOTONIC // it stands still while the machine is suspended

var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})
