// Package store is the contract between the engine and a database: a write side of six
// methods, retention, and plain read views. Every implementation passes the suite in package
// storetest.
//
// A store handles rows, locks and commits. It decides nothing: Go code between its reads and
// its writes decides which transitions are legal (Ledger.Do).
//
// # Types
//
// A [Store] is one database, and the sum of smaller interfaces. The [Ledger] writes: Do takes a
// [Query], passes the [Facts] that it has read and locked to the caller, and writes the
// [Changes] that it gets back. A [Joiner] does the same in a user's transaction (joined.go).
// [Views], [Logs] and [Heads] read, [Retention] and a [Redactor] remove (retention.go,
// redact.go), [Wakeups] carry hints, and a [Migrator] moves the schema (schema.go).
//
// The rest is what both databases do in the same way, so that they store the same bytes: the
// columns of each record ([Table], tables.go), the pack of a commit's entries (pack.go,
// unpack.go), trees (tree.go), and what limits a page ([Page], [TrailPage], [RedactPage]). [Walk]
// reads a trail that is longer than a page (longtrail.go). What only reads through the contract
// is in package trail.
//
// # Failures
//
// [ErrUnknown], [ErrStale], [ErrKeyHeld] and [ErrNotFound] are the errors that callers
// distinguish; others are a *pawl.Error with a kind, or come from the driver. A row that
// cannot be decoded is [Damaged] where it is asked for by its key, and is left out where
// it is one of many; each is logged once ([Faults]).
//
// # Where to begin
//
// Read Store, Ledger and Query in store.go, then the suite in storetest.
package store
