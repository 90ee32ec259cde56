// Package trail reads and checks audit trails above the contract of a store: the trail of one
// entity, that of a whole database, an exported one, or two checkpoints against each other.
// Package audit checks a single entry, anchor or trail, and is pure; package store passes on
// pages; this package goes through all of them and reports the result.
//
// # Types
//
// [Verify] and [VerifyExport] return a [Verdict]: counts, what retention removed, and the
// first [Fault]. [Compare] returns a [Comparison] of two checkpoints, and passes on each
// difference as it is found, so that there may be any number of them. All of these marshal to
// the JSON that the command line shows.
//
// A [Verifier] takes the trails of a store in their order, each with the payload that it seals
// and the tree of its job. It reads again what was changed, removed or redacted meanwhile, so
// that it finds no fault in a database at work.
//
// [WriteCheckpoint] writes a checkpoint of a store, and a [CheckpointReader] reads one line by
// line. A [Checkpoint] is opened from a file, or made from the present state of a store
// ([Current]). A [Comparer] compares two of them leaf by leaf.
//
// [EachEntry] and [WithheldOf] read the trail of one entity in pages. The engine uses them,
// too.
//
// # Failures
//
// A broken trail is not an error: it is the fault of a verdict. An error means that the check
// could not be made. A line of an export that is not an entry is a fault with [CodeLine].
//
// # Where to begin
//
// Read Verify in verify.go, then Take in verifier.go, and Run in compare.go.
package trail
