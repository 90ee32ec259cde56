package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
	"github.com/pawl-dev/pawl/internal/sleep"
)

// A Strategy is how the commits of a branch come to its target.
type Strategy string

// The strategies.
const (
	Squash Strategy = "squash" // as one commit
	Merge  Strategy = "merge"  // by a commit with both as parents
)

// A Candidate is a commit that can become the head of a target: what is tested is what lands (C7).
type Candidate struct {
	Target string `json:"target"` // a branch
	Old    string `json:"old"`    // its head, when the candidate was made
	Commit string `json:"commit"`
	Tree   string `json:"tree"`
	Patch  string `json:"patch"` // checksum of what it changes
}

// A ConflictError says that a branch cannot be brought onto its target without a person.
type ConflictError struct {
	Target string
	Paths  []string
}

func (e *ConflictError) Error() string {
	return "conflict with " + e.Target + " in " + strings.Join(e.Paths, ", ")
}

// Candidate makes the commit by which a head would land on a target. It changes no branch and no
// worktree.
func (r *Repo) Candidate(ctx context.Context, head, target string, how Strategy, message string) (*Candidate, error) {
	there, old, err := r.branch(ctx, target)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, pawl.Errorf(pawl.NotFound, "there is no branch %s in %s", target, r.Root)
	}
	c := &Candidate{Target: target, Old: old}
	out, err := r.git(ctx, "merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", old, head)
	tree, rest, _ := strings.Cut(out, "\x00")
	switch {
	case exit(err) == 1:
		return nil, &ConflictError{target, slices.Compact(strings.FieldsFunc(rest, func(c rune) bool { return c == 0 }))}
	case err != nil:
		return nil, err
	}
	c.Tree = tree
	parents := []string{"-p", old}
	if how == Merge {
		parents = append(parents, "-p", head)
	}
	if c.Commit, err = git(ctx, r.Root, identity, append([]string{"commit-tree", tree, "-m", message}, parents...)...); err != nil {
		return nil, err
	}
	c.Patch, err = r.patchID(ctx, old, c.Commit)
	return c, err
}

// ErrMoved is returned if the target has moved since the candidate was made.
var ErrMoved = errors.New("the target has moved")

// Land makes the candidate the head of its target, if that has not moved (C7). It is atomic: killed
// at any point, the target has moved or not. Where the target is checked out, its files follow; if
// they have changes, nothing lands.
func (r *Repo) Land(ctx context.Context, c *Candidate) error {
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := r.follow(ctx, lock); err != nil {
		return err
	}
	if landed, err := r.Landed(ctx, c); landed || err != nil {
		return err
	}
	intent := landing{Candidate: *c}
	if intent.Worktree, err = r.checkedOut(ctx, c); err != nil {
		return err
	}
	text, err := json.Marshal(intent)
	if err != nil {
		return err
	}
	if err := (durable.Disk{}).Publish(r.landingFile(), append(text, '\n')); err != nil {
		return err
	}
	if _, err := r.locked(ctx, lock, "update-ref", "-m", "pawl: landed", "refs/heads/"+c.Target, c.Commit, c.Old); err != nil {
		if _, now, err := r.branch(ctx, c.Target); err == nil && now != c.Old {
			err = fmt.Errorf("%s is at %s, and the candidate follows %s: %w", c.Target, short(now), short(c.Old), ErrMoved)
			return errors.Join(err, r.follow(ctx, lock))
		}
		return err
	}
	return r.follow(ctx, lock)
}

// Follow completes a landing whose process was killed after the target had moved.
func (r *Repo) Follow(ctx context.Context) error {
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	return r.follow(ctx, lock)
}

// Landed reports whether a target has a candidate.
func (r *Repo) Landed(ctx context.Context, c *Candidate) (bool, error) {
	return r.contains(ctx, "refs/heads/"+c.Target, c.Commit)
}

// checkedOut returns where the target of a candidate is checked out, and an error if its files could
// not follow.
func (r *Repo) checkedOut(ctx context.Context, c *Candidate) (string, error) {
	trees, err := r.worktrees(ctx)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(trees, func(w worktree) bool { return w.branch == c.Target && !w.gone })
	if i < 0 {
		return "", nil
	}
	path := trees[i].path
	files, err := git(ctx, path, nil, "--no-optional-locks", "diff", "--name-only", "-z", "HEAD")
	if err != nil {
		return "", err
	}
	if files != "" {
		return "", &LossError{What: c.Target + " is checked out at " + path + ", with changes", Dirty: strings.FieldsFunc(files, func(c rune) bool { return c == 0 })}
	}
	if err := tryUpdate(ctx, path, c); err != nil {
		return "", &LossError{What: c.Target + " is checked out at " + path + ", where files are in the way: " + err.Error()}
	}
	return path, nil
}

