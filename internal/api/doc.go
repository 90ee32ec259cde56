// Package api is Pawl over HTTP: the operations, their document, and what answers an error
// (J3, J4, J5, J8, J11).
//
// # The table
//
// operations (table.go) has a row for each operation: its id, method and path, the role
// that it takes, how it is idempotent, and the function that does it. The OpenAPI document,
// the reference (docs/api.md) and the tests that drive every operation are made from it.
// An operation is done with a client of the engine, so that what is legal is decided where
// it is for the command line.
//
// # Callers
//
// A [Guard] lets a request in and puts its principal into the context (package access). The
// service compares the principal with the row of the operation, in one place (allow.go), and
// every operation works on the engine as the principal sees it: Service.Engine is no other.
//
// # Answers
//
// A command answers with a pawl.Receipt, which the engine rendered in the transaction of
// the command and stores with the request's key: a repeated request gets the same bytes,
// also if it was refused (J8). Reads answer with the views of package pawl.
//
// Every error is a [Problem] (RFC 9457). [Of] makes one from an error of the engine.
//
// # Where to begin
//
// Read table.go, then jobs.go; service.go puts the operations behind one http.Handler.
package api
