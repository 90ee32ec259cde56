// Package supervise keeps the programs of one file running, as "pawl supervise" does: it reads
// the file again when it changes, serves the socket, and reports on a terminal or in lines
// what happens. Package programs keeps the programs; it knows neither files nor terminals.
//
// # Types
//
// A [Supervision] is a programs.Manager that reports what it does. Load reads the file; Config
// returns the configuration of the manager, with hooks that write each change of state; Keep
// runs until its context ends. [OpenJournal] opens the history that the manager writes.
//
// # Failures
//
// A file that is unreadable or invalid is reported and changes nothing. The file is read once
// a second and applied after two equal reads, since an editor may not have written all of it
// the first time. An invalid file is reported once, and again only after it changes.
//
// When the context of Keep ends, everything is stopped in order; when its second context ends,
// the rest is killed. Processes that have left their services are killed at the end. What
// still remains is reported and returned.
//
// # Locks
//
// The mutex guards the digest of the last read. Reload holds it while it reports the change,
// and not while the manager applies the file.
//
// # Where to begin
//
// Read Supervision.Keep, then watch.
package supervise
