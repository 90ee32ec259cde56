package durable

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl"
)

// LookEvery is how often a Presence is checked while something depends on it.
const LookEvery = time.Second

// A GoneError says that a file or folder that a process works on was removed, or that another one is in
// its place. It is of kind Unavailable.
type GoneError struct {
	Path     string
	Replaced bool
}

func (e *GoneError) Error() string { return e.Unwrap().Error() }

func (e *GoneError) Unwrap() error {
	if e.Replaced {
		return pawl.Errorf(pawl.Unavailable, "%s was replaced by another one while this process worked on it", e.Path)
	}
	return pawl.Errorf(pawl.Unavailable, "%s was removed while this process worked on it", e.Path)
}

// A Presence is the files and folders that a process works on. Its open files would hide that they are gone:
// what it writes into them nobody finds, and nobody can tell it to stop.
type Presence struct {
	paths []string
	seen  []os.FileInfo
}

// Seen returns the presence of the files and folders that are at the paths now.
func Seen(paths ...string) (*Presence, error) {
	p := &Presence{paths: paths}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		p.seen = append(p.seen, info)
	}
	return p, nil
}

// Err returns a GoneError if one is gone, or another one is in its place. What cannot be found out counts as
// there.
func (p *Presence) Err() error {
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

// Lost waits until something is gone, and returns the GoneError; or nil once ctx has ended.
func (p *Presence) Lost(ctx context.Context) error {
	tick := time.NewTicker(LookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := p.Err(); err != nil {
				return err
			}
		}
	}
}

// While runs f as long as the files and folders at the paths are those that are there now. Once one is gone
// the context of f ends, with the GoneError as its cause, which While returns instead of what f does.
func While(ctx context.Context, f func(context.Context) error, paths ...string) error {
	p, err := Seen(paths...)
	if err != nil {
		return err
	}
	ctx, end := context.WithCancelCause(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { end(p.Lost(ctx)) })
	err = f(ctx)
	end(nil)
	watching.Wait()
	if gone := (*GoneError)(nil); errors.As(context.Cause(ctx), &gone) {
		return gone
	}
	return err
}
