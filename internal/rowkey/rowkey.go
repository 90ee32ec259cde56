// Package rowkey has the types of the keys by which stores know records, so
// that the key of a worker is not taken for that of a job. Users know records by
// their ids (pawl.ID), which these keys are taken from, or by their names.
//
// The key 0 is that of no record. Keys are int64 only where a store binds and scans
// columns, and where records of every kind are treated alike: in retention,
// checkpoints and walks through trails.
package rowkey

type (
	// Job is the key of a job.
	Job int64

	// Worker is the key of a worker.
	Worker int64

	// Schedule is the key of a schedule.
	Schedule int64

	// Token is the key of a token.
	Token int64

	// QueuePause is the key of a pause of a queue.
	QueuePause int64

	// Webhook is the key of a webhook.
	Webhook int64

	// Definition is the key of a definition, taken from its hash.
	Definition int64

	// Pool is the key of a pool of slots, taken from its workspace and name.
	Pool int64

	// Route is the key under which steps wait for a worker, taken from their queue
	// and handler. There is no record of it.
	Route int64
)
