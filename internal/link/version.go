package link

import (
	"errors"

	"github.com/pawl-dev/pawl"
)

// ErrChanged is returned for a change of a version of a record that is not the present one.
var ErrChanged = errors.New("the record has changed")

// Changed returns an ErrChanged. It is of kind Conflict.
func Changed(format string, args ...any) error {
	err := pawl.Errorf(pawl.Conflict, format, args...)
	err.Hint = "read it again, and repeat the change on what it is now"
	return &keyError{err, ErrChanged}
}
