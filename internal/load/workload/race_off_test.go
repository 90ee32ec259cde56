//go:build !race

package workload

// raced says that the race detector is on.
const raced = false
