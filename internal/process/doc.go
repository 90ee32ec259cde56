// Package process runs a program in a process group of its own and makes sure that none
// of its processes outlives it. It also writes what a program prints to a log, and
// receives the messages in which a program reports its state.
//
// # Types
//
// [Start] starts the program of a [Spec] and returns a [Process]: Stop ends it, Done is
// closed when nothing of it is left, Exit says how it ended. A [Cgroup] is a control
// group that programs may be started in. A [LogFile] is the log of a program: written by
// Spec.Stdout and Spec.Stderr, read by [Tail] and LogFile.Follow. A [Notify] is the socket
// of sd_notify(3).
//
// # What is killed
//
// When the program has ended, the rest of its group is killed: at once or, if it was
// stopped, after the grace. Then, on Linux, every process that bears the program's mark
// in its environment is killed, whatever it did (setsid, a second fork), and every
// descendant that had left the group when Stop was called and whose parents were still
// alive. Done is closed when they have ended, or after 5 s if the kernel cannot end one.
//
// When this process dies, for any reason, the kernel kills the program itself, but not
// its children (Linux). [Sweep] finds the rest by their mark; call it before the
// programs are started again.
//
// A process without the mark (env -i, or an overwritten environment) that has left the
// group and whose parents are dead cannot be attributed to the program.
// [BecomeSubreaper] makes it a child of this process, and [KillOrphans] kills it when this
// process ends. If this process is killed, it survives, unless it was started in a Cgroup:
// [KillCgroup] kills all processes of one. A process of another user, which this one may
// not kill (sudo), is caught only by a container.
//
// No other process is ever killed. The pid of a group is not reused before its leader
// is reaped, which happens last; strays are held by a pidfd. Before Linux 5.3 there is
// none, and in the moment between the check and the signal the pid could be reused.
//
// # Locks
//
// Process.mu guards against signalling a pid that was reaped; no walk over /proc is made
// with it held. The mutex of the child table is held for reading while a child starts,
// and for writing while orphans are reaped. In a shared walk, walking is locked before
// mu. LogFile.mu and the others are leaves.
//
// # Failures
//
// A program that cannot be started is an error of Start, with fs.ErrNotExist or
// fs.ErrPermission where they apply. Writing to a LogFile never fails: what cannot be
// written is counted, and a line in the file says so when it can be written again.
//
// # Many programs
//
// Concurrent callers share one walk over /proc, so that stopping a program takes no longer
// when there are many. A program takes one goroutine plus one per output, one open file
// per output, and two for its process; no thread, unless it has limits.
//
// # Limits
//
// A program with limits is traced until they are set, so that they apply from its first
// instruction and nothing else is executed in between. The system must let a process trace
// its child. A set-user-ID program then gets its rights only if this process is root.
//
// # Where to begin
//
// Read process.go: run is the life of a program. process_linux.go has how its end is
// awaited, marks_linux.go and tree_linux.go how its other processes are found.
package process
