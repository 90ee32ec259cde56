// Package buf holds the protocol of the load agents against the rules of a tool that is not ours,
// and against what other programs rely on (L1). It has tests only. They need npx, which they install
// with apt-get if they may, and download the tool from the registry of npm.
package buf
