// Package inspect evaluates what a client returns about jobs: it finds a job by a few digits
// of its id, compares two jobs, follows a job until it has ended, and selects jobs by a
// filter. It prints nothing; package console does.
//
// # Functions
//
// [Job] and [Worker] resolve a text: a whole id, enough of its digits, a name, or the newest
// job. They search a limited number of the newest ones, and refuse an ambiguous text.
//
// [Follow] calls a function with each state of a job until it has ended; [UntilEnded] calls
// one without the state. [StderrTail] returns the end of what a failed step wrote to its
// standard error, [TimedOut] reports whether a job was canceled by its own deadline.
//
// [History] calls a function with the transitions of a job, or of one of its steps.
//
// [Compare] returns the [Diff] of two jobs, which marshals to JSON as a whole.
//
// [Approvals] returns the steps that wait for an approval, [VersionOf] a version of a
// workflow with its hash.
//
// [Select] returns the jobs of a query as candidates for a bulk operation.
// [WithoutChildren] drops those that their parents reach, [Lineage.Without] those that have
// been retried before.
//
// # Failures
//
// Errors are those of the client, or a pawl.Error of kind NotFound or Invalid. Their hints
// name no commands: the command line adds those.
//
// # Where to begin
//
// Each file stands alone. references.go holds the rules for resolving a job.
package inspect
