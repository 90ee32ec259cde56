// Package server runs the components of a process as services of package supervisor: the
// parts of an engine, the HTTP port, the control socket. It makes them visible to
// "pawl service" and to metrics, and restarts those that end.
//
// # Types
//
// The caller describes each [Component] by its Run function and gives them all to a
// [Host], which is a control.Host. For each component the host has one loop, which is the
// goroutine of the current run and what is known of it, and one service, whose states
// (state.go) decide from an observation of the loop: waiting, starting, running, failing,
// stuck, stopping. A restart that is ordered increments the desired generation; a run of
// an earlier generation is stopped and followed by another.
//
// # Failures
//
// A run that returns or panics is started again after a backoff of 1 s to 1 min; after 5
// such ends in a row the service escalates. A component whose last round failed is
// failing: shown, and still ready. One that is stuck (see Component.StuckAfter) is shown,
// escalated and not ready, but never replaced: a goroutine cannot be killed, and two runs
// of one component must not overlap. A run that ignores its context keeps its service
// stopping; [Host.Run] then returns without it and names it in the report.
//
// # Locks
//
// The mutex of a component guards its history and desired state, that of a loop its run.
// Component.Progress and the callbacks of [Config] are called without the loop's mutex.
// Host.Order holds the component's mutex while it sets the desired state, so that orders
// take effect in the order of their generations.
//
// # Where to begin
//
// Read component.go, then state.go; host.go implements control.Host.
package server
