// Package exchange is the protocol of workers over HTTP (docs/workers.md): its messages, what
// they are for an engine, and how a server answers an exchange.
//
// Package api serves the messages, package remote sends them. An Exchange has the turn of the
// worker's conversation; see link.Remote for what that is for.
//
// What a step needs to be run is in the answer (Step), since a worker elsewhere cannot read
// it: the server evaluates the expressions of the step. Where that fails, or where the result
// of another job is used, the server reports the step itself, and does not deliver it.
//
// Submissions of jobs, and what became of them, are here, too: QuickRequest, QuickBatch and the
// other functions with Quick, and AppendJSON, are encoding/json for the messages that are sent
// most, without its reflection.
package exchange
