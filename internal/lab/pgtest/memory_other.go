//go:build !linux

package pgtest

// scratch returns the folder for clusters that need no disk; empty means os.TempDir.
func scratch() string { return "" }
