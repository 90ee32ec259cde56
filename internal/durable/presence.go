package durable

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	lookEvery = time.Second // how often a Presence is checked while something depends on it
	losses    = 3           // checks in a row that find a loss before it counts: a rename may be under way
)

// A GoneError says that a file or folder that a process works on was removed, or that another one is in
// its place. It is of kind Unavailable.
type GoneError struct {
	Path     string
	Replaced bool
	Hint     string // what to do about it, or empty
	Ending   error  // what the work returned once its context had ended, if not the error of that
}

func (e *GoneError) Error() string { return e.Unwrap().Error() }

func (e *GoneError) Unwrap() error {
	what := "removed"
	if e.Replaced {
		what = "replaced by another one"
	}
	err := pawl.Errorf(pawl.Unavailable, "%s was %s while this process worked on it", e.Path, what)
	err.Hint = e.Hint
	return err
}

// Gone returns the GoneError for which ctx has ended, or nil.
func Gone(ctx context.Context) (gone *GoneError) {
	errors.As(context.Cause(ctx), &gone)
	return gone
}

// A Presence is the files and folders that a process works on. Its open files would hide that they are gone:
// what it writes into them nobody finds, and nobody can tell it to stop.
type Presence struct {
	paths []string
	seen  []os.FileInfo
	open  []*os.File
}

// Seen returns the presence of the files and folders that are at the paths now. The caller closes it, and
// has the files open meanwhile: another file could have the inode of one that is removed and closed. Folders
// are kept open here. Files are not, since closing one releases the POSIX locks that SQLite has on it.
func Seen(paths ...string) (*Presence, error) {
	p := &Presence{paths: paths}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err == nil && info.IsDir() {
			if f, fault := os.Open(path); fault == nil { // one that cannot be read is compared all the same
				p.open = append(p.open, f)
				info, err = f.Stat()
			}
		}
		if err != nil {
			p.Close()
			return nil, err
		}
		p.seen = append(p.seen, info)
	}
	return p, nil
}

// Close ends the presence. It may be called twice.
func (p *Presence) Close() {
	for _, f := range p.open {
		_ = f.Close() // it was only read
	}
	p.open = nil
}

// loss returns a GoneError if one is gone, or another one is in its place. What cannot be found out counts as
// there.
func (p *Presence) loss() error {
	for i, path := range p.paths {
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
			return &GoneError{Path: path}
		case err == nil && !os.SameFile(info, p.seen[i]):
			return &GoneError{Path: path, Replaced: true}
		}
	}
	return nil
}

// Watch calls changed with a GoneError once something is gone, and with nil once the same is back, until ctx
// ends. It may return late if the file system hangs, and calls nothing then.
func (p *Presence) Watch(ctx context.Context, changed func(error)) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for lost := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := p.loss()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if lost++; lost == losses {
				changed(err)
			}
		case lost >= losses:
			changed(nil)
			fallthrough
		default:
			lost = 0
		}
	}
}

// While runs f as long as the files and folders are those that were seen. Once one is gone the context of f
// ends, with the GoneError as its cause, which While returns instead of what f does.
func (p *Presence) While(ctx context.Context, f func(context.Context) error) error {
	ctx, end := context.WithCancelCause(ctx)
	go p.Watch(ctx, end) // not waited for: its file system may hang
	err := f(ctx)
	end(nil)
	if gone := Gone(ctx); gone != nil {
		if !errors.Is(err, context.Canceled) {
			gone.Ending = err
		}
		return gone
	}
	return err
}

// While runs f as long as the files and folders at the paths are those that are there now; see
// [Presence.While].
func While(ctx context.Context, f func(context.Context) error, paths ...string) error {
	p, err := Seen(paths...)
	if err != nil {
		return err
	}
	defer p.Close()
	return p.While(ctx, f)
}
