package results

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/journal"
)

// Abort asks for the end of a run that is on, and returns the run. The first request counts. If the file system hangs,
// the request may arrive nevertheless.
func (f *Folder) Abort(name string, q journal.Request) (Run, error) {
	if !valid(name) {
		return Run{}, none(name)
	}
	return inTime(context.Background(), f, f.aborts, name, func(p *progress) (Run, error) { return f.abort(p, name, q) })
}

func (f *Folder) abort(p *progress, name string, q journal.Request) (Run, error) {
	for {
		r, err := f.run(p, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return r, none(name)
		case err != nil:
			return r, err
		case r.State == Damaged:
			return r, damagedRun(&r)
		case !r.State.On():
			return r, pawl.Errorf(pawl.Conflict, "run %s is not on: it is %s", name, r.State)
		}
		reader, err := f.openJournal(name)
		if pawl.KindOf(err) == pawl.NotFound { // it has just ended
			continue
		}
		if err == nil {
			err = errors.Join(reader.Abort(q), reader.Close())
		}
		if err != nil {
			return r, &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("the request to end run %s cannot be written", name), Err: err}
		}
		if now, err := f.run(p, name); err == nil { // with the request
			r = now
		}
		return r, nil
	}
}
