package store

import (
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// NotJoined returns the error of DoIn for a tx of a type that the store does not accept. want
// names the accepted types.
func NotJoined(tx any, want string) error {
	return pawl.Errorf(pawl.Invalid, "transaction: %T: want %s", tx, want)
}

// CheckJoined returns an error if the changes contain something that DoIn does not write.
func CheckJoined(c *Changes) error {
	others := len(c.NewWorkers) + len(c.Workers) + len(c.Jobs) + len(c.Refusals) + len(c.NewSchedules) + len(c.Schedules) + len(c.NewTokens) + len(c.Tokens) + len(c.NewPauses) + len(c.Pauses) + len(c.NewWebhooks) + len(c.Webhooks) +
		len(c.Versions) + len(c.Quotas) + len(c.NewSignals) + len(c.Taken) + len(c.Turns) +
		len(c.NewReservations) + len(c.Released)
	strange := slices.ContainsFunc(c.Entries, func(e Entry) bool {
		return e.Kind != lifecycle.Job.Name && e.Kind != lifecycle.Step.Name
	})
	if others > 0 || strange {
		return fmt.Errorf("in a transaction of a user only jobs and steps are written, and %d other records were to be", others)
	}
	return nil
}
