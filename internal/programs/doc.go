// Package programs runs the programs of a file and keeps them running: when each is
// started, stopped and restarted, and what state it is in. It is built on package
// supervisor, and the engine of "pawl supervise".
//
// # Types
//
// A [Manager] holds one program per entry of the file. A program is the
// supervisor.Worker of one service: it has the desired state (the spec, whether it
// should run, and a generation that each order and each change increments) and the last
// run, which is one attempt with its process and its probes. Its observed state is a copy
// of what is recorded about the run.
//
// state.go has the decisions: a pure function from the desired and the observed state to
// the next state, the restart policy included (desired.go). The actions start and stop
// (actions.go) carry them out (run.go).
//
// Every event of a process (it ends, a probe has a result, it sends a message to its
// notify socket) is recorded in its run and wakes the service; the decision is made in
// the turn of the service. Orders and [Manager.Apply] only change the desired state.
//
// # Processes
//
// A run is registered before its process starts, and the next one is refused until it
// has ended, so that two copies of a program never run at once. Each process bears a mark
// in its environment and starts in a control group, if the system allows one.
// [Manager.Run] first locks the state folder, then kills all processes that an earlier
// manager of the same folder left behind.
//
// # Locks
//
// In this order: Manager.changing (one Apply at a time), program.changing (one change of
// the desired state at a time), Manager.mu (the set of programs), program.mu (all else of
// a program and its run). The mutex of the journal is held alone. No callback of [Config]
// is called with Manager.mu or program.mu held.
//
// # Failures
//
// A program that cannot be started, exits or fails its alive probe is judged by its
// restart policy: it is restarted after a backoff, has completed, or has failed, which
// escalates. A journal that fails or hangs does not stop programs from running: entries
// are kept in memory and written later (package journal), and control.Service.Unrecorded
// shows what is missing. A process that does not end after SIGKILL is named in the report
// of Run, and the next manager tries again.
//
// # Where to begin
//
// Read desired.go, then state.go, then run.go. The files in testdata are scenarios with
// the trace of states that each leads to.
package programs
