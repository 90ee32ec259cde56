// Package trail checks the audit trail as a whole: that of a database, one that was
// exported, and two checkpoints against each other. How an entry, an anchor and a trail
// are checked is in packages audit and store; this package goes through all of them and
// says what it found.
//
// # Types
//
// [Verify] and [VerifyExport] return a [Verdict]: counts, what retention removed, and the
// first [Fault]. [Compare] returns a [Comparison] of two checkpoints, and hands each
// difference over as it is found, so that there may be any number of them. All of these
// marshal to the JSON that the command line shows. A [Checkpoint] is opened from a file, or
// of a store as it is now ([Current]).
//
// # Failures
//
// A broken trail is no error: it is the fault of a verdict. An error says that the check
// could not be made. A line of an export that is no entry is a fault with [CodeLine].
//
// # Where to begin
//
// Read Verify in verify.go.
package trail
