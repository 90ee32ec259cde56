package store

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/machine"
)

// MaxChildren is how many child jobs a WholeJob has.
const MaxChildren = 1000

// A WholeJob is a job with what belongs to it, as of one moment. Records that cannot be decoded
// are left out.
type WholeJob struct {
	Job      *pawl.Job             // with its bodies
	Sequence int64                 // see Views.JobSequence
	Counts   map[machine.State]int // see Views.StepCounts
	Children []*pawl.Job           // without bodies, the newest MaxChildren, newest first
	Steps    []*pawl.Step          // the first page of Views.Steps, of ListPage
	Entries  []audit.Entry         // the first page of the job's own trail (Views.Trail), of ListPage
}

// HasAllSteps reports whether no step is missing.
func (w *WholeJob) HasAllSteps() bool {
	n := 0
	for _, of := range w.Counts {
		n += of
	}
	return len(w.Steps) >= n
}

// HasAllEntries reports whether no entry is missing.
func (w *WholeJob) HasAllEntries() bool {
	n := len(w.Entries)
	return n > 0 && w.Entries[n-1].Sequence >= w.Job.Seq
}
