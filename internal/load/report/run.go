// Package report keeps the results of load runs as folders, and reads, shows and compares them (L7).
package report

import (
	"io/fs"
	"time"

	"github.com/pawl-dev/pawl/internal/load/loadpb"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

// A Run is what a controller knows of a run that has ended.
type Run struct {
	ID      string
	Config  []byte // the file, as it was given
	Test    *spec.Test
	Started time.Time // the coordinated start; zero if there was none
	Ended   time.Time
	Outcome string // "completed", "failed", "aborted"
	Reason  string // why it has failed or was aborted
	Agents  []Agent
	Trail   []byte // sealed rows of the run and its agents, as lines; nil if there are none
}

// An Agent is one agent's part in a run.
type Agent struct {
	Index   int
	Address string
	Info    *loadpb.AgentInfo
	Status  loadpb.Status
	Error   *loadpb.Error
	Clock   Clock
	// Skew is how long after the coordinated start its first and its last thread have begun, by
	// the controller's clock, if Begun says that they have. Clock.Bound is its uncertainty.
	Skew    [2]time.Duration
	Begun   bool
	Records string // the file of its records, as FetchResult sends them; "" if there is none
	files   fs.FS  // that Records is in; nil: those of the system
	// Live says that there is no result, and that Records are the intervals that have come while it ran.
	Live    bool
	Missing string // why there is no result, or why Live has not all that has come, for people
	Dropped int64  // statistics that gave way to newer ones
}

// A Clock is an agent's clock as the controller has measured it.
type Clock struct {
	Offset time.Duration // the agent's clock less the controller's
	Bound  time.Duration // half of the least round trip, and the drift until the start: the offset is at most that far from the truth then
	Probes int
}
