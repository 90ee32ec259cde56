// Package document reads the YAML that people write, strictly: every value with its
// place, everything that is wrong at once, and one table of shapes from which a
// file is examined, its JSON Schema is made and its keys are documented. What a
// kind of files means is its own package's: workflow, program.
//
// The package is pure: no clock, no I/O, no randomness.
package document
