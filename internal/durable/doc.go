// Package durable writes files that survive a crash and are shared between processes: locks,
// files that are replaced whole, and files of lines that only grow.
//
// # Promises
//
// A process may be killed at any system call. After [Disk.Publish] has returned nil the new
// contents are on the disk, otherwise the old or the new ones are; nobody ever reads a part of
// them. After [Disk.Append] has returned nil the line is on the disk; otherwise it is not in the
// file, or it is its incomplete last line, which [Disk.Mend] cuts off. A lock is free as soon as
// its holder is dead.
//
// # Locks
//
// A lock is flock(2) on a file that is never removed: removing it would let two processes hold
// locks of two files with one name. Each acquisition opens the file anew, so that goroutines
// exclude each other, too. The files are closed on exec, so that no child keeps a lock.
//
// The lock of a [Scratch] folder goes with its folder, and nobody waits for it. It is there before the
// contents of the folder and until they are gone, and says on which machine the folder is used:
// [SweepScratch] removes only folders of its own user and machine, where the lock says whether they are used.
//
// flock does not exclude on some network and virtual file systems. [Selftest] finds that out.
//
// # Files that go
//
// An open file hides that it was removed. A process that works on files ends when they are gone: [While]. A
// file counts as gone after three looks in a row, a second apart, that do not find it.
//
// # Tests
//
// A [Disk] calls its Hook before and after each operation that changes something, with the
// operation and the path. A test kills the process there, or makes the operation fail.
package durable
