package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// Alive names the processes that listen for hints about the file, which every
// engine does, of whatever version of Pawl.
func (db *DB) Alive(context.Context) ([]string, error) {
	if db.wakeups.dir == "" {
		return nil, nil
	}
	sockets, err := os.ReadDir(db.wakeups.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, s := range sockets {
		c, err := net.Dial("unixgram", filepath.Join(db.wakeups.dir, s.Name()))
		if err != nil {
			continue // it is gone, and its socket was left behind
		}
		_ = c.Close()
		pid, _, _ := strings.Cut(s.Name(), "-")
		names = append(names, "process "+pid)
	}
	return names, err
}
