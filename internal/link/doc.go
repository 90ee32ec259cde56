// Package link is the interface between workers or clients and an engine. The engine
// implements Worker; package worker calls it and knows neither engines nor databases.
// So a worker may run in the process of its engine, or elsewhere.
//
// # The life of a worker
//
// Register makes its record, and takes the name by which others see that its process
// lives. From then on the worker visits: each Exchange passes Reports of what has ended
// and the number of free slots, and returns Assignments. For each assignment the worker
// reads the StepInput, runs the step, and passes its output to AppendLogs. Meanwhile it
// beats. A Pulse names the claims that it runs; the Pulsed says which of these have to
// stop and which the worker has lost, what state the worker is in, and whether there is
// work. A worker that drains ends its record with MoveWorker, or with Terminate if it
// has never had a task, and then releases its name.
//
// Slots for which there was nothing to claim are lent (LendSlots): a job that is submitted in
// the worker's own process then begins in the commit that makes it.
//
// # Fencing
//
// Claimed.Claims is the number of a claim, and only rises. A Report carries it back. A
// report of an earlier claim, or of a step that is no longer in progress, is kept as a
// refused fact and is no error: it does not affect the worker that has the step now.
//
// # Transactions of users
//
// A handler may store its success in a transaction of its own, together with its
// effects (CompleteTx). Only the database knows whether that was committed. So the
// worker reports such a step as failed and Settled: the failure counts only if the step
// is still in progress.
//
// # Failures
//
// Exchange is one commit. An error that is Retryable says that the commit failed as a
// whole: the worker keeps its reports and sends them again. The engine settles an
// unknown outcome, and the fence refuses a report that comes twice, so sending it again
// does no harm. Any other error concerns single reports, which are not sent again.
//
// ErrWorkerEnded means that the worker was ended though it lives. WorkerEnd returns by
// whom: if by an operator, the worker stops; otherwise it was taken for dead, drops
// what it runs and registers anew. Its Predecessor names what it has lost, so that
// those steps are not charged with the loss of a worker (T7). ErrUnknown from Register
// means that this may have been done already: the next Registration names no claims.
//
// While the engine does not respond (errors of kind Unavailable) the worker continues
// its steps and tries again. It ends only what must not overlap, in time
// (workflow.IsolationStop).
//
// # Workers of other machines
//
// A worker that has no way to the database talks to a server, which uses the engine as
// Remote. No lock says whether such a worker lives: its beats do. Its exchanges have turns,
// so that one which was held up and is over for the worker claims nothing.
//
// Read Worker first.
package link
