// Package controller has agents run a load together: it prepares all of them, measures their
// clocks, starts them at one time, and adds up what they send (L7).
//
// [Run] is a whole run. It opens a stream to each agent, sends the config to all once all are
// connected, and waits until they are ready. Then it measures each agent's clock with many short
// messages, of which the fastest counts, and sends each agent the start time by that agent's own
// clock. While the load runs it adds up the intervals of the agents and passes them on. When an
// agent has ended, its result is fetched, checked against its hash and acknowledged.
//
// # Goroutines
//
// One goroutine, that of Run, owns all state. An agent has one goroutine that receives and one
// that sends, and for a while one that measures or fetches; they pass functions to the first one.
// It never waits for the network: a message that cannot be queued means that the agent is lost.
//
// # Failures
//
// An agent that fails counts against the policy of the test. Once too few are left, the others
// are aborted and the run has failed, for the reason that came first. Each wait has a limit:
// for a connection, for progress, for the start, for the end, and for any sign of life. A
// stream that breaks ends the run of its agent, which keeps the result; it is fetched by the id
// of the run.
//
// # Where to begin
//
// Read run.go: execute is the course of a run. agent.go has the stream, beat.go the limits.
package controller
