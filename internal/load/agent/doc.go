// Package agent serves the protocol of load agents: a machine for each run, an engine process
// for its work, and the results of the last day (L1 to L6).
//
// An [Agent] has one run at a time. The stream of a run is served by three goroutines: a session,
// which alone changes the run, one that receives for it, and one that sends what it leaves in an
// outbox. The session never waits for the controller, nor for the engine: what it waits for are
// messages, frames of the engine, and one deadline. It does wait for the disk that has the state
// folder, which should not be the one under load.
//
// A run ends in this order: the row of the trail, the end of the engine (TERM, then KILL), what
// the run had created is deleted by a new engine, the result is stored, the agent is free for the
// next run, and the final message is sent until it is acknowledged. Whatever fails on the way is
// in the result.
//
// The state folder has, for each run:
//
//	trail/RUN.jsonl     its audit trail, which pawl audit verify reads
//	results/RUN         its result: records, each preceded by its length
//	runs/RUN/job.json   what its engine was told, until the run has been cleaned up
//	runs/RUN/manifest   what the engine has created
//
// An agent that was killed finds a job there when it starts again. It closes the trail of the
// run, cleans up, and stores what there is of the result. The lock of the state folder is shared
// with the engine, so that an agent never starts while an engine of its predecessor still lives.
//
// Locks: Agent.mu guards which run is on. It is never held while anything is waited for.
package agent
