package schedule

import "github.com/pawl-dev/pawl"

// What happens when a time comes while the job of the time before still runs.
const (
	Skip      = "skip"       // the time passes without a job
	Queue     = "queue"      // one job waits until that one has ended; further times are skipped
	CancelOld = "cancel_old" // that one is cancelled, and a job made at once
)

// DefaultOverlap is the overlap of schedules without one.
const DefaultOverlap = Skip

// CheckOverlap returns an error of kind Invalid unless word is Skip, Queue or
// CancelOld.
func CheckOverlap(word string) error {
	switch word {
	case Skip, Queue, CancelOld:
		return nil
	}
	return pawl.Errorf(pawl.Invalid, "overlap %.64q: want %s, %s or %s", word, Skip, Queue, CancelOld)
}
