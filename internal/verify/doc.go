// Package verify finds faults of a valid definition, as "pawl verify" does: an output that may
// not exist, a step that can never run, a wait without an end. It goes through the outcomes
// that the steps of a job can have, on the engine's own decisions, and runs no step.
//
// # Types
//
// [Verify] returns a [Report] with a [Finding] for each fault, and says how much was tried.
// [Report.Locate] adds the lines of the file (place.go), and Text formats it (report.go).
//
// A verification looks at one definition, and at its child workflows in turn. It has two
// sources of findings. An explorer starts with every set of inputs that makes a difference,
// and lets the steps of a rehearsal.World end in every way (explore.go has the states and what
// is left out, ways.go the ways in which a step can end). It is the rehearsal.Mind of its
// worlds: a condition whose value cannot be known is tried both ways (suppose.go), and an
// expression that reads a missing output is a finding (missing.go). The rules about the
// definition itself need no exploration (checks.go, checks_output.go).
//
// Up to [MaxStates] states are explored completely, and beyond that some courses at random;
// [Report.All] says which. The report depends only on the definition and the inputs that are
// given.
//
// # Failures
//
// A fault of the definition is a finding and never an error. An error means that required
// inputs could not be made up, or that the context has ended. A decision that fails is a
// finding too, with the rule "broken": it is a fault of Pawl.
//
// # Where to begin
//
// Read verify in verify.go, then run, follow and key in explore.go.
package verify
