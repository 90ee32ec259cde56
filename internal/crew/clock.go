package crew

import (
	"time"

	"golang.org/x/sys/unix"
)

// An Instant is a time by the monotonic clock of a machine, which does not count while the
// machine sleeps and which nobody can set (C4). Instants of different boots cannot be compared.
type Instant struct {
	Boot string `json:"boot,omitempty"` // the id of the boot; empty if unknown
	Mono int64  `json:"mono_ns,omitempty"`
}

// now returns the instant of now.
func now() Instant {
	var t unix.Timespec
	if err := unix.ClockGettime(monotonicClock, &t); err != nil {
		return Instant{}
	}
	return Instant{bootID(), t.Nano()}
}

// since returns the time from one instant to a later one, or false if they cannot be compared.
func (i Instant) since(earlier Instant) (time.Duration, bool) {
	if i.Boot == "" || i.Boot != earlier.Boot || i.Mono < earlier.Mono {
		return 0, false
	}
	return time.Duration(i.Mono - earlier.Mono), true
}
