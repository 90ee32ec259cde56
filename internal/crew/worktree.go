package crew

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// AddWorktree makes a worktree with a new branch that begins at a commit (C7). If it exists so, it
// stays, with the work that it has. Anything else that is in the way is an error that names it, and
// stays, too.
func (r *Repo) AddWorktree(ctx context.Context, path, branch, base string) error {
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := r.repair(); err != nil {
		return err
	}
	there, done, err := r.inTheWay(ctx, path, branch, base)
	if err != nil || done {
		return err
	}
	if err := r.begin(path, branch); err != nil {
		return err
	}
	args := []string{"worktree", "add", "--quiet"}
	if there {
		args = append(args, path, branch)
	} else {
		args = append(args, "--no-track", "-b", branch, path, base)
	}
	if _, err = r.locked(ctx, lock, args...); err != nil {
		return errors.Join(err, r.repair())
	}
	return os.Remove(r.addingFile())
}

// Checkout makes a worktree of a commit without a branch, to be thrown away. What is there of an
// earlier one goes.
func (r *Repo) Checkout(ctx context.Context, path, commit string) error {
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := errors.Join(r.repair(), r.discard(ctx, lock, path)); err != nil {
		return err
	}
	if err := r.begin(path, ""); err != nil {
		return err
	}
	if _, err := r.locked(ctx, lock, "worktree", "add", "--quiet", "--detach", path, commit); err != nil {
		return errors.Join(err, r.repair())
	}
	return os.Remove(r.addingFile())
}

// Discard removes a worktree that Checkout has made, with all that it has.
func (r *Repo) Discard(ctx context.Context, path string) error {
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := r.repair(); err != nil {
		return err
	}
	return r.discard(ctx, lock, path)
}

func (r *Repo) discard(ctx context.Context, lock *durable.Lock, path string) error {
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	_, err := r.locked(ctx, lock, "worktree", "prune")
	return err
}

// inTheWay returns an error for what keeps a worktree from being made, whether its branch exists,
// and whether it is done.
func (r *Repo) inTheWay(ctx context.Context, path, branch, base string) (there, done bool, err error) {
	there, head, err := r.branch(ctx, branch)
	if err != nil {
		return false, false, err
	}
	trees, err := r.worktrees(ctx)
	if err != nil {
		return false, false, err
	}
	for _, w := range trees {
		switch {
		case w.branch == branch && w.path == path && !w.gone:
			return true, true, nil
		case w.branch == branch && !w.gone:
			return false, false, pawl.Errorf(pawl.Conflict, "the branch %s is checked out at %s", branch, w.path)
		case w.path == path && !w.gone:
			return false, false, pawl.Errorf(pawl.Conflict, "there is another worktree at %s, on %q", path, w.branch)
		}
	}
	if there && head != base {
		return false, false, pawl.Errorf(pawl.Conflict, "the branch %s exists, at %s, and the work is to begin at %s", branch, short(head), short(base))
	}
	if left, err := os.ReadDir(path); err == nil && len(left) > 0 {
		return false, false, &pawl.Error{Kind: pawl.Conflict, Message: path + " is not empty, and no worktree of git", Hint: "look what it has, and move it away"}
	}
	_, err = r.git(ctx, "worktree", "prune") // what was removed by hand
	return there, false, err
}

// branch returns whether a branch exists, and its commit.
func (r *Repo) branch(ctx context.Context, name string) (there bool, commit string, err error) {
	commit, err = r.git(ctx, "rev-parse", "--verify", "--quiet", "refs/heads/"+name)
	if err != nil && exit(err) == 1 {
		return false, "", nil
	}
	return err == nil, commit, err
}

