package crew

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// FolderName is the name of the folder in the main work tree of a repository.
const FolderName = ".worker-state"

// A Folder is the folder of a crew. Its methods may be called from any number of goroutines and
// processes.
type Folder struct {
	Dir   string
	Disk  durable.Disk
	Now   func() time.Time // wall clock
	Clock func() Instant
}

// Create creates the folder of a crew, or completes it.
func Create(dir string) (*Folder, error) {
	f := &Folder{Dir: dir, Now: time.Now, Clock: now}
	for _, sub := range []string{historyDir, messagesDir, reviewsDir, runsDir} {
		if err := f.Disk.MakeDir(filepath.Join(dir, sub)); err != nil {
			return nil, err
		}
	}
	return f, nil
}

const (
	historyDir  = "history"
	messagesDir = "messages"
	reviewsDir  = "reviews"
	runsDir     = "runs"
)

// Open opens the folder of a crew.
func Open(dir string) (*Folder, error) {
	if info, err := os.Stat(filepath.Join(dir, historyDir)); err != nil || !info.IsDir() {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: "there is no crew at " + dir, Hint: "pawl crew init makes one"}
	}
	return &Folder{Dir: dir, Now: time.Now, Clock: now}, nil
}

func (f *Folder) state(id string) string     { return filepath.Join(f.Dir, id+".json") }
func (f *Folder) lock(id string) string      { return filepath.Join(f.Dir, id+".lock") }
func (f *Folder) heartbeat(id string) string { return filepath.Join(f.Dir, id+".heartbeat") }
func (f *Folder) history(id string) string   { return filepath.Join(f.Dir, historyDir, id+".jsonl") }

// Members returns the ids of all members, in their order.
func (f *Folder) Members() (ids []string, err error) {
	for dir, suffix := range map[string]string{f.Dir: ".json", filepath.Join(f.Dir, historyDir): ".jsonl"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if id, ok := strings.CutSuffix(e.Name(), suffix); ok && CheckID(id) == nil {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// Load returns the state of a member. It takes no lock, so the state may be one change behind.
func (f *Folder) Load(id string) (*Member, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	m, err := f.read(id)
	if err == nil && m == nil {
		err = notFound(id)
	}
	return m, err
}

func notFound(id string) error {
	return &pawl.Error{Kind: pawl.NotFound, Message: "there is no member " + id, Hint: "pawl crew list shows all; pawl crew spawn " + id + " makes this one"}
}

// maxState is the largest state that is read, in bytes.
const maxState = 1 << 20

// read returns the state in a member's file, or nil if it has none.
func (f *Folder) read(id string) (*Member, error) {
	b, err := readFile(f.state(id), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := new(Member)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, &TamperedError{ID: id, Why: "it is not the JSON of a member: " + err.Error()}
	}
	if m.ID != id {
		return nil, &TamperedError{ID: id, Why: "its worker_id is " + string(m.ID)}
	}
	return m, nil
}

func readFile(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > most {
		return nil, pawl.Errorf(pawl.Invalid, "%s has %d bytes; at most %d are read", path, info.Size(), most)
	}
	return os.ReadFile(path)
}

// A TamperedError says that the state of a member is not the one that its history leads to:
// somebody has changed a file otherwise than by a change.
type TamperedError struct{ ID, Why string }

func (e *TamperedError) Error() string {
	return "the state of member " + e.ID + " is not what its history says: " + e.Why
}
