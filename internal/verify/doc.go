// Package verify tries a workflow before it runs: Simulate runs a definition on a clock
// of its own with made-up outcomes, and Verify finds faults of a valid definition by
// going through the outcomes that its steps can have.
//
// Both run the decisions that the engine runs (decide.Decision), and really evaluate
// the expressions of the file whose values are known. The package is pure: no clock, no
// I/O, and no randomness but that of a seed.
package verify