// tryUpdate returns an error if the files of a worktree could not be brought from the old head to the
// new one. It uses a copy of the index: git locks an index even to try, and may be killed then.
func tryUpdate(ctx context.Context, path string, c *Candidate) error {
	index, err := git(ctx, path, nil, "rev-parse", "--path-format=absolute", "--git-path", "index")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(index)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "pawl-index-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	index = filepath.Join(dir, "index")
	if err := os.WriteFile(index, text, 0o600); err != nil {
		return err
	}
	_, err = git(ctx, path, []string{"GIT_INDEX_FILE=" + index}, "read-tree", "-n", "-m", "-u", c.Old, c.Commit)
	return err
}

// A landing is a candidate that is landing, with the worktree where its target is checked out.
type landing struct {
	Candidate
	Worktree string `json:"worktree"` // empty if it is checked out nowhere
}

func (r *Repo) landingFile() string { return filepath.Join(r.dir, "pawl.landing") }

// follow makes the files of a worktree follow its branch, if a candidate has landed there: also if
// the process that landed it was killed before. It is called with the lock held.
func (r *Repo) follow(ctx context.Context, lock *durable.Lock) error {
	text, err := readFile(r.landingFile(), maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var l landing
	if err := json.Unmarshal(text, &l); err != nil {
		return &pawl.Error{Kind: pawl.Invalid, Message: r.landingFile() + " is not JSON", Hint: "compare the files of the worktrees with their branches, then remove it", Err: err}
	}
	if err := r.unlock(ctx, &l); err != nil {
		return err
	}
	landed, err := r.Landed(ctx, &l.Candidate)
	if err != nil {
		return err
	}
	if landed && l.Worktree != "" {
		if err := r.update(ctx, lock, &l); err != nil {
			return err
		}
	}
	return os.Remove(r.landingFile())
}

// unlockTime is how long git may have a lock: it writes one file under it.
const unlockTime = time.Second

// unlock removes the locks of git that an interrupted landing may have left.
func (r *Repo) unlock(ctx context.Context, l *landing) error {
	locks := []string{filepath.Join(r.dir, "refs", "heads", filepath.FromSlash(l.Target)+".lock")}
	if l.Worktree != "" {
		dir, err := git(ctx, l.Worktree, nil, "rev-parse", "--path-format=absolute", "--git-dir")
		if err != nil {
			return err
		}
		locks = append(locks, filepath.Join(dir, "HEAD.lock"), filepath.Join(dir, "index.lock"))
	}
	for _, path := range locks {
		if err := unlock(ctx, path, unlockTime); err != nil {
			return err
		}
	}
	return nil
}

// packTime is how long git may have packed-refs, of which it writes all.
const packTime = 10 * time.Second

// deleteBranch deletes a branch if it is at head, and removes the locks that a git has left which
// was killed while it did so.
func (r *Repo) deleteBranch(ctx context.Context, branch, head string) error {
	drop := func() error {
		_, err := r.git(ctx, "update-ref", "-d", "refs/heads/"+branch, head) // not if it has moved meanwhile
		return err
	}
	err := drop()
	if err == nil || !strings.Contains(err.Error(), ".lock'") {
		return err
	}
	if err := unlock(ctx, filepath.Join(r.dir, "refs", "heads", filepath.FromSlash(branch)+".lock"), unlockTime); err != nil {
		return err
	}
	if err := unlock(ctx, filepath.Join(r.dir, "packed-refs.lock"), packTime); err != nil {
		return err
	}
	return drop()
}

// unlock removes a lock of git, if it is there to stay: one of a git that lives is gone soon.
func unlock(ctx context.Context, path string, limit time.Duration) error {
	for begun := time.Now(); time.Since(begun) < limit; {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !sleep.For(ctx, 10*time.Millisecond) {
			return ctx.Err()
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// update brings the files of a worktree from the old head of its branch to the new one. Files that
// are there already stay, so that it can be repeated.
func (r *Repo) update(ctx context.Context, lock *durable.Lock, l *landing) error {
	if _, err := r.lockedIn(ctx, lock, l.Worktree, "read-tree", "-m", "-u", l.Old, l.Commit); err == nil {
		return nil
	}
	// Killed half-way, git has written files that its index does not know yet. Should somebody have
	// changed one of them meanwhile, the rescue has that.
	if _, err := r.Rescue(ctx, l.Worktree, refs+"rescue/landing/"+short(l.Commit)); err != nil {
		return err
	}
	names, err := r.git(ctx, "diff-tree", "-r", "-z", "--no-renames", "--name-only", l.Old, l.Commit)
	if err != nil {
		return err
	}
	_, err = gitCommand(ctx, &exec.Cmd{Dir: l.Worktree, Stdin: strings.NewReader(names), ExtraFiles: []*os.File{lock.File()}},
		"--literal-pathspecs", "restore", "--source", l.Commit, "--staged", "--worktree", "--pathspec-from-file=-", "--pathspec-file-nul")
	return err
}
