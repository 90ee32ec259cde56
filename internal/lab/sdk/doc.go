// Package sdk finds what runs the SDKs in sdk/python and sdk/js, and has their tests: each
// behaviour that they promise, with real interpreters and a real server (T11).
//
// Python and npm are installed with apt-get where they are missing. A Node.js that is too old
// is left alone: one from the registry of npm is used instead. testdata/worker.py and
// testdata/worker.mjs are the workers of the tests, here and in internal/lab/chaos.
package sdk
