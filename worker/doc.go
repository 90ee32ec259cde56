// Package worker claims steps, runs them, and reports their outcomes.
//
// New makes a worker, Handle gives it Go functions by the names of their handlers, and
// Run works until its context ends. A function of Handle gets the with of a step as a
// Go value and returns another one, the output. It finds its Task by TaskOf. After an
// error the step is tried again, as its retry policy says; Permanent makes an error
// final, and Snooze is for a step that has to wait.
//
// Below that, a Handler runs one attempt of one step, which reaches it as a Task.
// Command runs programs and scripts, HTTP sends requests, Func wraps a Go function, and
// Safely contains a handler that panics; these are named in Config.Handlers, and
// Config.Middleware wraps all of them. Handlers know neither engine nor store, and the
// worker uses its engine only through package link.
//
// # Commands
//
// A command is run without a shell, a script by sh -e from a file, into which no
// expression is ever pasted. Both get
//
//   - a process group of its own, and standard input from /dev/null, or
//     CommandConfig.Stdin;
//   - of this process's environment only PATH, HOME, USER, LOGNAME, SHELL, LANG, LC_*,
//     TZ and TMPDIR (and what CommandConfig.Pass names), then the step's env, then
//     PAWL_JOB_ID, PAWL_STEP_ID, PAWL_ATTEMPT, PAWL_CLAIM (the fence: it only rises,
//     also where an attempt is refunded), PAWL_INPUT and PAWL_OUTPUT;
//   - at PAWL_INPUT a JSON file: inputs, the outputs of the steps that it needs, item
//     and matrix;
//   - at PAWL_OUTPUT the path of a file that does not exist yet. JSON that is written
//     there is the output, whatever the step's output mode is. A file that is missing
//     or empty leaves the output to stdout.
//
// Both files are in a temporary folder of the attempt, which is removed at its
// end. A worker that is killed leaves it behind, and perhaps descendants of the
// command; the next worker of this user on this machine kills them (Linux) and
// removes the folder before it runs its first command.
//
// When the context ends, the group gets SIGTERM and, after Limits.Grace,
// SIGKILL. When the program ends, what is left of its group is killed. A process
// that left the group (setsid) is out of reach: its output is no longer read
// after Limits.Drain, and it is not killed. On Linux the program itself, though
// not its children, is killed when this process dies.
//
// # Output
//
// Mode none is null; text a string with one trailing newline cut; lines a list
// of strings; json the value that was printed. Bytes that are not UTF-8 become
// U+FFFD, and the log says so. The output, and the stdout that it is taken from,
// are at most Limits.Output bytes. With mode none a command may print any amount.
//
// # HTTP
//
// The output of a request is an object:
//
//	{"status": 200, "headers": {"content-type": "application/json"}, "body": {"id": 7}}
//
// Names of headers are in lower case, several values are joined by a comma and a
// space, and Set-Cookie is left out. With mode text, the default, the body is the
// value of a response of a JSON content type, else a string; with lines a list of
// strings; with json it has to be JSON. With none the whole output is null.
//
// # Transactions
//
// A step may run more than once: its worker may die after the effect and before the
// report. A handler whose effects are in the database of Pawl makes them happen exactly
// once by completing the step in the same transaction:
//
//	worker.Handle(w, "book", func(ctx context.Context, order Order) (struct{}, error) {
//		tx, err := pool.Begin(ctx)
//		if err != nil {
//			return struct{}{}, err
//		}
//		defer tx.Rollback(ctx)
//		if _, err := tx.Exec(ctx, "update stock ..."); err != nil {
//			return struct{}{}, err
//		}
//		if err := worker.CompleteTx(ctx, tx, worker.TaskOf(ctx), booked); err != nil {
//			return struct{}{}, err
//		}
//		return struct{}{}, tx.Commit(ctx)
//	})
//
// Call it last, and end the transaction before the handler returns. Until it ends the
// step is locked: a cancellation of the job waits, and so do the reports of this
// worker. The outcome is applied after the commit.
//
// A handler that returns nil though its transaction was not committed fails, with the class
// not_committed. One that returns an error has the outcome of that error, unless the
// transaction was committed: then the step is complete.
//
// # Classes of failures
//
// What a Failure's Class says, and whether it is permanent:
//
//	exit_N               retryable  exit status N, unless N is among Task.PermanentExitCodes
//	signal_N             retryable  killed by signal N, and not by us
//	start_failed         retryable  no process, temporary folder or file could be made
//	not_found            permanent  no such program, or none for its #! line
//	not_executable       permanent  the program may not be executed, or is no program
//	dir_not_found        permanent  the working directory is missing or is none
//	invalid_work         permanent  argv, env or request cannot be used
//	invalid_input        permanent  a with that is not what the function of Handle takes
//	invalid_output       permanent  output that is not the JSON it has to be
//	invalid_snooze       permanent  a Snooze that is not of 1ms to 366 days
//	output_too_large     permanent  output over Limits.Output
//	http_N               T1         an unexpected status: 408, 425, 429 and 5xx retryable, others permanent
//	network              retryable  no answer, or half of one
//	too_many_redirects   permanent
//	redirect_refused     permanent  a redirect that would take a body or headers to another origin, or leads from https to http
//	timeout              retryable  the context ended with ErrTimeout or its deadline
//	canceled             retryable  ... with ErrCanceled or plainly
//	interrupted          retryable  ... with ErrInterrupted
//	not_committed        retryable  nil was returned, but the transaction of CompleteTx was not committed
//	panic                retryable  the handler panicked, or ended its goroutine
//	error                retryable  an error without a class (T6)
package worker
