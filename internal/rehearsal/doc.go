// Package rehearsal has a job in memory that goes through its states without an engine: no
// step is run, and nothing is stored. Packages verify and simulate are built on it.
//
// # Types
//
// A [World] is one job with its steps and a clock that the caller sets. It is the
// decide.JobTx on which the engine's own decisions are made, and they see in it what their
// read sets let them see in the engine. What can happen to a job is a method: Start, Claim,
// Report, Fire, Cancel, Approve, Send. Each makes the decision and then evaluates marks until
// the job rests (world.go). The expressions of the file are really evaluated for that
// (answers.go).
//
// A [Mind] decides what cannot be known before a job runs: the value of a condition whose
// inputs are made up, the items of a list. It is where verification and simulation differ.
//
// A [Timeline] has a [Row] for each move of the job and its steps, and for what was said
// about them with [World.Say] (trace.go). Worlds that are cloned share the rows before that.
//
// # Failures
//
// An event that the table refuses, marks that do not come to rest, and a broken invariant
// ([World.Check]) are errors of Pawl and not of the definition. A step that fails is no error.
//
// The package is pure: no clock, no I/O, no randomness. A World is not safe for concurrent
// use.
//
// # Where to begin
//
// Read World, do and settle in world.go.
package rehearsal
