// Package trail checks a whole audit trail: that of a database, an exported one, or two
// checkpoints against each other. Packages audit and store check a single entry, anchor or
// trail; this package goes through all of them and reports the result.
//
// # Types
//
// [Verify] and [VerifyExport] return a [Verdict]: counts, what retention removed, and the
// first [Fault]. [Compare] returns a [Comparison] of two checkpoints, and passes on each
// difference as it is found, so that there may be any number of them. All of these marshal to
// the JSON that the command line shows. A [Checkpoint] is opened from a file, or made from the
// present state of a store ([Current]).
//
// # Failures
//
// A broken trail is not an error: it is the fault of a verdict. An error means that the check
// could not be made. A line of an export that is not an entry is a fault with [CodeLine].
//
// # Where to begin
//
// Read Verify in verify.go.
package trail
