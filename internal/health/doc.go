// Package health judges whether workers and processes live. It is pure: what a store has observed and
// the times of the query are arguments.
//
// A worker proves that it lives in two ways: it beats, at least three times per silence,
// and it holds the lock of its name. An observer (a server) queries the database at short
// intervals for a [Report] of both, and passes it to its [Judge].
//
// # Silence
//
// Silence is measured by the clock of the database, from the latest of: the last beat, the
// start of the database server, and the beginning of the observer's unbroken contact. So
// no worker is declared dead because the database was down, for all or for this observer:
// after an outage each worker has the whole silence to beat again. Contact breaks when
// queries fail for the time of a beat, when the observer itself was stopped, and when the
// clock of the database was set. A single query that fails and succeeds when it is
// repeated at once does not break it.
//
// # Locks
//
// A lock that was released by its owner, or by the kernel when its process died, proves
// that the worker is gone. A lock that a server dropped with a connection does not, since
// the process may be reconnecting. Such a worker is gone only if one observer finds the
// lock unheld in two queries that are [Apart], with no beat between, and it has been
// silent for two beats.
//
// # Processes
//
// Processes without a worker report that they live, too. Whether any process evaluates jobs
// is judged from these reports, the roles in them, and the living workers ([Evaluated]).
//
// # Losses
//
// A step whose worker has died too often is given up, since the step may be what kills its
// workers. Only a death that the step can have caused counts: that of a worker that is
// gone, or is silent while others beat. If all are silent, the database or the network is
// the cause.
//
// # Isolation
//
// A worker without contact to the database keeps running by default. Where a step or its
// worker asks for isolation "stop", the worker ends such steps by [Deadline], and the
// observers release such a step only when the worker has been silent for the whole
// silence.
//
// # Doctor
//
// The other half of the package is the catalogue of checks of "pawl doctor" ([Checks]),
// with their thresholds, and the judgement of what stores have measured ([Examine]).
// Stores measure; this package does no I/O.
package health
