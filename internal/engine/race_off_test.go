//go:build !race || full

package engine_test

// raceDetector: see race_on_test.go.
const raceDetector = false
