package results

import (
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/journal"
)

// Abort asks for the end of a run that is on. The first request counts. If the file system hangs, the request may
// arrive nevertheless.
func (f *Folder) Abort(name string, q journal.Request) error {
	r, follower, err := f.Follow(name, "")
	if err != nil {
		return err
	}
	if follower != nil {
		defer follower.Close()
	}
	if !r.State.On() {
		return pawl.Errorf(pawl.Conflict, "run %s is not on: it is %s", name, r.State)
	}
	err = follower.abort(q)
	var e *pawl.Error
	if err != nil && !errors.As(err, &e) {
		err = &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the request to end run %s cannot be written", name), Err: err}
	}
	return err
}

func (f *Follower) abort(q journal.Request) error {
	_, err := bounded(f, func(*progress) (struct{}, error) { return struct{}{}, f.reader.Abort(q) })
	return err
}
