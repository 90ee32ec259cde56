// Package daemon assembles what runs in a long-lived process, such as "pawl server" or "pawl
// dev": the parts of its engine, the port that serves HTTP, the socket for "pawl service", and
// the guard of the schema. Package server supervises these components; this package says which
// ones there are.
//
// # Types
//
// A [Daemon] runs the components of a process beside its work, as services of one server.Host.
// [Work] is that work in the case of a worker: it runs one worker, and drains it when the
// process has to end. A [Port] serves /metrics, /healthz, /readyz and an API, if it is given one,
// on an address of the loopback interface, or with a [Certificate] on any, behind an api.Guard; a
// supervisor of programs uses one by itself ([Port.Served]). A [Guard] stops the work when the schema is migrated to a version
// that this program does not work on.
//
// # Failures
//
// The host restarts a component that ends. The port and the socket are opened before anything
// else, so that an address in use is an error of the command; the default address gives way to
// a free one ([OpenDefaultPort]). A socket that cannot be opened is reported by a callback, and
// the work goes on without it. A later run of a component opens its port or socket again.
//
// A migrated schema ends the context of the work with a [MigratedError]. Work that does not
// stop within three seconds is abandoned, since its calls to the database may fail forever.
// Errors name no flags and no commands; the command line adds the remedy.
//
// A client that is slow or silent loses its connection: its header has 5 s, a body 30 s, a
// response a minute; handlers that need longer say so (api.AllowRead, api.AllowWrite). When the
// port closes, the contexts of its requests end, so that none waits; responses have 2 s more.
//
// A database that hangs is reported as not ready: a goroutine of its own asks it, and may
// outlive the HTTP response.
//
// # Where to begin
//
// Read Daemon.Run in daemon.go.
package daemon
