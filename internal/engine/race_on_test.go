//go:build race && !full

package engine_test

// raceDetector says that the tests run under the race detector, which makes them
// many times slower: the largest are smaller then, but for `make race`.
const raceDetector = true