// Commit returns the commit that a name stands for.
func (r *Repo) Commit(ctx context.Context, name string) (string, error) {
	commit, err := r.git(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
	if err != nil && exit(err) > 0 {
		return "", pawl.Errorf(pawl.NotFound, "%s is no commit of %s", name, r.Root)
	}
	return commit, err
}

// tree returns the tree of a commit.
func (r *Repo) tree(ctx context.Context, commit string) (string, error) {
	return r.git(ctx, "rev-parse", "--verify", "--quiet", commit+"^{tree}")
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

// A Tree is the state of a worktree.
type Tree struct {
	Branch  string   `json:"branch"` // empty if detached
	Head    string   `json:"head"`
	Commits int      `json:"commits"` // from the base to the head
	Based   bool     `json:"based"`   // the head follows the base
	Dirty   []string `json:"dirty"`   // what is changed and not committed, or not known to git
}

// Inspect returns the state of a worktree whose work began at a commit.
func (r *Repo) Inspect(ctx context.Context, path, base string) (*Tree, error) {
	if err := r.belongs(ctx, path); err != nil {
		return nil, err
	}
	t := &Tree{}
	var err error
	if t.Branch, err = git(ctx, path, nil, "symbolic-ref", "--quiet", "--short", "HEAD"); err != nil && exit(err) != 1 {
		return nil, err
	}
	if t.Head, err = git(ctx, path, nil, "rev-parse", "HEAD"); err != nil {
		return nil, err
	}
	if t.Based, err = r.contains(ctx, t.Head, base); err != nil {
		return nil, err
	}
	count, err := r.git(ctx, "rev-list", "--count", base+".."+t.Head)
	if err != nil {
		return nil, err
	}
	if t.Commits, err = strconv.Atoi(count); err != nil {
		return nil, err
	}
	t.Dirty, err = dirty(ctx, path)
	return t, err
}

// belongs returns an error unless a folder is the top of a worktree of this repository. Otherwise
// git would work on whatever repository is above it.
func (r *Repo) belongs(ctx context.Context, path string) error {
	trees, err := r.worktrees(ctx)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || !slices.ContainsFunc(trees, func(w worktree) bool { return !w.gone && w.path == real }) {
		return pawl.Errorf(pawl.NotFound, "there is no worktree of %s at %s", r.Root, path)
	}
	return nil
}

// dirty returns what is changed in a worktree and not committed, and what git does not know.
func dirty(ctx context.Context, path string) (files []string, err error) {
	out, err := git(ctx, path, nil, "--no-optional-locks", "status", "--porcelain=v1", "-z", "--untracked-files=normal", "--no-renames")
	if err != nil {
		return nil, err
	}
	for _, one := range strings.Split(out, "\x00") {
		if len(one) > 3 {
			files = append(files, one[3:])
		}
	}
	return files, nil
}

// contains reports whether a commit follows another, or is the same.
func (r *Repo) contains(ctx context.Context, commit, ancestor string) (bool, error) {
	_, err := r.git(ctx, "merge-base", "--is-ancestor", ancestor, commit)
	if exit(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// patchID returns a checksum of what changes between two commits, whatever they follow; it is empty
// if nothing does.
func (r *Repo) patchID(ctx context.Context, base, head string) (string, error) {
	diff, err := r.git(ctx, "diff-tree", "-p", "--binary", base, head)
	if err != nil || diff == "" {
		return "", err
	}
	out, err := gitCommand(ctx, &exec.Cmd{Dir: r.Root, Stdin: strings.NewReader(diff + "\n")}, "patch-id", "--stable")
	id, _, _ := strings.Cut(out, " ")
	return id, err
}

// Rescue keeps all that a worktree has, but for what git ignores, under a ref (C8). It changes
// neither the worktree nor its index nor the stash. It returns the commit.
func (r *Repo) Rescue(ctx context.Context, path, ref string) (string, error) {
	if err := r.belongs(ctx, path); err != nil {
		return "", err
	}
	head, err := git(ctx, path, nil, "rev-parse", "HEAD")
	if err != nil {
		return "", err
	}
	files, err := dirty(ctx, path)
	if err != nil {
		return "", err
	}
	commit := head
	if len(files) > 0 {
		if commit, err = r.snapshot(ctx, path, head); err != nil {
			return "", err
		}
	}
	_, err = r.git(ctx, "update-ref", "-m", "rescued from "+path, ref, commit)
	return commit, err
}

// snapshot returns a commit on head with all that a worktree has.
func (r *Repo) snapshot(ctx context.Context, path, head string) (string, error) {
	dir, err := os.MkdirTemp("", "pawl-index-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	env := append([]string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}, identity...)
	if _, err := git(ctx, path, env, "read-tree", head); err != nil {
		return "", err
	}
	if _, err := git(ctx, path, env, "add", "--all", "--", "."); err != nil {
		return "", err
	}
	tree, err := git(ctx, path, env, "write-tree")
	if err != nil {
		return "", err
	}
	return git(ctx, path, env, "commit-tree", tree, "-p", head, "-m", "what was not committed in "+path)
}

// identity is who commits what Pawl commits.
var identity = []string{"GIT_AUTHOR_NAME=pawl", "GIT_AUTHOR_EMAIL=pawl@localhost", "GIT_COMMITTER_NAME=pawl", "GIT_COMMITTER_EMAIL=pawl@localhost"}

// A LossError refuses what would lose work (C8).
type LossError struct {
	What  string
	Dirty []string
}

func (e *LossError) Error() string {
	if len(e.Dirty) == 0 {
		return e.What
	}
	const most = 5
	more := ""
	if n := len(e.Dirty) - most; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("%s: %s%s", e.What, strings.Join(e.Dirty[:min(len(e.Dirty), most)], ", "), more)
}

// RemoveWorktree removes a worktree and its branch, unless that would lose work: what is not
// committed, or commits that neither the target nor a ref of Pawl has (C8). It is done if both are
// gone already.
func (r *Repo) RemoveWorktree(ctx context.Context, path, branch, target string) error {
	lock, err := r.lock(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := r.repair(); err != nil {
		return err
	}
	there, head, err := r.branch(ctx, branch)
	if err != nil {
		return err
	}
	if there {
		kept, err := r.kept(ctx, head, target)
		if err != nil {
			return err
		}
		if !kept {
			return &LossError{What: fmt.Sprintf("the branch %s has commits that %s does not have", branch, target)}
		}
	}
	if err := r.removeFolder(ctx, path); err != nil || !there {
		return err
	}
	err = r.deleteBranch(ctx, branch, head)
	return err
}

// kept reports whether a commit is in the target, or below a ref of Pawl.
func (r *Repo) kept(ctx context.Context, commit, target string) (bool, error) {
	if in, err := r.contains(ctx, target, commit); in || err != nil {
		return in, err
	}
	out, err := r.git(ctx, "for-each-ref", "--count=1", "--contains", commit, "--format=%(refname)", refs)
	return out != "", err
}

// refs are the refs under which Pawl keeps commits.
const refs = "refs/pawl/"

// removedDir is where the worktrees that are being removed are, beside where they were.
const removedDir = ".removed"

// removeFolder removes a worktree that has nothing to lose.
func (r *Repo) removeFolder(ctx context.Context, path string) error {
	switch _, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return r.clear(ctx, path)
	case err != nil:
		return err
	}
	if err := r.belongs(ctx, path); err != nil {
		return err
	}
	files, err := dirty(ctx, path)
	if err != nil {
		return err
	}
	if len(files) > 0 {
		return &LossError{What: "the worktree " + path + " has what is not committed", Dirty: files}
	}
	return r.takeAway(ctx, path)
}

// takeAway removes a worktree, whatever it has. It renames it before it removes its files: git worktree
// remove, killed half-way, leaves a folder that is no worktree.
func (r *Repo) takeAway(ctx context.Context, path string) error {
	own, err := git(ctx, path, nil, "rev-parse", "--path-format=absolute", "--git-dir")
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(own, "modules")); err == nil {
		return &LossError{What: "the worktree " + path + " has submodules with repositories of their own"}
	}
	if err := r.clear(ctx, path); err != nil { // what an earlier one of the name has left
		return err
	}
	aside := filepath.Join(filepath.Dir(path), removedDir, filepath.Base(path))
	if err := os.MkdirAll(filepath.Dir(aside), 0o755); err != nil {
		return err
	}
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	return r.clear(ctx, path)
}

// clear removes what is left of a worktree that was taken away.
func (r *Repo) clear(ctx context.Context, path string) error {
	dir := filepath.Join(filepath.Dir(path), removedDir)
	if err := os.RemoveAll(filepath.Join(dir, filepath.Base(path))); err != nil {
		return err
	}
	_ = os.Remove(dir) // unless there are others
	_, err := r.git(ctx, "worktree", "prune")
	return err
}

// throwAway removes a worktree and its branch, and keeps all that they have under refs of Pawl (C8), which it
// returns. Nobody may work there.
func (r *Repo) throwAway(ctx context.Context, path, branch string) (kept []string, err error) {
	_, err = os.Lstat(path)
	rescued := err == nil
	if rescued {
		kept = append(kept, refs+"rescue/"+branch)
		if _, err := r.Rescue(ctx, path, kept[0]); err != nil {
			return nil, err
		}
	}
	lock, err := r.lock(ctx)
	if err != nil {
		return kept, err
	}
	defer lock.Release()
	if err := r.repair(); err != nil {
		return kept, err
	}
	there, head, err := r.branch(ctx, branch)
	if err != nil {
		return kept, err
	}
	if there {
		ref := refs + "discarded/" + branch
		if _, err := r.git(ctx, "update-ref", "-m", "pawl: discarded", ref, head); err != nil {
			return kept, err
		}
		kept = append(kept, ref)
	}
	if rescued {
		if err := r.takeAway(ctx, path); err != nil {
			return kept, err
		}
	}
	if !there {
		return kept, nil
	}
	err = r.deleteBranch(ctx, branch, head)
	return kept, err
}
