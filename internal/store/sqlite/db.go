// Package sqlite keeps Pawl in one SQLite file, the embedded default. It is pure Go, and any
// number of processes of one machine may open the same file.
//
// A process has one connection that writes and a few that read. Writers of several processes
// take turns: one that finds the file busy retries at once and with jitter, and one that
// writes in a tight loop lets the others in between. A caller therefore sees "busy" only if
// another process writes for 30 seconds.
//
// The file is in WAL mode: readers never wait for writers. Beside it are NAME-wal and NAME-shm
// (SQLite's own), NAME-logs (the output of steps, a second database) and NAME.locks, a folder
// of lock files that show at once which process has died. New files are private to their user
// (mode 0600), or shared with the group if the database is (0660). A file on a network share
// is not supported.
package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// memory is the path of a database that lives in memory.
const memory = ":memory:"

// Values of Config.Synchronous.
const (
	Full   = "full"
	Normal = "normal"
)

// Config says which database to open, and how.
type Config struct {
	// Path is the file, which is created if it is missing; its folder must
	// exist. ":memory:" is a database of this handle alone, gone when it closes.
	Path string

	// Synchronous says what a commit guarantees.
	//
	// Full, the default: when Do has returned, the commit is on disk and survives a loss of
	// power. It costs one fsync for each commit.
	//
	// Normal: it survives the death of every process, but a loss of power or a crash of the
	// operating system may undo the commits of the last moments, newest first. The file stays
	// consistent.
	Synchronous string

	// AnyVersion opens a file of any schema version, and does not migrate a new file, so that
	// the caller can migrate it.
	AnyVersion bool

	// Ahead are changes of the schema after those of this program, for tests of programs of
	// two versions that share a database.
	Ahead []store.SchemaChange

	// Clock is the database's clock. Default time.Now.
	Clock func() time.Time

	// Log receives rows that cannot be decoded, and hints that cannot be sent. Default:
	// discarded.
	Log *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Synchronous == "" {
		c.Synchronous = Full
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if c.Path == "" {
		return pawl.Errorf(pawl.Invalid, "database path is empty: want a file or %s", memory)
	}
	if c.Synchronous != Full && c.Synchronous != Normal {
		return pawl.Errorf(pawl.Invalid, "synchronous %q: want %s or %s", c.Synchronous, Full, Normal)
	}
	return nil
}

// A DB is an open database. It is safe for concurrent use.
type DB struct {
	cfg     Config
	opened  int // see Opened
	log     *slog.Logger
	file    fs.FileInfo // nil in memory
	writer  *writer
	readers *readers // nil in memory: reads share the writer's connection
	logs    logs
	holds   holds
	wakeups *wakeups
	notes   notes

	remoteBeats remoteBeats

	faults store.Faults

	maxVacuum int64 // see Scrub; less in tests
	stats     struct{ commits, inserts, updates, entries, rollbacks atomic.Int64 }
}

var _ store.Store = (*DB)(nil)

// Open opens the database. It migrates a new or empty file to the newest schema. An older
// schema is an error of kind Conflict whose hint is to run `pawl migrate up`; a schema that is
// too new for this program, and a file that is not Pawl's, are Conflicts too.
func Open(ctx context.Context, cfg Config) (*DB, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	create(cfg.Path, newMode)
	c, err := connect(ctx, cfg.Path, cfg.Synchronous, writerKiB)
	if err != nil {
		return nil, err
	}
	db := &DB{cfg: cfg, log: cfg.Log, logs: logs{path: memory}, maxVacuum: maxVacuum}
	if cfg.Path == memory {
		db.holds, db.wakeups = newMemoryHolds(cfg.Clock), &wakeups{}
		db.writer = newWriter(c, nil)
	} else if err := db.besideFile(c); err != nil {
		c.close()
		return nil, err
	}
	if err := db.admit(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// besideFile sets up the files beside the database, under its real name, so that processes
// that know it by different names share them.
func (db *DB) besideFile(c *conn) error {
	path, err := filepath.EvalSymlinks(db.cfg.Path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(path)
	}
	if err != nil {
		return translate("open "+db.cfg.Path, err)
	}
	files, err := newFileHolds(path+".locks", info, db.cfg.Clock)
	if err != nil {
		return err
	}
	db.holds, db.file = files, info
	db.logs.path, db.logs.mode = path+"-logs", modeBeside(info)
	db.wakeups = newWakeups(path, len(db.cfg.changes()), db.log)
	db.writer = newWriter(c, newQueueFile(filepath.Join(files.dir, waitingFile), files.mode))
	db.readers = newReaders(path, db.cfg.Synchronous)
	return nil
}

// Close closes the database. Held names stay held until their release or the end of the
// process. Close waits for calls in progress; later ones fail.
func (db *DB) Close() error {
	db.wakeups.close()
	db.remoteBeats.close()
	err := db.writer.close()
	if db.readers != nil {
		err = errors.Join(err, db.readers.close())
	}
	return errors.Join(err, db.logs.close())
}

// now returns the database's clock.
func (db *DB) now() int64 { return pawl.Micros(db.cfg.Clock()) }

// Stats returns counts of the writes through this handle since it was opened.
func (db *DB) Stats(context.Context) (store.Stats, error) {
	return store.Stats{
		Commits:  db.stats.commits.Load(),
		Inserts:  db.stats.inserts.Load(),
		Updates:  db.stats.updates.Load(),
		Entries:  db.stats.entries.Load(),
		Rollback: db.stats.rollbacks.Load(),
	}, nil
}
