package crew

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// git worktree add fails when several run at once; and where one was killed, every later command
// on worktrees may fail ("failed to read commondir"). So one process at a time makes a worktree, and
// says so before, and the next one removes what it has left if it was killed.

// lockName is the lock of a repository, in its git folder.
const lockName = "pawl.lock"

// repoTime is how long to wait for the lock of the repository, unless the context ends: many may make
// worktrees at once, and the checkout of a large one takes a while.
const repoTime = 10 * time.Minute

// lock takes the lock of the repository.
func (r *Repo) lock(ctx context.Context) (*durable.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, repoTime)
	defer cancel()
	lock, err := durable.Acquire(ctx, filepath.Join(r.dir, lockName))
	if errors.Is(err, durable.ErrHeld) {
		return nil, &pawl.Error{Kind: pawl.Unavailable, Message: "another process changes the worktrees of " + r.Root, Err: err}
	}
	return lock, err
}

// adding names the worktree that is being made.
type adding struct {
	Path   string `json:"path"`
	Branch string `json:"branch"`
}

func (r *Repo) addingFile() string { return filepath.Join(r.dir, "pawl.adding") }

// begin says that a worktree is being made. Its folder is empty or missing.
func (r *Repo) begin(path, branch string) error {
	text, err := json.Marshal(adding{path, branch})
	if err != nil {
		return err
	}
	return durable.Disk{}.Publish(r.addingFile(), append(text, '\n'))
}

// repair removes what is left of a worktree whose making was interrupted. It is called with the lock
// held, which git holds, too, as long as it runs.
func (r *Repo) repair() error {
	text, err := readFile(r.addingFile(), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var a adding
	if err := json.Unmarshal(text, &a); err != nil {
		return &pawl.Error{Kind: pawl.Invalid, Message: r.addingFile() + " is not JSON", Hint: "remove it if nobody makes a worktree", Err: err}
	}
	dirs, err := os.ReadDir(filepath.Join(r.dir, "worktrees"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, d := range dirs {
		if dir := filepath.Join(r.dir, "worktrees", d.Name()); a.owns(dir) && !complete(dir) {
			if err := errors.Join(os.RemoveAll(a.Path), os.RemoveAll(dir)); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(filepath.Join(r.dir, "refs", "heads", filepath.FromSlash(a.Branch)+".lock")); a.Branch != "" && err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Remove(r.addingFile())
}

// owns reports whether a folder of git is that of the worktree. Git names it like the worktree's,
// with a number if there is such a one, before it writes where the worktree is.
func (a *adding) owns(dir string) bool {
	where, err := os.ReadFile(filepath.Join(dir, "gitdir"))
	if err != nil || len(where) == 0 {
		name := strings.TrimPrefix(filepath.Base(dir), filepath.Base(a.Path))
		return name != filepath.Base(dir) && strings.Trim(name, "0123456789") == ""
	}
	return strings.TrimSpace(string(where)) == filepath.Join(a.Path, ".git")
}

// complete reports whether git has finished a worktree, by its folder.
func complete(dir string) bool {
	for _, name := range []string{"gitdir", "HEAD", "commondir"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || len(text) == 0 {
			return false
		}
	}
	reason, err := os.ReadFile(filepath.Join(dir, "locked"))
	return err != nil || strings.TrimSpace(string(reason)) != "initializing"
}
