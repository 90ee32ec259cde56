// Package expressions reads the expressions of a definition: which outputs, statuses and
// inputs each of them uses, and what they assume about these. From that it makes up the
// inputs and outputs with which a definition is tried: those that make a difference to a
// condition, and as few others as possible. Packages verify and simulate are built on it.
//
// # Types
//
// [Read] returns the [Reading] of a definition, with an [Expr] for each expression of the
// file: its place, what it is evaluated for (a [Use]), and the outputs ([OutputRef]) and
// statuses ([StatusRef]) that it names (uses.go).
//
// A shape is what all expressions together assume about one value: that it is a number, has
// a field, is compared with a literal, or decides a condition (shape.go). [Reading.Inputs]
// and [Reading.Results] make up values of these shapes, the simplest first (inputs.go).
// [Reading.Opaque] reports where such values may not cover all cases, since a condition
// computes with what it reads (opaque.go).
//
// The package evaluates nothing but conditions, to see whether what it has made up takes them
// both ways. It is pure, and depends on the definition alone: the same definition gives the
// same values in the same order.
//
// # Failures
//
// A definition is valid already, so its expressions have a syntax tree. The only error of a
// user is an input that is required and allows none of the values that are made up: Inputs
// returns it with kind Invalid, and names the input.
//
// # Where to begin
//
// Read Read and refs in uses.go, then newShapes and variants in shape.go.
package expressions
