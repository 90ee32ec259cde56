// Package remote is the engine of a server, over the HTTP API (see docs/api.md). A client on
// it behaves as one on a database.
//
// # The types
//
// An [Engine] is a link.Engine. Each of its methods is one operation of the API, or one for
// each page of a list; call.go sends the requests, problem.go turns their errors into those
// of a local engine: a *pawl.Error, a *machine.Refusal, or an error of package link.
//
// # Repeating
//
// Each command has a key, its own or a random one, under which the server stores its answer
// (J8). So a request whose answer was lost is sent again, up to 3 times, and has one effect.
// What has no key is repeated only if that leaves the same state; the removal of a schedule
// is repeated only if it was not sent. What was refused since the caller sends too much (429)
// has done nothing, and is repeated when the server says; a wait for a job, while others wait in
// its place, without end.
//
// # What a server cannot do
//
// Transactions of the caller, jobs that only the submitting process runs and the folder of a
// submission need the database: they are errors of kind Invalid. The folder of a registered
// workflow is ignored.
//
// # Workers
//
// A worker works over a server as over an engine. Its conversation (talk.go) knows what was
// delivered and is not yet reported. After an exchange that has failed it says so to the
// server, which delivers again what is missing. The slots that the worker lends (slots.go) are
// those of one exchange at a time that waits at the server. Heartbeats have a connection of
// their own.
//
// Locks: slots.mu and talk.mu are never held together with a request; talk.visits is, and is
// taken before both. slots.mu is held while a step is handed to the worker.
//
// # Pages
//
// The place at which a page begins (Before, After) is a cursor of the server, which the page
// before returned as next. Only that of a list of jobs may also be the id of a job.
package remote
