// Package console writes what people read on a terminal or in a pipe: jobs, steps,
// workers, schedules, services, histories, findings. It takes views, which others have
// fetched, and an io.Writer. It knows neither flags nor a database.
//
// # Types
//
// A [Follower] shows one job as it changes. There are three: [Live] draws the job as a
// tree in place, again and again; a [Transcript] writes a line for each change; [Silent]
// shows nothing. A [Frame] is what a drawing depends on beside the job: the size of the
// terminal, colours, the moment, the time zone. Live also draws a [ServiceTable], the
// table of the services of a supervisor.
//
// A [Screen] is a terminal; [ScreenOf] asks the system about it, as [Columns] does.
//
// Whatever is printed beside a drawing goes through a [LogWriter], which puts it above
// the drawing; an [AsyncWriter] before a slow terminal keeps writers from waiting. Output
// of steps goes through a [Prefixer], which keeps lines of several sources whole, or a
// [LogPrinter], which writes the log of a job and each piece once.
//
// Long lists are written by a [Listing], as a table in blocks of rows or as a JSON list,
// so that a list of any length needs little memory. The other functions write one view
// each.
//
// # Text of others
//
// What a step printed, or a user wrote, must not change the terminal. [Printable] and
// [OneLine] replace control characters in a text that stands in a line of ours;
// [Sanitize] keeps the colours of a line that a step printed and removes all other
// sequences.
//
// # Times
//
// A zone of nil is UTC. [Stamp] writes a time for a line, [Second] for a table; [ParseTime]
// reads either.
//
// # Errors and questions
//
// [Complain] writes an error and its hint, [JobFailure] why a job failed. [Confirm] asks
// somebody at a terminal.
//
// # Failures
//
// Functions return the error of their writer. A drawing is the exception: a terminal that
// is gone must not stop a job, so Live ignores it.
//
// # Where to begin
//
// Read tree.go, the drawing of a job; then live.go, which repeats it, and transcript.go,
// which tells the same as lines.
package console
