package link

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
)

var (
	// ErrKeyReused is returned for a request id that belongs to another request (J8).
	ErrKeyReused = errors.New("the request id was used for another request")

	// ErrKeyHeld is returned for a request id whose first request is still being carried
	// out (J8). The same request may be given again.
	ErrKeyHeld = errors.New("the request id is in use")
)

// A keyError is an error about a request id: a *pawl.Error that is one of the errors
// above.
type keyError struct {
	err *pawl.Error
	is  error
}

func (e *keyError) Error() string { return e.err.Error() }

func (e *keyError) Unwrap() []error { return []error{e.err, e.is} }

// KeyReused returns the ErrKeyReused of a request id. It is of kind Invalid.
func KeyReused(id string) error {
	return &keyError{pawl.Errorf(pawl.Invalid, "request_id %q was used for another request", id), ErrKeyReused}
}

// KeyHeld returns the ErrKeyHeld of a request id: another process, or a transaction of a
// user, has taken it, and has not committed yet. It is of kind Conflict.
func KeyHeld(id string) error {
	return &keyError{&pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("request_id %q is used by a transaction that is still open", id),
		Hint: "give the same request again when that transaction has ended"}, ErrKeyHeld}
}
