package link

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/machine"
)

// Worker is what a worker asks of an engine. It is safe for concurrent use. An error of
// kind Unavailable says that nobody answered: the worker asks again.
type Worker interface {
	// Register makes a worker under an id of its own, and holds its name for as long as
	// this process lives, or until release.
	Register(ctx context.Context, r Registration) (w *pawl.Worker, release func(), err error)

	// LendSlots lends the free slots of a registered worker to what is submitted in this
	// process. Each step that is claimed for it is handed to run, which must neither
	// block nor use the offer.
	LendSlots(w *pawl.Worker, run func(*Assignment)) Slots

	// Exchange reports and claims in one commit (T3). A report that came too late is no
	// error. ErrWorkerEnded says that the worker has ended; an error that is Retryable,
	// that nothing was decided and the same reports are to be sent again.
	Exchange(ctx context.Context, x Exchange) ([]Assignment, error)

	// CompleteTx stores the success that a report brings within a transaction of the user.
	// If the claim is lost, the error is of kind Conflict. When the handler has returned,
	// the worker reports a failure that is Settled.
	CompleteTx(ctx context.Context, tx any, r Report) error

	// StepInput returns what running an assignment takes. A failure is the step's: its
	// expressions do not evaluate.
	StepInput(ctx context.Context, a *Assignment) (*StepInput, *pawl.Failure, error)

	// AppendLogs stores what steps have printed. A chunk that is stored already is not
	// stored again.
	AppendLogs(ctx context.Context, chunks []pawl.Chunk) error

	// Beat says that the worker lives, and returns what it has to know.
	Beat(ctx context.Context, p Pulse) (*Pulsed, error)

	// Stops returns a channel that receives when a running step may have been asked to
	// stop, or a worker was ended: the next beat tells. It may miss some.
	Stops() <-chan struct{}

	// Hears reports whether hints of new work arrive at this moment. Where they do not,
	// the worker has to ask for work.
	Hears() bool

	// MoveWorker applies an event of the worker's table: complete_tasks when it has
	// drained, pause, resume. One that the worker's state does not allow is an error of
	// kind Conflict.
	MoveWorker(ctx context.Context, worker int64, event machine.Event, note decide.Note) error

	// Terminate ends a worker in whatever state it is, and gives what it runs to others.
	Terminate(ctx context.Context, worker int64, note decide.Note) error

	// Followed reports whether anybody is seen who evaluates jobs, fires deadlines and
	// follows schedules: a worker does not.
	Followed(ctx context.Context) (bool, error)

	// WorkerEnd returns who has ended a worker, and why.
	WorkerEnd(ctx context.Context, worker int64) (WorkerEnd, error)

	// EndedJobs returns those of the jobs that will not run again: they have ended, or do
	// not exist any more. With an error it returns those that it knows of.
	EndedJobs(ctx context.Context, jobs []int64) ([]int64, error)
}

// Slots are the free slots of a worker that has found nothing to claim. Each slot is in
// one hand: offered, taken by a commit under way, running, or the worker's own, which
// uses what is not Reserved.
type Slots interface {
	// Add offers so many slots more, unless the worker has yet to look at the queue.
	Add(slots int)

	// Close lets nothing more be taken, until Add.
	Close()

	// Withdraw ends the offer: nothing is handed over any more.
	Withdraw()

	// Reserved returns how many slots are offered, or taken by commits under way.
	Reserved() int

	// Unreserved returns how many of the free slots are the worker's to use. Nothing is
	// handed over while free counts them.
	Unreserved(free func() int) int

	// Work returns the channel that receives when there may be something to claim, and
	// Hear reports whether it has since Hear was last called. From then until Hear
	// nothing is offered.
	Work() <-chan struct{}
	Hear() bool

	// Bell returns a channel that receives when a slot that was taken came back.
	Bell() <-chan struct{}
}
