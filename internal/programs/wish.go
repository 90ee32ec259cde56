package programs

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/supervisor"
)

// A wish is what is wanted of a program. Nobody changes one that was handed over.
type wish struct {
	Program *spec.Program
	Run     bool   // it is to run
	Order   uint64 // rises with each order and each change of the program
	Renew   uint64 // what was started for an earlier order is ended, and started again
	By      string // who ordered it; empty: the file says so
	Actor   string // who caused the last change
	Why     string // in words
	Retired bool   // it is being removed
}

// A ground is why something is done, and who wanted it; nobody: the file, or the
// keeper itself.
type ground struct{ why, by string }

func (w wish) ground() ground { return ground{w.Why, w.Actor} }

// A sight is what is observed of a program, and all that its states decide on.
type sight struct {
	Attempts int  // to start it; the number of the last one
	Begun    bool // an attempt is under way that has come to nothing yet
	Up       bool // it runs
	PID      int
	Order    uint64    // that the last attempt was made for
	Started  time.Time // the last one that came so far
	Ready    bool      // it is ready now
	WasReady bool      // since it was started
	Unready  string    // what the ready probe says, if that is not good
	Sick     string    // why it is to be ended: its alive probe fails
	Exit     *exit     // how the last attempt ended; nil: it has not, or there was none
	Failures int       // ends in a row that nobody ordered
	Restarts []time.Time
}

// An exit is how an attempt ended.
type exit struct {
	Text      string // "exit code 3"
	Code      int    // -1: none
	At        time.Time
	Ordered   bool    // somebody wanted it, and it is no failure
	Cause     string  // why the keeper ended it by itself
	Permanent bool    // there is no use in another attempt
	Draw      float64 // in [0, 1), of the jitter
	Order     uint64  // the last one at that time
}

// good reports whether the program ended of its own accord, with success.
func (e *exit) good() bool { return e.Code == 0 && e.Cause == "" }

func (e *exit) String() string {
	if e.Cause != "" {
		return e.Cause + "; " + e.Text
	}
	return e.Text
}

// A verdict is what follows from an exit that nobody ordered.
type verdict struct {
	end   string // the name of the state: completed, failed or backoff
	cause string
	at    time.Time // of backoff: when it is over
	count string    // likewise: how often it may be
}

// reason says it for people, at a moment.
func (v verdict) reason(now time.Time) string {
	if v.end != backoff {
		return v.cause
	}
	return v.cause + "; next start in " + short(max(0, v.at.Sub(now))) + v.count
}

// judge holds an exit against the policy.
func judge(r spec.Restart, o sight) verdict {
	e := o.Exit
	recent := within(o.Restarts, e.At, r.Window)
	switch {
	case e.Permanent:
		return verdict{end: failed, cause: e.Text}
	case e.Cause == "" && e.Code >= 0 && slices.Contains(r.PermanentExitCodes, e.Code):
		return verdict{end: failed, cause: e.Text + " is permanent"}
	case e.good() && r.Policy != spec.Always:
		return verdict{end: completed, cause: e.Text}
	case r.Policy == spec.Never:
		return verdict{end: failed, cause: e.String() + "; restart.policy is never"}
	case r.Burst > 0 && recent >= r.Burst:
		return verdict{end: failed, cause: fmt.Sprintf("%s within %s: %s", plural(recent, "restart"), short(r.Window), e)}
	}
	v := verdict{end: backoff, cause: e.String(), at: e.At.Add(delay(r, o.Failures, e.Draw))}
	if r.Burst > 0 {
		v.count = fmt.Sprintf(" (restart %d of %d within %s)", recent+1, r.Burst, short(r.Window))
	}
	return v
}

// delay answers the time from an exit to the next start: with jitter anything up to
// the backoff, so that what has failed together does not come back together.
func delay(r spec.Restart, failures int, draw float64) time.Duration {
	if r.Base <= 0 || r.Cap <= 0 {
		return 0 // to Backoff that is the default
	}
	d := supervisor.Backoff{Base: r.Base, Max: r.Cap, Exact: true}.Delay(failures, 0)
	if r.Jitter {
		d -= time.Duration(draw * float64(d))
	}
	return d
}

// within answers how many of the times are of the window that ends at now.
func within(times []time.Time, now time.Time, window time.Duration) (n int) {
	for _, t := range times {
		if now.Sub(t) < window {
			n++
		}
	}
	return n
}

// unmet says which needs are not met, in words. What more says of a service is added.
func unmet(needs []spec.Need, peers []supervisor.Peer, more func(id string) string) []string {
	var list []string
	for _, n := range needs {
		i := slices.IndexFunc(peers, func(p supervisor.Peer) bool { return p.ID == n.ID })
		switch {
		case i < 0 || peers[i].Phase == "":
			list = append(list, fmt.Sprintf("needs %s %s: there is no service %s", n.ID, n.Condition, n.ID))
		case !meets(peers[i].State, n.Condition):
			text := fmt.Sprintf("needs %s %s: %s is %s", n.ID, n.Condition, n.ID, peers[i].State)
			if about := more(n.ID); about != "" {
				text += " (" + about + ")"
			}
			list = append(list, text)
		}
	}
	return list
}

// conditions are the states in which a program has come so far. What has completed
// has been started, and was as ready as it gets.
var conditions = map[spec.Condition][]string{
	spec.Started:   {starting, running, degraded, completed},
	spec.Ready:     {running, completed},
	spec.Completed: {completed},
}

func meets(state string, c spec.Condition) bool { return slices.Contains(conditions[c], state) }

// wordsOf says who ordered what, and why, for people.
func wordsOf(verb control.Verb, by, reason string) string {
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
