// Package verify tries a workflow before it costs anything: Simulate runs a
// definition on a clock of its own with made-up outcomes, and Verify looks for
// what is wrong with a definition that is valid by itself, by going through what
// its steps can come to.
//
// Both run the decisions that the engine runs (decide.Decision), and evaluate
// the expressions of the file for real wherever it is known what they name. The
// package is pure: no clock, no I/O, and no randomness but that of a seed.
package verify
