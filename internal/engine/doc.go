// Package engine runs jobs: it submits them, weighs outcomes, dispatches steps,
// keeps deadlines and releases what dead processes held. It has no opinion on
// what is legal (package lifecycle) or on what follows from what (package
// workflow): it reads facts, has them decided, and commits.
//
// Every change passes the committer, a group commit without a timer: it takes
// whatever commands wait, reads their facts in one transaction, decides each in
// turn over what the earlier ones changed, and writes once. A refused command
// fails alone.
//
// Any number of engines may work on one database. None leads, each may be
// killed at any moment, and what it was about to do is found by the others from
// marks and deadlines in the database.
package engine
