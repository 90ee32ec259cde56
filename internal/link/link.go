package link

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/machine"
)

// Worker is the engine as a worker uses it. It is safe for concurrent use. An error of
// kind Unavailable means that there was no reply: the worker tries again.
type Worker interface {
	// Register makes a worker under an id of its own, and holds its name for as long as
	// this process lives, or until release.
	Register(ctx context.Context, r Registration) (w *pawl.Worker, release func(), err error)

	// LendSlots lends the free slots of a registered worker to what is submitted in
	// this process. run is called with each step that is claimed for it, and must
	// neither block nor use the offer.
	LendSlots(w *pawl.Worker, run func(*Assignment)) Slots

	// Exchange reports and claims in one commit (T3). A report that came too late is no
	// error. ErrWorkerEnded means that the worker has ended; an error that is Retryable
	// means that nothing was decided and the same reports have to be sent again.
	Exchange(ctx context.Context, x Exchange) ([]Assignment, error)

	// Overlap returns how many exchanges of one worker should be under way at once: 1, or
	// more if they work side by side.
	Overlap() int

	// CompleteTx stores the success of a report within a transaction of the user. If
	// the claim is lost, the error is of kind Conflict. When the handler has returned,
	// the worker reports a failure that is Settled.
	CompleteTx(ctx context.Context, tx any, r Report) error

	// StepInput returns what is needed to run an assignment. A failure is that of the
	// step: its expressions cannot be evaluated.
	StepInput(ctx context.Context, a *Assignment) (*StepInput, *pawl.Failure, error)

	// AppendLogs stores what steps have printed. A chunk that is stored already is not
	// stored again.
	AppendLogs(ctx context.Context, chunks []pawl.Chunk) error

	// Beat records that the worker lives, and returns what it has to know.
	Beat(ctx context.Context, p Pulse) (*Pulsed, error)

	// Stops returns a channel that receives when a running step may have been asked to
	// stop, or a worker was ended: send a beat to find out. It may miss some.
	Stops() <-chan struct{}

	// Hears reports whether hints of new work arrive at this moment. If not, the worker
	// has to poll.
	Hears() bool

	// MoveWorker applies an event of the worker's table: complete_tasks when it has
	// drained, pause, resume. One that the worker's state does not allow is an error of
	// kind Conflict.
	MoveWorker(ctx context.Context, worker rowkey.Worker, event machine.Event, note decide.Note) error

	// Terminate ends a worker in any state, and gives its steps to others.
	Terminate(ctx context.Context, worker rowkey.Worker, note decide.Note) error

	// Followed reports whether some process on the database evaluates jobs and fires
	// deadlines and schedules: a worker does not.
	Followed(ctx context.Context) (bool, error)

	// WorkerEnd returns who has ended a worker, and why.
	WorkerEnd(ctx context.Context, worker rowkey.Worker) (WorkerEnd, error)

	// EndedJobs returns the jobs that will not run again: they have ended, or no longer
	// exist. With an error it returns those that it has found.
	EndedJobs(ctx context.Context, jobs []pawl.ID) ([]pawl.ID, error)
}

// Slots are the free slots of a worker that has found nothing to claim. Each slot is
// offered, taken by a commit under way, running, or left to the worker, which uses what
// is not Reserved.
type Slots interface {
	// Add offers more slots, unless the worker still has to poll the queue.
	Add(slots int)

	// Close ends the taking of slots until the next Add.
	Close()

	// Withdraw ends the offer for good.
	Withdraw()

	// Reserved returns how many slots are offered, or taken by commits under way.
	Reserved() int

	// Unreserved returns how many of the free slots the worker may use. No slot is
	// taken while free counts them.
	Unreserved(free func() int) int

	// Work returns the channel that receives when there may be something to claim, and
	// Rung reports whether it has since the last exchange that looked into the queue
	// began. From then until the next such exchange nothing is offered.
	Work() <-chan struct{}
	Rung() bool

	// Bell returns a channel that receives when a taken slot is returned.
	Bell() <-chan struct{}

	// Recall asks other processes for the slots that they were lent, which stay Reserved until
	// those have replied, or for 30 ms.
	Recall()

	// Strays returns a channel that receives when the worker may hold claims of which it has
	// not heard. While no exchange is under way, the worker then calls Compare, which gives
	// back what it holds and does not know. knows must neither block nor use the offer.
	Strays() <-chan struct{}
	Compare(ctx context.Context, knows func(Stop) bool)
}
