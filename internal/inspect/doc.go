// Package inspect evaluates what a client returns about jobs: it finds the job that a
// few digits mean, compares two jobs, follows a job until it has ended, and selects
// jobs by a filter. It prints nothing: package console does.
//
// # What there is
//
// [Job] and [Worker] find what a text means: a whole id, enough of its digits, a name,
// or the newest job. They search a limited number of the newest ones, and refuse an
// ambiguous text.
//
// [Follow] calls a function with each state of a job until it has ended; [UntilEnded]
// calls one without the state. [StderrTail] returns the end of what a failed step wrote
// to its standard error, [TimedOut] reports whether a job was canceled by its own
// deadline.
//
// [History] calls back with the moves of a job, or of one of its steps.
//
// [Compare] returns the [Diff] of two jobs, which marshals to JSON as a whole.
//
// [Approvals] returns the steps that wait for one, [VersionOf] a version of a workflow with
// its hash.
//
// [Select] returns the jobs of a query as candidates for a verb that is applied to many:
// [WithoutChildren] leaves out those that their parents reach, [Lineage.Without] those
// that have been retried before.
//
// # Failures
//
// Errors are those of the client, or a pawl.Error of kind NotFound or Invalid. Their
// hints name no commands: the command line adds those.
//
// # Where to begin
//
// Each file stands by itself. references.go has the rules by which a job is named.
package inspect
