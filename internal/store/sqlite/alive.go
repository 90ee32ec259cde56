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

// Unfit names the processes of this user that listen for hints about the file and whose
// programs would not work during a migration to a version, or after it. Every engine of every
// version of Pawl listens.
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
			continue // it has died and left its socket behind
		}
		pid, rest, _ := strings.Cut(filepath.Base(path), "-")
		program := 0 // for processes that do not report it
		_, _ = fmt.Sscanf(rest, "v%d-", &program)
		if !store.Serves(db.cfg.changes(), program, v.Current, to) {
			unfit = append(unfit, "process "+pid)
		}
	}
	return unfit, nil
}
