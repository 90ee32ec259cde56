//go:build !race || full

package main

// killRounds: see race_on_test.go. It is as many in `make verify` and `make race`.
const killRounds = 50
