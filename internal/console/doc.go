// Package console writes what people read on a terminal or in a pipe: jobs, steps, workers,
// schedules, services, histories, findings. It takes views that its callers have fetched, and
// an io.Writer. It knows neither flags nor a database.
//
// # Types
//
// A [Follower] shows one job as it changes. There are three: [Live] redraws the job in place
// as a tree; a [Transcript] writes a line for each change; [Silent] shows nothing. A [Frame]
// holds what a drawing depends on besides the job: the size of the terminal, colours, the
// current time, the time zone. Live also draws a [ServiceTable], the table of a supervisor's
// services.
//
// A [Screen] describes a terminal; [ScreenOf] and [Columns] ask the system about it.
//
// Text printed beside a drawing goes through a [LogWriter], which puts it above the drawing.
// An [AsyncWriter] in front of a slow terminal keeps writers from waiting. The output of steps
// goes through a [Prefixer], which keeps the lines of several sources whole, or through a
// [LogPrinter], which writes each piece of a job's log once.
//
// A [Listing] writes a long list, as a table in blocks of rows or as a JSON list, so that a
// list of any length needs little memory. The other functions write one view each.
//
// # Untrusted text
//
// Text that a step printed or a user wrote must not change the terminal. [Printable] and
// [OneLine] replace control characters in text that becomes part of one of our lines.
// [Sanitize] keeps the colours of a line that a step printed and removes all other sequences.
//
// # Times
//
// A nil zone is UTC. [Stamp] formats a time for a line, [Second] for a table; [ParseTime]
// reads either.
//
// # Errors and questions
//
// [Complain] writes an error and its hint, [JobFailure] why a job failed. [Confirm] asks
// the person at a terminal.
//
// # Failures
//
// Functions return the error of their writer. Live is the exception: it ignores the error,
// because a terminal that is gone must not stop a job.
//
// # Where to begin
//
// Read tree.go, the drawing of a job; then live.go, which repeats it, and transcript.go, which
// writes the same changes as lines.
package console
