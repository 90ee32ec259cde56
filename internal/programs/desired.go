package programs

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/supervisor"
)

// desired is the desired state of a program. A value that was handed over is never
// modified.
type desired struct {
	Spec          *spec.Program
	Run           bool   // whether it should run
	Generation    uint64 // incremented by each order and each change of the spec
	RestartBefore uint64 // an attempt of an earlier generation is ended, and the program started again
	By            string // who last ordered a start, stop or restart; empty: Run is as in the file
	Actor         string // who made the last change
	Why           string // the reason of the last change
	Removing      bool   // the program is being removed
}

// A trigger is why a program changes state, and who asked for it. An empty actor is the
// file or the manager.
type trigger struct{ reason, actor string }

func (prog desired) trigger() trigger { return trigger{prog.Why, prog.Actor} }

// observed is the observed state of a program: all that its states decide on.
type observed struct {
	Attempts   int  // attempts to start it so far
	Launching  bool // an attempt is under way, without a process yet
	Up         bool // its process runs
	PID        int
	Generation uint64    // of the last attempt
	Started    time.Time // when the last attempt began, or its process
	Ready      bool      // it is ready
	WasReady   bool      // it was ready at some time since it was started
	Unready    string    // the error of the ready probe, if it fails
	Unhealthy  string    // why it has to be ended: its alive probe fails
	Exit       *exit     // how the last attempt ended; nil: it runs, or there was none
	Failures   int       // exits in a row without an order
	Restarts   []time.Time
}

// An exit is how an attempt ended.
type exit struct {
	Text       string // "exit code 3"
	Code       int    // -1: none
	At         time.Time
	Ordered    bool    // it was asked for, and is no failure
	Cause      string  // why the manager ended it without an order
	Permanent  bool    // another attempt cannot succeed
	Random     float64 // in [0, 1), for the jitter
	Generation uint64  // the desired generation at that time
}

// succeeded reports whether the program ended by itself with exit code 0.
func (e *exit) succeeded() bool { return e.Code == 0 && e.Cause == "" }

func (e *exit) String() string {
	if e.Cause != "" {
		return e.Cause + "; " + e.Text
	}
	return e.Text
}

// A verdict is what follows from an exit without an order.
type verdict struct {
	state string // the name of the state: completed, failed or backoff
	cause string
	at    time.Time // backoff: when it ends
	count string    // backoff: how many restarts the policy leaves
}

// reason describes the verdict as of now.
func (v verdict) reason(now time.Time) string {
	if v.state != backoff {
		return v.cause
	}
	return v.cause + "; next start in " + short(max(0, v.at.Sub(now))) + v.count
}

// judge applies the restart policy to an exit without an order.
func judge(r spec.Restart, o observed) verdict {
	e := o.Exit
	recent := within(o.Restarts, e.At, r.Window)
	switch {
	case e.Permanent:
		return verdict{state: failed, cause: e.Text}
	case e.Cause == "" && e.Code >= 0 && slices.Contains(r.PermanentExitCodes, e.Code):
		return verdict{state: failed, cause: e.Text + " is permanent"}
	case e.succeeded() && r.Policy != spec.Always:
		return verdict{state: completed, cause: e.Text}
	case r.Policy == spec.Never:
		return verdict{state: failed, cause: e.String() + "; restart.policy is never"}
	case r.Burst > 0 && recent >= r.Burst:
		return verdict{state: failed, cause: fmt.Sprintf("%s within %s: %s", plural(recent, "restart"), short(r.Window), e)}
	}
	v := verdict{state: backoff, cause: e.String(), at: e.At.Add(delay(r, o.Failures, e.Random))}
	if r.Burst > 0 {
		v.count = fmt.Sprintf(" (restart %d of %d within %s)", recent+1, r.Burst, short(r.Window))
	}
	return v
}

// delay returns the time from an exit to the next start. With jitter it is anywhere
// between 0 and the backoff, so that programs that failed together do not restart
// together.
func delay(r spec.Restart, failures int, draw float64) time.Duration {
	if r.Base <= 0 || r.Cap <= 0 {
		return 0 // Backoff takes 0 for its default
	}
	d := supervisor.Backoff{Base: r.Base, Max: r.Cap, Exact: true}.Delay(failures, 0)
	if r.Jitter {
		d -= time.Duration(draw * float64(d))
	}
	return d
}

// within returns how many of the times are in the window that ends at now.
func within(times []time.Time, now time.Time, window time.Duration) (n int) {
	for _, t := range times {
		if now.Sub(t) < window {
			n++
		}
	}
	return n
}

// unmet describes each need that is not met. It adds detail(id), if there is any.
func unmet(needs []spec.Need, peers []supervisor.Peer, detail func(id string) string) []string {
	var list []string
	for _, n := range needs {
		i := slices.IndexFunc(peers, func(p supervisor.Peer) bool { return p.ID == n.ID })
		switch {
		case i < 0 || peers[i].Phase == "":
			list = append(list, fmt.Sprintf("needs %s %s: there is no service %s", n.ID, n.Condition, n.ID))
		case !meets(peers[i].State, n.Condition):
			text := fmt.Sprintf("needs %s %s: %s is %s", n.ID, n.Condition, n.ID, peers[i].State)
			if about := detail(n.ID); about != "" {
				text += " (" + about + ")"
			}
			list = append(list, text)
		}
	}
	return list
}

// conditions are the states that meet each condition. A program that has completed has
// been started, and is as ready as it gets.
var conditions = map[spec.Condition][]string{
	spec.Started:   {starting, running, degraded, completed},
	spec.Ready:     {running, completed},
	spec.Completed: {completed},
}

func meets(state string, c spec.Condition) bool { return slices.Contains(conditions[c], state) }

// orderText describes an order, for people.
func orderText(verb control.Verb, by, reason string) string {
	text := map[control.Verb]string{control.Start: "started", control.Stop: "stopped", control.Restart: "restarted"}[verb]
	if by != "" {
		text += " by " + by
	}
	if reason != "" {
		text += ": " + reason
	}
	return text
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
