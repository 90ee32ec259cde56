package engine

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
)

// A versioned record has a number that rises with each of its changes.
type versioned interface {
	*pawl.Schedule | *pawl.QueuePause | *pawl.Quota | *pawl.Webhook
	Version() int64
}

// checkVersion returns link.ErrChanged unless the record is at a version; 0 is any, of a record
// or of none. The record is nil if there is none.
func checkVersion[R versioned](want int64, r R, what string) error {
	switch {
	case want == 0:
		return nil
	case r == nil:
		return link.Changed("%s is not there: want its version %d", what, want)
	case r.Version() != want:
		return link.Changed("%s is at version %d: want %d", what, r.Version(), want)
	}
	return nil
}
