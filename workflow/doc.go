// Package workflow is what a workflow is: the file that people write, the same
// thing as a Go literal, its checks, its expressions and its canonical form
// (T12). docs/workflow.md is the reference of the file.
//
// Parse, File.Build and Load lead to one Definition by one way: a tree of
// values, examined against one table of keys, normalised to canonical JSON,
// and compiled. So a definition means and hashes the same however it was
// written.
//
// The package is pure: no clock, no I/O, no randomness.
package workflow
