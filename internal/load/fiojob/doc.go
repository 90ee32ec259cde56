// Package fiojob turns the job files of fio into load files: the common part of them, for one job.
// An option that is not understood is an error, unless it cannot change what is measured.
//
// The package is pure: no clock, no I/O, no randomness.
package fiojob
