package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/private"
	"github.com/pawl-dev/pawl/internal/store"
)

// Unfit names the processes of this user that listen for hints about the file, which
// every engine does, of whatever version of Pawl, and whose programs would not work
// while the schema is migrated to a version, or after that.
func (db *DB) Unfit(ctx context.Context, to int) (unfit []string, err error) {
	if db.wakeups.dir == "" {
		return nil, nil
	}
	if err := private.Check(db.wakeups.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, &pawl.Error{Kind: pawl.Refused, Message: "it cannot be told which processes use the database", Err: err}
	}
	v, err := db.at(ctx)
	if err != nil {
		return nil, err
	}
	for _, path := range db.wakeups.sockets() {
		if deliver(path, nil) != nil {
			continue // it is gone, and its socket was left behind
		}
		pid, rest, _ := strings.Cut(filepath.Base(path), "-")
		program := 0 // of those that do not say it
		_, _ = fmt.Sscanf(rest, "v%d-", &program)
		if !store.Serves(db.cfg.changes(), program, v.Current, to) {
			unfit = append(unfit, "process "+pid)
		}
	}
	return unfit, nil
}
