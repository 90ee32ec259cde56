// Package inspect works out what people and programs ask about jobs beyond what a client
// returns directly: which job a few digits mean, what differs between two jobs, what a
// job does until it has ended, which jobs a filter selects. It writes nothing: package
// console does.
//
// # What there is
//
// [Job] and [Worker] find what a text means: a whole id, enough of its digits, a name, or
// the newest job. They look among a limited number of the newest ones, and refuse a text
// that may mean several.
//
// [Follow] calls back with each state of a job until it has ended; [UntilEnded] calls
// back without one. [StderrTail] returns the end of what a failed step wrote to its
// standard error, [TimedOut] reports whether a job was canceled by its own deadline.
//
// [Compare] returns the [Diff] of two jobs, which marshals to JSON as a whole.
//
// [Select] returns the jobs of a query as candidates for a verb that is applied to many:
// [WithoutChildren] leaves out those that their parents reach, [Lineage.Without] those
// that have been retried before.
//
// # Failures
//
// Errors are those of the client, or a pawl.Error of kind NotFound or Invalid. Their
// hints name no commands: whoever has a command line adds those.
//
// # Where to begin
//
// Each file stands by itself. references.go has the rules by which a job is named.
package inspect
