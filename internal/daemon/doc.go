// Package daemon holds together what runs in a process that stays, such as those of "pawl
// server" and "pawl dev": the parts of its engine, the port that serves HTTP, the socket
// for "pawl service", and the guard of the schema. Package server supervises them; this
// package says which there are.
//
// # Types
//
// A [Daemon] runs the components of a process beside its work, as services of one
// server.Host. [Work] is that work where it is a worker: it runs one, and drains it when the
// process is to end. A [Port] serves /metrics, /healthz and /readyz on an address of the
// loopback interface; a supervisor of programs uses one by itself ([Port.Served]). A
// [Guard] stops the work when the schema is migrated to a version that this program does
// not work on.
//
// # Failures
//
// A component that ends is started again by its host. The port and the socket are opened
// before anything else, so that an address that is taken is an error of the command; a
// socket that cannot be opened is reported by a callback and keeps nobody from working. A
// later run opens either anew.
//
// A migrated schema ends the context of the work with a [MigratedError]. What does not
// stop within three seconds is left: what it says to the database may fail for ever.
// Errors name no flags and no commands; the command line adds what to do.
//
// A database that hangs is reported as not ready: the question is asked in a goroutine of
// its own, which may outlive the answer.
//
// # Where to begin
//
// Read Daemon.Run in daemon.go.
package daemon
