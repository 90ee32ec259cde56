// Package process runs a program in a process group of its own, and leaves nothing
// of it behind; and it keeps what a program prints, and hears what it says of itself.
//
// # What is killed
//
// When the program has ended, what is left of its group is killed at once, or, if it
// was stopped, when the grace is over. Then, on Linux, every process dies that bears
// the program's mark, wherever it went (setsid, a second fork), and every descendant
// that had left the group when Stop was called and whose parents were still alive to
// tell. Done is closed when they are gone, or after 5 s, should the kernel not be able
// to end one.
//
// The program itself, though not its children, is killed by the kernel (Linux) when
// this process dies, however it dies. Sweep kills the rest by their mark, before the
// programs are started again.
//
// A process without the mark (env -i, or one that wrote over its environment) that
// has left the group, and whose parents are dead, cannot be told from others. BecomeSubreaper makes it
// a child of this process, and KillOrphans kills it when this process ends. If this
// process is killed, it lives on, unless it was started in a Cgroup: KillCgroup, called
// before the programs are started again, kills all that is in one. What runs as a user
// whose processes this one may not kill (sudo) needs a container to be caught.
//
// Nobody else is ever killed: the number of a group is not given to another one until
// its leader is reaped, which is the last thing that happens to it; strays are held by
// a pidfd (before Linux 5.3, in the instant after they were looked at, by number).
//
// # Many programs
//
// Who asks for processes in /proc at the same time shares a walk over it, so that to stop
// programs takes no longer for each of them when there are many. A program takes one
// goroutine and one more for each of its outputs, and as many open files, and two that
// stand for its process; no thread, unless it has limits.
//
// # Limits
//
// A program with limits is traced until they are set, so that they hold for its first
// instruction, and nothing has to be executed in between. That needs a system which
// lets a process trace its child. A set-user-ID program gets its rights only if this
// process is root.
//
// # Logs
//
// LogFile writes, Tail and Follow read. What is printed reaches the disk through
// Write, which never fails: what cannot be kept is counted, and noted in the file when
// it can be again.
package process
