// Package supervise keeps the programs of one file running, as "pawl supervise" does: it
// reads the file again when it has changed, serves the socket, and says on a terminal or
// in lines what happens. Package programs keeps the programs; it knows neither files nor
// terminals.
//
// # Types
//
// A [Supervision] is a programs.Manager that reports what it does. Load reads the file;
// Config is the configuration of the manager, with the hooks that write each change of
// state; Keep runs until its context ends. [OpenJournal] opens the history that the manager
// writes.
//
// # Failures
//
// A file that cannot be read, or is invalid, is reported and changes nothing. It is read
// once a second and applied when it has been the same twice, since an editor may not have
// written all of it the first time. Of an invalid one nothing more is said until it
// changes again.
//
// When the context of Keep ends everything is stopped in order; when its second context
// ends what is left is killed. Processes that had left their services are killed at the
// end. What remains is in the report, and said.
//
// # Locks
//
// The mutex guards what was read last. Reload holds it while it says what has changed,
// and not while the manager applies the file.
//
// # Where to begin
//
// Read Supervision.Keep, then watch.
package supervise
