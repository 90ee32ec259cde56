package crew

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// The files of a run, in the folder of its member and epoch (C5).
const (
	runFile    = "run.json"    // what was launched; written when runnerLock is held
	exitFile   = "exit.json"   // how it ended; written before runnerLock is free
	runnerLock = "runner.lock" // held by the runner for its life
	treeLock   = "tree.lock"   // held by what the runner has started, until the last of them has ended
)

// An Exit says how the program of a run ended.
type Exit struct {
	Code   int                `json:"code"`             // its exit code, or -1
	Signal string             `json:"signal,omitempty"` // that killed it
	At     pawl.Timestamp     `json:"at"`
	lost   *durable.GoneError // the worktree, for which it was stopped
}

// A Run is what is known of the program that Pawl launched for an assignment. The zero Run is that
// of a member that others launch.
type Run struct {
	Launched bool
	Version  int64 // of the member, when the program was launched
	Alive    bool  // the runner lives, even if it is stopped
	Tree     bool  // something that it has started lives
	Exit     *Exit // nil if it has not ended, or was killed
}

func (f *Folder) runDir(id string, epoch int64) string {
	return filepath.Join(f.Dir, runsDir, id, strconv.FormatInt(epoch, 10))
}

// RunOf returns what is known of the program of an assignment. Locks tell, not process ids: a lock
// is free at once when its holder is dead, and is held while it is stopped.
func (f *Folder) RunOf(id string, epoch int64) (r Run, err error) {
	dir := f.runDir(id, epoch)
	text, err := readFile(filepath.Join(dir, runFile), maxState)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return Run{}, err
	}
	var record runRecord
	if err := json.Unmarshal(text, &record); err != nil {
		return Run{}, err
	}
	r.Launched, r.Version = true, record.Version
	if r.Alive, err = durable.Held(filepath.Join(dir, runnerLock)); err != nil {
		return Run{}, err
	}
	if r.Tree, err = durable.Held(filepath.Join(dir, treeLock)); err != nil {
		return Run{}, err
	}
	text, err = readFile(filepath.Join(dir, exitFile), maxState) // after the lock: it is written before the lock is free
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r.Exit)
	}
	return r, err
}
