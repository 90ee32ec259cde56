// Package workflow is what a workflow is: the file that people write, the same thing as a
// Go literal, its checks, its expressions and its canonical form (T12). docs/workflow.md
// is the reference of the file.
//
//	Parse (YAML) ─┐
//	File.Build ───┼─► tree of values ─► examined against ─► canonical ─► Definition
//	Load (JSON) ──┘   (document)        one table of keys     JSON        compiled graph
//
// All ways lead to one [Definition], so that a workflow means and hashes the same however
// it was written. The canonical JSON is what is stored and hashed; Load compiles it again.
//
// # Types
//
//   - [File], [Step] and their parts are the Go literal. [Problems] is all that is wrong
//     with a file, each with its place.
//   - [Definition] is the compiled graph. Its nodes are numbered from 1, in the order of the
//     file; the numbers are keys of what is stored, and never change ([Definition.Ordered]).
//   - [Scope] holds what expressions see: inputs, outputs of steps, the item of an instance.
//     Eval methods of a Definition evaluate the expressions of a node in a Scope, with a
//     limit of steps and of bytes.
//   - [Diff] is what differs between two definitions, [Passage] how jobs get from one to the
//     other.
//
// The package is pure: no clock, no I/O, no randomness. What follows from a step's outcome
// is decided elsewhere; this package knows no running job.
//
// # Where to begin
//
// table.go is the table of keys, which the examination, the JSON Schema and the reference
// are made from; each key is checked where its row says (examine_across.go checks what
// concerns several keys). compile.go makes the graph.
package workflow
