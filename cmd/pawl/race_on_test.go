//go:build race && !full

package main

// killRounds is how many runs are killed on each store (T10, and the promise of
// --resume): fewer where `make test` has much else to do; see race_off_test.go.
const killRounds = 20
