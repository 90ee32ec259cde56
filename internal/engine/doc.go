// Package engine runs jobs on a database: it submits them, hands their steps to workers,
// stores the outcome of each step, and carries out the consequences. It decides neither
// which moves are legal (package lifecycle) nor what follows from an outcome (package
// decide): it reads facts, asks those packages to decide, and commits.
//
// Any number of engines work on one database. There is no leader. Each may be killed at
// any moment, and the others find its unfinished work by the marks and deadlines in the
// database.
//
// # The way of a change
//
//	Submit, Exchange,           evaluator: marks, deadlines,
//	verbs of operators          dead workers, schedules
//	        │                           │
//	        ▼                           ▼
//	    command ───────────────────► committer          a group commit without a timer
//	    query: what it must see         │
//	                                    ▼
//	                            store.Ledger.Do         one transaction for the group
//	                   reads  │                 ▲
//	                   Facts  ▼                 │  Changes
//	                            tx ─ command.decide ─ tx.changes
//	                            (decide.Decision on a jobTx, lifecycle tables, audit)
//	                                    │
//	                                    ▼
//	                    after the commit: wake workers, evaluator and other processes
//
// A command (committer.go) lists the records it must see (query) and, once they are read
// and locked, changes a tx (decide). The committer takes the waiting commands, decides each
// in turn over what the earlier ones changed, and writes once. A refused command is undone
// and fails alone. If a command reads something that its query did not name, the tx refuses
// the command with an error that names it, so "there is none" and "was not asked for" are
// never confused. The query of a decision comes from its read set (reads.go). Reports may be
// decided, and what they end may be written, before the store has read what is claimed
// (early.go).
//
// # Types
//
//   - Engine has the methods of link.Engine and link.Worker, which packages client and
//     worker call. Those that change nothing are the methods of its explain.Reader. Of the
//     others a file each: submit.go, work.go (claims and reports), operator.go,
//     cancel.go, retry.go, move.go, schedules.go, limits.go, redact.go.
//   - committer and tx are described above. The records of a tx are moved by moveJob,
//     moveStep and their kind only, which apply a row of a table and add an audit entry.
//   - entryPool (entrypool.go) keeps the lists of a finished tx for another one, with nothing in
//     them.
//   - evaluator (evaluator.go) evaluates what marked jobs wait for, outside of any
//     transaction, and then commits a decision that has more in sight (evaluation.go). It
//     starts pending jobs that no claim starts, applies the deadlines of jobs and steps
//     (deadline.go) and the times of schedules (scheduletick.go), and releases the steps
//     of dead workers (release.go).
//   - Slots (slots.go) are the free slots of a worker, lent in this process to what is
//     submitted in it: the job then begins in the commit that makes it.
//   - loan (lender.go) and borrowing (borrower.go) are the two ends of what loans.go
//     describes: slots of a worker that its process lends to one that submits. What the
//     worker holds and has not heard of is a stray (strays.go).
//   - visit.go serves the workers of other machines (link.Remote): their exchanges take the
//     turn of the conversation (turn.go), and those that wait for work are guests (guests.go).
//   - joined.go writes in transactions of users, past the committer: it keeps nothing of
//     what it wrote in memory, and leaves what follows to the evaluator.
//   - sweeper (sweep.go) searches for waits whose cause has ended. In a healthy system it
//     finds none.
//
// # Marks
//
// A decision that needs more than it has in sight, or the value of an expression, leaves a
// mark on the record: the time from which on the evaluator processes it. Each try clears
// the mark, puts it off (putoff.go) or turns it into a wait for another commit, which sets
// it again when it ends the wait. A mark is all that has to survive a crash.
//
// # Locks
//
// In the database: pools, schedules, workers, jobs, steps, each by key. In memory:
// committer.mu, then offers.mu, then Slots.mu or borrowing.mu, then engine.closing. No
// goroutine holds guests.mu and guest.mu together. All others are leaves: a goroutine that
// holds one takes no other. Only that of quota.Cache is held during a read of the store,
// since all callers that need the limits wait for the same read. A decision reads no
// store; that of the tests panics if one does.
//
// # Failures
//
//   - A command that meets another writer is decided again, 8 times at most. Its decide may
//     therefore run several times, and sets whatever it reports each time.
//   - A commit of unknown outcome is settled: its first audit entry is looked up. Until then
//     its commands wait. A caller whose context ends returns at once and reads nothing of
//     its command, which may still be decided.
//   - A panic in a decision is the error of that command. One in a loop ends a managed
//     engine's part, which its host starts again (parts.go).
//   - Work that is impossible now (the database is unavailable, a definition cannot be read)
//     is retried after growing waits, and holds up nothing else.
//
// # Where to begin
//
// Read work.go from Exchange on and report.go, which compares the fence of each report;
// then committer.go and tx.go; then evaluator.go and evaluation.go.
package engine
