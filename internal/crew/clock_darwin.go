package crew

import (
	"sync"

	"golang.org/x/sys/unix"
)

const monotonicClock = 8 // CLOCK_UPTIME_RAW: it stands still while the machine sleeps

var bootID = sync.OnceValue(func() string {
	id, err := unix.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
})
