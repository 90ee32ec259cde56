// Package workflow defines workflows: the file that people write, the same as a Go
// literal, its checks, its expressions and its canonical form (T12). docs/workflow.md
// is the reference of the file.
//
//	Parse (YAML) ─┐
//	File.Build ───┼─► tree of values ─► examined against ─► canonical ─► Definition
//	Load (JSON) ──┘   (document)        one table of keys     JSON        compiled graph
//
// All of them lead to one [Definition], so a workflow has the same meaning and hash
// however it was written. The canonical JSON is what is stored and hashed; Load
// compiles it again.
//
// # Types
//
//   - [File], [Step] and their parts are the Go literal. [Problems] are the faults of a
//     file, each with its place.
//   - [Definition] is the compiled graph. Its nodes are numbered from 1, in the order
//     of the file; the numbers are keys of what is stored, and never change
//     ([Definition.Ordered]).
//   - [Scope] holds what expressions see: inputs, outputs of steps, the item of an
//     instance. Eval methods of a Definition evaluate the expressions of a node in a
//     Scope, with a limit of steps and of bytes.
//   - [Diff] is the difference of two definitions; a [Passage] takes jobs from one to
//     the other.
//
// The package is pure: no clock, no I/O, no randomness. What follows from a step's outcome
// is decided elsewhere; this package knows no running job.
//
// # Where to begin
//
// keys.go is the table of keys, from which the checks, the JSON Schema and the
// reference are made; each row names the check of its key (examine_across.go checks
// what concerns several keys). compile.go makes the graph.
package workflow
