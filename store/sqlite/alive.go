package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/private"
)

// Alive names the processes of this user that listen for hints about the file, which
// every engine does, of whatever version of Pawl.
func (db *DB) Alive(context.Context) ([]string, error) {
	if db.wakeups.dir == "" {
		return nil, nil
	}
	if err := private.Check(db.wakeups.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &pawl.Error{Kind: pawl.Refused, Message: "it cannot be told which processes use the database", Err: err}
	}
	var names []string
	for _, path := range db.wakeups.sockets() {
		if deliver(path, nil) != nil {
			continue // it is gone, and its socket was left behind
		}
		pid, _, _ := strings.Cut(filepath.Base(path), "-")
		names = append(names, "process "+pid)
	}
	return names, nil
}
