package link

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/machine"
)

// Remote is the engine as a server uses it for the workers that reach the database through
// the server. It is safe for concurrent use.
type Remote interface {
	// Enlist makes the record of a remote worker, once per request id. Its Silence is
	// above 0. No name is held for it.
	Enlist(ctx context.Context, r Registration, c pawl.Change) (pawl.Receipt, error)

	// Visit is an exchange of a remote worker. It waits for work only if it has nothing
	// else to return. Before the end of ctx it claims nothing for a client that has left. When
	// it returns, nothing uses the list of reports any more.
	Visit(ctx context.Context, v Visit) (*Visited, error)

	// ReportSteps stores outcomes, without an exchange.
	ReportSteps(ctx context.Context, reports []Report) ([]Reported, error)

	// BeatFor records that a remote worker lives. It returns what the worker has to know of
	// the claims, and the worker's silence. If claims is nil, the worker has not said what it
	// runs.
	BeatFor(ctx context.Context, worker pawl.ID, claims []Stop) (*Pulsed, time.Duration, error)

	// StepID returns the id of a step that exists.
	StepID(ctx context.Context, key pawl.StepKey) (pawl.ID, error)

	// ActWorker applies an event to a worker that asks for it. complete_tasks of one that
	// has never had a task terminates it.
	ActWorker(ctx context.Context, worker pawl.ID, event machine.Event, c pawl.Change) (pawl.Receipt, error)

	// LogEnd returns the offset behind what is stored of a stream of a claim.
	LogEnd(ctx context.Context, step pawl.StepKey, claim int, stream string) (int64, error)
}

// A Visit is one exchange of a remote worker.
type Visit struct {
	Worker  pawl.ID
	Turn    int64 // above that of every exchange before, or that of the last one, to repeat it
	Reports []Report
	Free    int           // free slots, including those of the reports; 0 takes nothing
	Wait    time.Duration // for work, if there is nothing else to return

	// Holding are the claims that the worker knows it has, if Compare is set: what it holds
	// beside them is delivered again.
	Holding []Stop
	Compare bool
}

// A Visited is the result of a Visit.
type Visited struct {
	State    machine.State
	Assigned []Assignment // the first Again of them were assigned before
	Again    int
	Reported []Reported // one for each report
	Gone     []Stop     // of Holding, the claims that the worker no longer has
	Stops    []Stop     // of Holding, the claims that are asked to stop
}

// A Reported says what became of a report of a remote worker.
type Reported struct {
	Result  Result
	Current int // the claim that the step is in, or was in last
}

// A Result is what became of a report.
type Result string

// The results.
const (
	Accepted  Result = "accepted"
	Duplicate Result = "duplicate" // the worker has reported it before
	Stale     Result = "stale"     // the claim is over, and not by this report: it is kept as a refused fact
)

// A TurnError is returned for an exchange that a later one has overtaken. It has claimed
// nothing.
type TurnError struct{ Turn, Current int64 }

func (e *TurnError) Error() string {
	return fmt.Sprintf("turn %d is over: the worker's last turn is %d", e.Turn, e.Current)
}

// Unwrap makes it an error of kind Conflict.
func (e *TurnError) Unwrap() error {
	return &pawl.Error{Kind: pawl.Conflict, Message: e.Error(), Hint: "exchange again with the next turn, and with holding"}
}
