// Package health judges whether workers live. It is pure: what a store has seen and
// the times at which it was asked arrive with the call.
//
// A worker proves its life in two ways: it beats, a third of the silence apart or
// less, and it holds the lock of its name. An observer (a server) asks the database
// at short intervals for a Report of both, and hands it to its Judge.
//
// # Silence
//
// Silence is measured by the clock of the database, from the latest of: the last beat,
// the start of the database server, and the observer's first contact in an unbroken
// run of contact. So nobody is dead because the database was away, for everybody or
// for this observer: after an outage each worker has the whole silence to be heard
// again. Contact breaks when a question has had no answer for the time of a beat,
// when the observer itself stood still, and when the clock of the database was set.
// One failed query that is answered at once when it is repeated does not break it.
//
// # Locks
//
// A lock that was released by its owner, or by the kernel when its process died, is
// proof: the worker is gone. A lock that a server dropped with a connection is not,
// since the process may be connecting again. Such a worker is gone only if one
// observer finds it unheld in two looks that are Apart, with no beat between, and it
// has been quiet for two beats.
//
// # Losses
//
// A step whose worker has died too often is given up, since it may be what kills its
// workers. Only a death that the step can have caused counts: that of a worker that is
// gone, or is silent while others beat. Silence of all of them is the database's or
// the network's doing.
//
// # Isolation
//
// A worker that is cut off from the database runs on by default. Where a step or its
// worker asks for isolation "stop", its worker ends what runs by Deadline, and the
// observers release such a step only when a verdict is Full: the worker has been quiet
// for the whole silence.
//
// The other half is the catalogue of checks of "pawl doctor" (Checks), with their
// thresholds, and the judgement of what stores have measured (Examine). Stores
// measure; this package does no I/O.
package health
