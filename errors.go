package pawl

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl/machine"
)

// A Kind is the kind of an error. Exit codes and HTTP statuses are derived from it.
type Kind int

// The kinds of errors.
const (
	Internal    Kind = iota // a fault of the program or of its store
	Invalid                 // the request is wrong by itself
	NotFound                // what it names does not exist
	Conflict                // the current state does not allow it
	Refused                 // the caller may not do it
	Unavailable             // busy or out of reach; try again
)

// An Error is returned when Pawl cannot do what was requested.
type Error struct {
	Kind    Kind
	Message string // lower case, no full stop; names field, value and what is allowed
	Hint    string // what to do about it, or empty
	Err     error  // the cause, or nil
	Entity  string // the public id of the job that the message is about and names, or empty
}

func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error of the kind. It does not wrap; set Err for that.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// KindOf returns the kind of err: that of the first *Error in its chain,
// Conflict for a *machine.Refusal, else Internal.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	var r *machine.Refusal
	if errors.As(err, &r) {
		return Conflict
	}
	return Internal
}
