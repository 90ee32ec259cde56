package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// patience bounds how long anything waits for other processes.
const patience = 30 * time.Second

// Between two tries for a busy file there is a random pause below these limits: short at
// first, since most transactions are short.
const (
	firstPause  = 200 * time.Microsecond
	secondPause = 2 * time.Millisecond
	shortWait   = 20 * time.Millisecond
)

// errClosed is returned by a database after Close.
var errClosed = &pawl.Error{Kind: pawl.Unavailable, Message: "the database is closed"}

// patiently repeats f while the file is busy, until ctx ends or patience does.
func patiently(ctx context.Context, f func() error) error {
	start := time.Now()
	for {
		err := f()
		if !busy(err) || time.Since(start) > patience {
			return err
		}
		pause := firstPause
		if time.Since(start) > shortWait {
			pause = secondPause
		}
		select {
		case <-time.After(rand.N(pause)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func primary(err error) sqlite.ResultCode {
	if err == nil {
		return sqlite.ResultOK
	}
	return sqlite.ErrCode(err).ToPrimary()
}

func busy(err error) bool {
	code := primary(err)
	return code == sqlite.ResultBusy || code == sqlite.ResultLocked
}

// exists reports whether err says that a row with that primary key exists.
func exists(err error) bool {
	if err == nil {
		return false
	}
	code := sqlite.ErrCode(err)
	return code == sqlite.ResultConstraintPrimaryKey || code == sqlite.ResultConstraintRowID || code == sqlite.ResultConstraintUnique
}

func diskFull(err error) error {
	return &pawl.Error{Kind: pawl.Unavailable, Message: "the disk is full", Hint: "make room and try again", Err: err}
}

// noRoom reports a full disk if that is why a file could not be written.
func noRoom(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return diskFull(err)
	}
	return err
}

// translate returns err in a form for users, with the attempted action.
func translate(what string, err error) error {
	var known *pawl.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	switch primary(err) {
	case sqlite.ResultFull:
		return diskFull(err)
	case sqlite.ResultIOErr:
		if sqlite.ErrCode(err) == sqlite.ResultIOErrSHMSize { // the file beside the database cannot grow
			return diskFull(err)
		}
		return &pawl.Error{Kind: pawl.Unavailable, Message: what + ": the disk cannot be read or written", Hint: "it may be full, or damaged; see pawl doctor", Err: err}
	case sqlite.ResultBusy, sqlite.ResultLocked:
		return &pawl.Error{Kind: pawl.Unavailable, Message: fmt.Sprintf("another process has kept the database busy for %s", patience), Err: &store.BusyError{Err: err}}
	case sqlite.ResultCantOpen:
		return &pawl.Error{Kind: pawl.Unavailable, Message: what + ": the file cannot be opened", Hint: "its folder must exist and be writable", Err: err}
	case sqlite.ResultReadOnly, sqlite.ResultPerm:
		return &pawl.Error{Kind: pawl.Unavailable, Message: what + ": the file cannot be written", Err: err}
	case sqlite.ResultNotADB:
		return &pawl.Error{Kind: pawl.Conflict, Message: what + ": the file is not a SQLite database", Err: err}
	}
	return fmt.Errorf("%s: %w", what, err)
}
