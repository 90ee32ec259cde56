// Package spec is the file of "pawl supervise": the programs that are kept running,
// with their settings, and the differences between two versions of it. It starts
// nothing.
package spec

import (
	"regexp"
	"time"
)

// A File is a whole file, with its defaults filled in.
type File struct {
	Name     string     // of the supervisor; default the file's own, without its ending
	Path     string     // absolute; empty for one that was built in Go
	Programs []*Program // by id
}

// A Program is one service: a program that is kept running.
type Program struct {
	ID          string
	Description string
	Command     []string          // program and arguments, run without a shell; a script is /bin/sh -e -c SCRIPT
	Dir         string            // absolute; default the folder of the file
	Env         map[string]string // the file's, then its own
	Pass        []string          // names of variables passed on besides the usual ones; NAME* means all that begin with NAME, * all
	User        string            // name or number; empty: that of the supervisor
	Group       string            // likewise; empty: the user's
	Autostart   bool              // default true
	Needs       []Need            // by id
	Ready       *Probe            // nil: ready when it has started
	Alive       *Probe            // nil: alive while it runs
	Start       Start
	Restart     Restart
	Stop        Stop
	Log         Log
	Limits      Limits
}

// Watchdog returns how long the program may be silent before it counts as dead; 0 if it
// does not send WATCHDOG=1.
func (p *Program) Watchdog() time.Duration {
	if p.Alive == nil || !p.Alive.Notify {
		return 0
	}
	return p.Alive.Timeout
}

// A Need is a service, and the condition that it has to meet before this one is started.
type Need struct {
	ID        string
	Condition Condition
}

// A Condition is what a service has to have reached.
type Condition string

// The conditions.
const (
	Started   Condition = "started"   // its program runs
	Ready     Condition = "ready"     // its ready probe has succeeded
	Completed Condition = "completed" // it has ended with exit code 0
)

// A Probe checks a running program. Exactly one of Command, HTTP, TCP, Log and Notify is
// set.
type Probe struct {
	Command []string       // succeeds with exit code 0; it has the program's folder, environment and user
	HTTP    string         // a URL whose response has a status from 200 to 399
	TCP     string         // host:port that accepts a connection
	Log     *regexp.Regexp // matches a line that the program has printed since its start; of Ready only
	Notify  bool           // the program sends READY=1 (Ready) or WATCHDOG=1 (Alive) to $NOTIFY_SOCKET

	Interval  time.Duration // from the end of one to the next; default 1s of Ready, 10s of Alive
	Timeout   time.Duration // of one; default 1s; of Alive by Notify the longest silence, default 30s
	Successes int           // in a row, to be ready; default 1
	Failures  int           // in a row, to be no longer ready or alive; default 3; of Alive by Notify 1
}

// Start limits how long a program may take to become ready.
type Start struct {
	Timeout time.Duration // after which it is stopped, which counts as a failure; 0: no limit
}

// A Policy says when a program that has ended is restarted.
type Policy string

// The policies. Being ended by Alive or by Start.Timeout is a failure.
const (
	Always    Policy = "always"
	OnFailure Policy = "on_failure" // unless it ended with exit code 0
	Never     Policy = "never"
)

// Restart says when and how often a program is restarted.
type Restart struct {
	Policy             Policy        // default always
	Base               time.Duration // the delay before the first restart; it doubles with each; default 1s
	Cap                time.Duration // the longest; default 1m
	Jitter             bool          // drawn between 0 and the delay; default true (full), else none
	Burst              int           // restarts within Window, after which it has failed; default 5; 0: no limit
	Window             time.Duration // default 5m
	Reset              time.Duration // how long it has to be ready for delay and burst to be reset; default 1m
	PermanentExitCodes []int         // after which it fails without a restart
}

// Stop says how a program is stopped: by a signal to its process group, and by SIGKILL to
// what is left after the grace.
type Stop struct {
	Signal string        // default SIGTERM
	Grace  time.Duration // default 10s
}

// Log says where the output of the program is written.
type Log struct {
	File     string // absolute; empty: ID.log in the supervisor's own folder
	MaxSize  int64  // of one file, in bytes, before it is rotated; default 10 MB
	MaxFiles int    // rotated files that are kept; default 5
}

// Limits are the resource limits of each process of the program. nil: those of the
// supervisor.
type Limits struct {
	OpenFiles    *uint64
	Processes    *uint64 // of the user
	AddressSpace *uint64 // bytes
	FileSize     *uint64 // bytes
	CoreSize     *uint64 // bytes
	CPUTime      time.Duration
	Nice         *int // -20 to 19
}
