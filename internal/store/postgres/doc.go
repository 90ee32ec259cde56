// Package postgres is the store on PostgreSQL 15 or newer: one database for many processes and
// hosts. It implements store.Store.
//
// # A write transaction
//
//	                  Do(query, decide)
//	                         │
//	        all rows asked for are in the row cache?
//	          │ yes                          │ no, or outdated
//	          ▼                              ▼
//	optimistic (optimistic.go)      pipeline 1: begin, lock, read (do.go, read.go)
//	decide on what is known         decide
//	          │                              │
//	          ▼                              ▼
//	encode the changes: one array per column (write.go), narrow updates (narrow.go)
//	          │                              │
//	          ▼                              ▼
//	one pipeline or statement:      pipeline 2: write, compare
//	verify, write (fused.go)        row counts, commit
//	          │                              │
//	          └──────────────┬───────────────┘
//	                         ▼
//	       keep the rows that were written, with the
//	       transaction that made them (rowcache.go)
//
// If a query asks for claims beside such rows, as the report of a worker does, pipeline 1 reads
// and locks the claims alone, and pipeline 2 verifies what was recalled from the cache. Of that, what
// is final is decided and written while the claims are read, and the two are one pipeline (early.go).
//
// A commit takes at most two round trips, whatever the number of its records, and one if no
// other process has touched the rows meanwhile. The cache knows the version of a row by its
// xmin: an optimistic transaction writes only if each row still has that version. Otherwise
// nothing has happened, the rows are read, and decide runs again.
//
// # Types
//
//   - DB is a handle: a pool for transactions, one for reads outside of them (views.go,
//     trails.go), a session, a wire and a listener. Schema is the tables of a database of
//     any version, for migrations (schema.go).
//   - statement (pipe.go) is SQL that a connection prepares with its first call. pipe sends
//     several in one round trip. cursor reads results in binary form, by column order.
//   - reading holds the Facts of a query and the versions of its rows; writing holds
//     Changes in the form that the server accepts. Both use a room (room.go), whose memory
//     the next transaction uses again.
//   - session (session.go) is the connection that holds the advisory locks by which others
//     see that this process lives, and sends its beats. It never waits behind a transaction.
//   - wire sends hints (NOTIFY) after commits, and the listener receives those of others
//     (wake.go). A NOTIFY within a transaction would serialize commits. Messages about lent
//     slots go the same way (messages.go), sealed under a key of the receiver (postbox.go):
//     whoever may connect to the database can listen to a channel, and send there.
//   - joined (joined.go) writes in a user's transaction, by the same statements through the
//     user's driver. There NOTIFY is part of the transaction, unless that is switched off.
//
// # How work is found
//
// No index contains a state, so that an update that changes only states is HOT. A job or step
// has a line while scans have to find it, and partial indexes are on the line (claim.go).
// Running work is found by the table running (running.go). Claims begin at a claim cursor, the
// first rank that an earlier claim saw (claimcursor.go), so that dead index entries at the
// front cost nothing; a background scan finds what comes before it. The evaluator's agenda is
// one statement (look.go).
//
// # Locks
//
// Within a transaction rows are locked in the order pools, schedules, tokens, pauses of queues,
// webhooks, workers, jobs, steps, each by key; claims skip locked rows. Rows that were recalled
// beside claims are locked after these, and waited for 51 ms at most; then they are read in
// order. Transactions of one handle on the same job wait for each other before they begin
// (reserve.go). The mutexes in memory are leaves; session.mu is held while its connection is
// used.
//
// # Failures
//
//   - A deadlock, a serialization failure or a dead connection, while reading: the
//     transaction begins again, at most 8 times.
//   - A row that is not the version that was read: store.ErrStale; the engine decides again.
//   - A commit that was not confirmed: store.ErrUnknown. Settle waits until the server process
//     is gone and looks up the first audit entry (settle.go).
//   - A silent connection is given up after 30 s by a transaction, and after a third of the
//     silence by a beat. A process that stalls within a transaction loses it after 5 s.
//   - The server is unreachable: errors of kind Unavailable.
//
// # Where to begin
//
// Read do.go, then read.go and write.go; then optimistic.go with rowcache.go, and claim.go.
package postgres
