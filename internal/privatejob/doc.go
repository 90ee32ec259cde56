// Package privatejob runs jobs that belong to one process: those of "run" and "exec". No
// worker of the workspace claims them. The package decides which process owns such a job, and
// which job a file and inputs continue after its process has died.
//
// # Types
//
// A [Session] owns one private job and runs it to its end with a worker of its own. The
// process holds the job's name in the store, with a note about itself and its host.
//
// A [Search] finds the unfinished job of a workflow file: [Search.Newest] by file and inputs,
// [Search.Fits] checks a given job, and [Search.Abandoned] reports a job that could be
// continued, so that the same work is not started twice by mistake.
//
// [Settle] waits for the end of canceled jobs whose processes may be dead.
//
// A [Command] is the workflow of one command, [CommandCode] the exit code of its job.
// [Unserved] finds a step that a process without its handler would leave waiting.
//
// # Failures
//
// A process that resumes a job takes over at once what a dead process of this host held, since
// the kernel confirms that the process is dead ([DeadHere]). A lock may outlive its process
// for a moment, in a child that has not yet run its program; resuming waits that long and no
// longer. While the owner lives the error is a Conflict that names it. A job that cannot be
// continued is a [MismatchError], whose reason says what does not fit; the command line adds
// hints that name flags.
//
// A session whose context ends interrupts the running steps and leaves the job unfinished.
//
// # Where to begin
//
// Read session.go, then search.go; command.go stands alone.
package privatejob
