// Package decide decides the consequences of what happened to one job: which steps
// become ready, are retried, cancelled or blocked, what a fan-out makes next, and when
// and how the job ends. It is pure: no clock, no I/O, no randomness. The engine commits
// what it decides; packages verify and simulate, and the tests, play it in memory.
//
//	  what happened                 Decision                 what follows
//	┌───────────────────┐    ┌───────────────────────┐    ┌──────────────────────────┐
//	│ Start   Claim     │    │ Definition  the graph │    │ JobTx.Move, MoveJob      │
//	│ Report  Fire      │───►│ JobTx       the job   │───►│ JobTx.Make, Spawn, Take  │
//	│ Evaluate  End     │    │ Now, Jitter           │    │ JobTx.Save: counters,    │
//	│ Cancel  Pause ... │    │ Answers  what was     │    │   deadlines and marks    │
//	└───────────────────┘    │          evaluated    │    └──────────────────────────┘
//	                         └───────────────────────┘
//
// # Types
//
// A [Decision] has a method for each thing that can happen to a job. It reads and moves
// the job through a [JobTx], which the engine implements, and the simulator. Its work
// is proportional to what changed: the outcome, the steps that depend on it, and the
// counters of the job (open and active steps), of each step (unmet needs) and of a
// fan-out (instances made and live). It never goes through the whole graph.
//
// A [ReadSet] says what must be in sight for one of these methods; only the functions
// in reads.go define read sets. Reading beyond one is a [NotAskedError]. What was asked
// for and does not exist is nil.
//
// # Marks
//
// Some things cannot be decided at once: an expression has to be evaluated first (if,
// foreach, an output), or what a failure touches is out of sight. The decision then stores
// the outcome and marks the record (pawl.Attention). The engine evaluates outside of any
// transaction, and calls Evaluate with the [Answers] and the steps in sight. A mark is all
// that has to survive a crash; [StalledJob] and [StalledStep] find a wait without one.
//
// # Ends
//
// A job whose last open node has ended first settles how it ends, then runs its hooks, and
// then moves to its last state (close.go, hooks.go). A failed step cancels what runs, or,
// with on_error: drain, blocks what is behind it until all else has ended (end.go).
//
// # Where to begin
//
// Read Decision.Report in decide.go and what it calls: ApplyOutcome, follow, finish. A retry is
// decided in retry.go, an approval in approval.go, and what follows when a deadline passes,
// a timeout included, in deadline.go. The scenarios in testdata/decide show every case with
// the trail that it leads to.
package decide
