// Package journal has the journals of package programs: one that keeps programs running when
// the disk does not record what they do, and one in memory.
//
// # Types
//
// A [Deferred] wraps another supervisor.Journal, and its Append does not fail because of the
// disk. What the other journal refuses, or has not appended within 5 s, is kept in memory, at
// most 100 entries for each service. [Deferred.Run] writes it when the journal works again,
// [Deferred.Finish] tries one last time, and [Deferred.Unrecorded] says what is missing.
//
// If there are too many entries, those that lead back to a state on the way are dropped, and the
// rest is numbered and sealed again, so that the written trail is legal by the table. From
// then on the numbers of the supervisor are ahead of those in the trail.
//
// A [Ring] keeps the last 200 entries of each trail in memory, and is for a process without a
// journal.
//
// # Failures
//
// A conflict (another writer has written to the trail) is returned by Append, as by any
// journal: the disk is not to blame. If it shows only when deferred entries are written, those
// of the service are dropped and counted. What is in memory when Finish has to give up is lost.
//
// # Locks
//
// The mutex of a Deferred is held alone, and never while the other journal is called.
//
// # Where to begin
//
// Read Append and flush in deferred.go, then compact.
package journal
