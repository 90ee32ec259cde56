package control

import (
	"cmp"
	"strings"

	"github.com/pawl-dev/pawl/lifecycle"
)

// OnTheWay reports whether the state of a service is about to change.
func OnTheWay(s *Service) bool {
	return s.Phase == lifecycle.ServiceTryingToStart || s.Phase == lifecycle.ServiceTryingToStop
}

// Judge compares a service with an order and with its state before the order. It
// returns whether the order is settled, and what went wrong.
func Judge(verb Verb, before, now *Service) (done bool, failure string) {
	moved := !now.Since.Equal(before.Since)
	fresh := verb != Restart || now.Starts != before.Starts || !now.StartedAt.Equal(before.StartedAt)
	stays := now.Wanted == "stopped"
	switch {
	case verb == Stop && !stays:
		return true, "another order started it again"
	case verb == Stop:
		return now.Phase == lifecycle.ServiceStopped, ""
	case stays && moved:
		return true, "another order stopped it"
	case now.Phase == lifecycle.ServiceFailed && moved:
		return true, cmp.Or(now.Reason, strings.Join(now.Why, "; "))
	case now.State == Completed && moved:
		return true, ""
	}
	return fresh && (now.Phase == lifecycle.ServiceRunning || now.Phase == lifecycle.ServiceDegraded), ""
}
