package crew

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/durable"
)

// A Repo is a git repository, with all its worktrees. Its methods run git, without hooks of a
// terminal or an editor.
type Repo struct {
	Root string // of the main worktree
	dir  string // the common git folder
}

// A GitError is a git command that failed.
type GitError struct {
	Args   []string
	Stderr string
	Err    error
}

func (e *GitError) Error() string {
	text := strings.TrimSpace(e.Stderr)
	if text == "" {
		text = e.Err.Error()
	}
	return "git " + e.Args[0] + ": " + text
}

func (e *GitError) Unwrap() error { return e.Err }

// FindRepo returns the repository that a folder is in. The folder may be in any of its worktrees.
func FindRepo(ctx context.Context, dir string) (*Repo, error) {
	common, err := git(ctx, dir, nil, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		var failed *GitError
		if errors.As(err, &failed) && strings.Contains(failed.Stderr, "not a git repository") {
			return nil, &pawl.Error{Kind: pawl.NotFound, Message: dir + " is not in a git repository", Hint: "git init makes one"}
		}
		return nil, err
	}
	r := &Repo{dir: common}
	trees, err := r.worktrees(ctx)
	if err != nil {
		return nil, err
	}
	if r.Root = trees[0].path; trees[0].bare {
		return nil, pawl.Errorf(pawl.Invalid, "the repository %s is bare: a crew needs one with a worktree", common)
	}
	return r, nil
}

// quiet are settings for git: it asks nobody, and says what it says in English.
var quiet = []string{"GIT_EDITOR=true", "GIT_SEQUENCE_EDITOR=true", "GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "LC_ALL=C"}

// elsewhere are the variables by which git would work on another repository than the one it is
// started in: they are set in hooks.
var elsewhere = []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE", "GIT_PREFIX"}

// git runs git in a folder, and returns what it prints, without the last line feed.
func git(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	return gitCommand(ctx, &exec.Cmd{Dir: dir, Env: env}, args...)
}

// gitCommand is git with the folder, the additional environment, the input and the files of c.
func gitCommand(ctx context.Context, with *exec.Cmd, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir, c.Stdin, c.ExtraFiles = with.Dir, with.Stdin, with.ExtraFiles
	c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(elsewhere, name)
	})
	c.Env = append(append(unguarded(c.Env), quiet...), with.Env...)
	var out, complaints bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaints
	if err := c.Run(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return "", &pawl.Error{Kind: pawl.NotFound, Message: "git is not installed", Hint: "apt-get install git, or the like"}
		}
		return out.String(), &GitError{args, complaints.String(), err}
	}
	return strings.TrimSuffix(out.String(), "\n"), nil
}

func (r *Repo) git(ctx context.Context, args ...string) (string, error) {
	return git(ctx, r.Root, nil, args...)
}

// locked runs git with the lock of the repository: it is held until git has ended, even if this
// process is killed before.
func (r *Repo) locked(ctx context.Context, lock *durable.Lock, args ...string) (string, error) {
	return r.lockedIn(ctx, lock, r.Root, args...)
}

func (r *Repo) lockedIn(ctx context.Context, lock *durable.Lock, dir string, args ...string) (string, error) {
	return gitCommand(ctx, &exec.Cmd{Dir: dir, ExtraFiles: []*os.File{lock.File()}}, args...)
}

// exit returns the exit code of a git command that failed, or -1.
func exit(err error) int {
	var code *exec.ExitError
	if errors.As(err, &code) {
		return code.ExitCode()
	}
	return -1
}

// A worktree is one that git knows.
type worktree struct {
	path   string
	head   string
	branch string // empty if detached
	bare   bool
	gone   bool // its folder does not exist
}

// worktrees returns what git knows, the main one first.
func (r *Repo) worktrees(ctx context.Context) (list []worktree, err error) {
	out, err := git(ctx, r.dir, nil, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, err
	}
	for _, field := range strings.Split(out, "\x00") {
		name, value, _ := strings.Cut(field, " ")
		if name == "worktree" {
			list = append(list, worktree{path: value})
			continue
		}
		if len(list) == 0 {
			continue
		}
		switch w := &list[len(list)-1]; name {
		case "HEAD":
			w.head = value
		case "branch":
			w.branch = strings.TrimPrefix(value, "refs/heads/")
		case "bare":
			w.bare = true
		case "prunable":
			w.gone = true
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("git worktree list names no worktree of %s", r.dir)
	}
	return list, nil
}

// Exclude makes git ignore the folder of the crew in every worktree, by a line in info/exclude.
func (r *Repo) Exclude() error {
	path := filepath.Join(r.dir, "info", "exclude")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	const line = "/" + FolderName + "/"
	if slices.Contains(strings.Split(string(text), "\n"), line) {
		return nil
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(text, '\n')
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, line+"\n"...), 0o644)
}
