//go:build unix && !linux

package process

func reaper([]string) {}

func familyThatEnds([]string) {}
