// Package link is what a worker says to an engine, and what it is told. The engine
// implements Worker; package worker calls it and knows neither engines nor databases. So
// a worker may be in the process of its engine, or reach one from elsewhere.
//
// # The life of a worker
//
// Register makes its record, and takes the name by which others see that its process
// lives. From then on the worker visits: each Exchange brings Reports of what has ended
// and the number of free slots, and returns Assignments. For each of these it asks for
// the StepInput, runs the step, and hands what is printed to AppendLogs. Beside that it
// beats. A Pulse names the claims that it runs; the Pulsed says which of these are to
// stop and which the worker has lost, what state the worker is in, and whether there is
// work. A worker that drains ends its record with MoveWorker, or with Terminate if it has
// never had a task, and then releases its name.
//
// Slots for which there was nothing to claim are lent (LendSlots): a job that is submitted in
// the worker's own process then begins in the commit that makes it.
//
// # Fencing
//
// Claimed.Claims is the number of a claim, and only rises. A Report carries it back. One
// that is not of the step's last claim, or of a step that is not in progress any more, is
// kept as a refused fact and is no error: whoever has the step now is not disturbed.
//
// # Transactions of users
//
// A handler may store its success in a transaction of its own, together with its effects
// (CompleteTx). Whether that was committed, only the database can tell. So the worker
// reports such a step as failed, and says that it is Settled: the failure counts only if
// the step is still in progress.
//
// # Failures
//
// Exchange is one commit. An error that is Retryable says that the commit failed as a
// whole: the worker keeps its reports and sends them again. An outcome that is unknown
// is settled by the engine, and a report that comes twice is refused by its fence, so
// that sending it again does no harm. Any other error is of single reports, which
// are not sent again.
//
// ErrWorkerEnded says that somebody has ended the worker, though it lives. It asks
// WorkerEnd who: if an operator, it stops; otherwise it was taken for dead, drops what it
// runs and registers anew. Its Predecessor names what it has lost, so that those steps
// are not charged with the loss of a worker (T7). ErrUnknown from Register says that this
// may have been done already: the next Registration names no claims.
//
// While nobody answers (errors of kind Unavailable) the worker goes on with what it runs,
// and asks again. Only what must not overlap it ends in time (workflow.IsolationStop).
//
// Begin to read at Worker.
package link
