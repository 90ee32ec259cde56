// Package agent serves the protocol of load agents: a machine for each run, an engine process
// for its work, and the results of the last day (L1 to L6).
package agent
