// Package document reads the YAML that people write, strictly: every value has its
// place, all faults are reported at once, and one table of shapes is used to examine a
// file, to make its JSON Schema and to document its keys. The meaning of a kind of file
// is defined elsewhere: in packages workflow and programs/spec. It reads JSON, too: what
// jobs and their steps are given and return (ReadJSON).
//
// The package is pure: no clock, no I/O, no randomness.
package document
