//go:build unix && !linux

package main

// look is not supported on this platform.
func look(int) (usage, error) { return usage{}, nil }
