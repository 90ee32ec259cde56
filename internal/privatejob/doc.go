// Package privatejob runs jobs that belong to one process: those of "run" and "exec",
// which no worker of the workspace claims. It decides who owns such a job, and which one
// a file and inputs continue after its process has died.
//
// # Types
//
// A [Session] runs one private job to its end with a worker of its own, as its owner: the
// process holds the job's name in the store, with a note of itself and its host.
//
// A [Search] finds the unfinished job of a workflow file: [Search.Newest] by file and
// inputs, [Search.Fits] checks one that was named, and [Search.Abandoned] reports one
// that could be continued, so that nobody starts the same work twice by mistake.
//
// [Settle] waits for the end of jobs that were canceled, whose processes may be dead.
//
// A [Command] is the workflow of one command, [CommandCode] the exit code that its job
// stands for. [Unserved] finds the step that a process without its handler would wait for.
//
// # Failures
//
// Whoever resumes a job takes over at once what a dead process of this host held, since
// the kernel says that it is dead ([DeadHere]). A lock may outlive its process for a
// moment, in a child that has not yet run its program; that is waited for, and no longer.
// While the owner lives the error is a Conflict that names it. A job that cannot be
// continued is a [MismatchError], whose reason says what does not fit; hints that name
// flags are added by the command line.
//
// A session whose context ends interrupts what runs and leaves the job unfinished.
//
// # Where to begin
//
// Read session.go, then search.go; command.go stands by itself.
package privatejob
