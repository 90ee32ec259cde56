package crew

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// leastGit is the oldest git with what a crew uses: merge-tree --write-tree.
const leastGit = "2.38"

// Find returns the crew of the repository that a folder is in; the folder may be in any of its
// worktrees. The worktrees of members are below state, which is outside of the repository.
func Find(ctx context.Context, dir, state string) (*Crew, error) {
	r, err := FindRepo(ctx, dir)
	if err != nil {
		return nil, err
	}
	f, err := Open(filepath.Join(r.Root, FolderName))
	if err != nil {
		return nil, err
	}
	trees, err := r.treesIn(state)
	return &Crew{Folder: f, Repo: r, Trees: trees}, err
}

// Init makes the crew of a repository, or completes it, once git and the locks of its file system
// are known to be good enough.
func Init(ctx context.Context, dir, state string) (*Crew, error) {
	if err := CheckGit(ctx); err != nil {
		return nil, err
	}
	r, err := FindRepo(ctx, dir)
	if err != nil {
		return nil, err
	}
	trees, err := r.treesIn(state)
	if err != nil {
		return nil, err
	}
	if err := r.Exclude(); err != nil {
		return nil, err
	}
	f, err := Create(filepath.Join(r.Root, FolderName))
	if err != nil {
		return nil, err
	}
	return &Crew{Folder: f, Repo: r, Trees: trees}, durable.Selftest(ctx, f.Dir)
}

// treesIn returns the folder of the worktrees of this repository: its name, and what tells it from
// others of that name.
func (r *Repo) treesIn(state string) (string, error) {
	state = resolved(state)
	if rel, err := filepath.Rel(r.Root, state); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return "", &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("the folder for worktrees, %s, is in the repository %s", state, r.Root), Hint: "set XDG_STATE_HOME to a folder outside of it"}
	}
	sum := sha256.Sum256([]byte(r.Root))
	return filepath.Join(state, "pawl", "crew", filepath.Base(r.Root)+"-"+hex.EncodeToString(sum[:4])), nil
}

// resolved returns a path without symbolic links, as git names it; its end need not exist.
func resolved(path string) string {
	for dir := path; ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, strings.TrimPrefix(path, dir))
		}
		if dir == filepath.Dir(dir) {
			return path
		}
	}
}

// CheckGit returns an error unless git is installed and new enough.
func CheckGit(ctx context.Context) error {
	version, err := GitVersion(ctx)
	if err != nil {
		return err
	}
	if older(version, leastGit) {
		return &pawl.Error{Kind: pawl.Invalid, Message: fmt.Sprintf("git is version %s; allowed: %s or newer", version, leastGit), Hint: "install a newer git"}
	}
	return nil
}

// GitVersion returns the version of git, such as 2.39.5.
func GitVersion(ctx context.Context) (string, error) {
	out, err := git(ctx, "", nil, "version")
	words := strings.Fields(out)
	if err != nil || len(words) < 3 {
		return out, err
	}
	return words[2], nil
}

// older reports whether a version is lower than another, by its first two numbers.
func older(version, than string) bool {
	var a, b [2]int
	_, err := fmt.Sscanf(version, "%d.%d", &a[0], &a[1])
	_, _ = fmt.Sscanf(than, "%d.%d", &b[0], &b[1]) // a constant
	return err != nil || a[0] < b[0] || a[0] == b[0] && a[1] < b[1]
}

// CurrentBranch returns the branch that the main worktree has checked out: the target of work that
// names none.
func (r *Repo) CurrentBranch(ctx context.Context) (string, error) {
	name, err := r.git(ctx, "symbolic-ref", "--quiet", "--short", "HEAD")
	if exit(err) == 1 {
		return "", &pawl.Error{Kind: pawl.Invalid, Message: r.Root + " has no branch checked out", Hint: "name the branch on which the work is to land with --target"}
	}
	return name, err
}
