package machine

import (
	"fmt"
	"strings"
)

// A Refusal says that an event is not legal in a state (K3). It is a conflict
// (409 over HTTP, exit code 5), never a fault of the program.
type Refusal struct {
	Machine string  // its name
	Entity  string  // the public id; set by the caller that knows it
	State   State   // the state the entity is in
	Event   Event   // the event that was refused
	Allowed []Event // the events that are legal in State, sorted
	Already bool    // the event leads to State, in which the entity is already
	Unknown bool    // the machine has no such state
	Final   bool    // no event leads from it to another state
}

// Error names the entity, the state, the event and the events allowed.
func (r *Refusal) Error() string {
	switch {
	case r.Already:
		return fmt.Sprintf("%s is already in %s", r.subject(), r.State)
	case r.Unknown:
		return fmt.Sprintf("%s: event %s is not allowed in %q, which is not a state", r.subject(), r.Event, r.State)
	case r.Final || len(r.Allowed) == 0:
		return fmt.Sprintf("%s: event %s is not allowed in state %s, which is final", r.subject(), r.Event, r.State)
	}
	return fmt.Sprintf("%s: event %s is not allowed in state %s (allowed: %s)", r.subject(), r.Event, r.State, join(r.Allowed))
}

// subject returns the machine and, if known, the entity.
func (r *Refusal) subject() string {
	if r.Entity == "" {
		return r.Machine
	}
	return r.Machine + " " + r.Entity
}

// join lists names with commas.
func join[S ~string](names []S) string {
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = string(n)
	}
	return strings.Join(words, ", ")
}
