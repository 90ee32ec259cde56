//go:build race

package workload

// raced says that the race detector is on, with which operations take ten times as long.
const raced = true
