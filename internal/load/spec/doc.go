// Package spec reads the files that describe a load: what is prepared, which operations run at
// which rate, when the run ends, and what counts as failure. docs/load.md documents every key.
//
// A file is read on the controller, which reports all faults at once, and again on each agent,
// which trusts nobody: what one accepts the other does, too.
//
// The package is pure: no clock, no I/O, no randomness.
package spec
