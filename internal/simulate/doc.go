// Package simulate runs one made-up course of a job on a clock of its own, as "pawl simulate"
// shows it: no step is run. Durations, outcomes, outputs, approvals and signals come from a
// seed, so the same seed gives the same course.
//
// # Types
//
// [Run] takes a [Config] (the seed, the inputs, and the [Fault]s to add) and returns a
// [Result]: the timeline, and how the job ended. [Many] runs a row of seeds and returns an
// [Outlook] of their ends.
//
// A simulation has a rehearsal.World for the job and one for each child job, and an agenda of
// what is going to happen. It goes from event to event: arrange finds the steps that have
// changed, and puts on the agenda what follows from that (simulate_steps.go): a claim, the end
// of an attempt, a decision of a person, a signal. Deadlines are not on the agenda: they are
// read from the records, as in the engine. A simulation is the rehearsal.Mind of its worlds:
// what cannot be evaluated with made-up values is taken as true, or as two items.
//
// # Failures
//
// An error means that the inputs are wrong. A job that cannot end, or that breaks an
// invariant, is a Result with Broken set: a fault of Pawl, or a wait without an end.
//
// # Where to begin
//
// Read run, upcoming and arrange in simulate.go, then arrangeEnd in simulate_steps.go.
package simulate
