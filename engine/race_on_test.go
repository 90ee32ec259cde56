//go:build race

package engine_test

// raceDetector says that the tests run under the race detector, which makes them
// many times slower: the largest are smaller then.
const raceDetector = true
