package control

import (
	"cmp"
	"strings"

	"github.com/pawl-dev/pawl/lifecycle"
)

// OnTheWay reports whether a service is not to stay as it is.
func OnTheWay(s *Service) bool {
	return s.Phase == lifecycle.ServiceTryingToStart || s.Phase == lifecycle.ServiceTryingToStop
}

// Judge holds a service against what was asked of it, and how it was before, and
// says whether that is decided, and what went wrong.
func Judge(verb Verb, before, now *Service) (done bool, failure string) {
	moved := !now.Since.Equal(before.Since)
	fresh := verb != Restart || now.Starts != before.Starts || !now.StartedAt.Equal(before.StartedAt)
	stays := now.Wanted == "stopped"
	switch {
	case verb == Stop && !stays:
		return true, "somebody wants it to run again"
	case verb == Stop:
		return now.Phase == lifecycle.ServiceStopped, ""
	case stays && moved:
		return true, "somebody has stopped it"
	case now.Phase == lifecycle.ServiceFailed && moved:
		return true, cmp.Or(now.Reason, strings.Join(now.Why, "; "))
	case now.State == Completed && moved:
		return true, ""
	}
	return fresh && (now.Phase == lifecycle.ServiceRunning || now.Phase == lifecycle.ServiceDegraded), ""
}
