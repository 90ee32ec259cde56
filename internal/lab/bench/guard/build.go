package main

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gofrs/flock"
)

// folder creates the folder of this guard, and removes those of guards that were killed. A guard
// holds a lock in its folder.
func folder(ctx context.Context) (dir string, remove func(), err error) {
	locks, _ := filepath.Glob(filepath.Join(os.TempDir(), "pawl-guard-*", "lock"))
	for _, l := range locks {
		lock := flock.New(l)
		if dead, err := lock.TryLock(); err == nil && dead {
			_, _ = output(ctx, ".", nil, "git", "worktree", "remove", "--force", tree(filepath.Dir(l))) // of another repository: not known
			_ = os.RemoveAll(filepath.Dir(l))
			_ = lock.Close()
		}
	}
	if dir, err = os.MkdirTemp("", "pawl-guard-"); err != nil {
		return "", nil, err
	}
	open := filepath.Join(dir, "open")
	lock := flock.New(open)
	remove = func() {
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
	if _, err = lock.TryLock(); err == nil {
		err = os.Rename(open, filepath.Join(dir, "lock")) // so nobody sees it unlocked
	}
	if err != nil {
		remove()
	}
	return dir, remove, err
}

// tree is the work tree of the base in the folder of a guard.
func tree(dir string) string { return filepath.Join(dir, "tree") }

// build builds the program of a revision in a temporary work tree, which it removes, and that of
// the current folder.
func build(ctx context.Context, revision, dir string, progress func(string, ...any)) (base, head program, err error) {
	base, head = program{"base", filepath.Join(dir, "base"), true}, program{"head", filepath.Join(dir, "head"), false}
	tree := tree(dir)
	if _, err := output(ctx, ".", nil, "git", "worktree", "add", "--detach", tree, revision); err != nil {
		return base, head, err
	}
	defer func() {
		_, e := output(context.WithoutCancel(ctx), ".", nil, "git", "worktree", "remove", "--force", tree)
		err = errors.Join(err, e)
	}()
	var older []string
	of, err := toolchain(tree)
	if err != nil {
		return base, head, err
	}
	if now, err := toolchain("."); err != nil {
		return base, head, err
	} else if of != now {
		older = []string{"GOTOOLCHAIN=" + of}
	}
	for _, b := range []struct {
		from, to string
		env      []string
	}{{tree, base.path, older}, {".", head.path, nil}} {
		progress("build %s", filepath.Base(b.to))
		if _, err := output(ctx, b.from, b.env, "go", "build", "-buildvcs=false", "-trimpath", "-o", b.to, "./cmd/pawl"); err != nil {
			return base, head, err
		}
	}
	return base, head, nil
}

var (
	toolchainLine = regexp.MustCompile(`(?m)^toolchain (go\S+)`)
	goLine        = regexp.MustCompile(`(?m)^go (\S+)`)
	language      = regexp.MustCompile(`^go\d+\.\d+$`)
)

// toolchain returns the version of Go that the module in a folder wants, as go1.26.0.
func toolchain(dir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	if m := toolchainLine.FindSubmatch(text); m != nil {
		return string(m[1]), nil
	}
	m := goLine.FindSubmatch(text)
	if m == nil {
		return "", errors.New("go.mod: no version of Go")
	}
	v := "go" + string(m[1])
	if language.MatchString(v) {
		v += ".0"
	}
	return v, nil
}

// version returns the version of Go that has built the program.
func (p program) version() (string, error) {
	info, err := buildinfo.ReadFile(p.path)
	if err != nil {
		return "", fmt.Errorf("%s: %w", p.name, err)
	}
	return info.GoVersion, nil
}

// revision returns the commit to compare with, and what it is called: the one named; otherwise
// where this branch left main, the last tag, or the last commit.
func revision(ctx context.Context, named string) (commit, name string, err error) {
	resolve := func(name string) (string, error) {
		return output(ctx, ".", nil, "git", "rev-parse", "--verify", "--quiet", name+"^{commit}")
	}
	if named != "" {
		if commit, err = resolve(named); err != nil {
			err = fmt.Errorf("-base %s: no such revision", named)
		}
		return commit, named, err
	}
	last, err := resolve("HEAD")
	if err != nil {
		return "", "", err
	}
	if fork, err := output(ctx, ".", nil, "git", "merge-base", "main", "HEAD"); err == nil && fork != last {
		return fork, "merge base with main", nil
	}
	if tag, err := output(ctx, ".", nil, "git", "describe", "--tags", "--abbrev=0"); err == nil {
		commit, err = resolve(tag)
		return commit, tag, err
	}
	return last, "HEAD", nil
}

// output runs a command in a folder, with more in its environment, and returns what it writes.
func output(ctx context.Context, dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // a hook of git names its own repository
		return strings.HasPrefix(v, "GIT_") && !strings.HasPrefix(v, "GIT_CONFIG_")
	})
	cmd.Env = append(append(cmd.Env, "CGO_ENABLED=0"), env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = grace
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return "", cmp.Or(context.Cause(ctx), fmt.Errorf("%s: %w", strings.Join(args, " "), err))
	}
	return strings.TrimSpace(string(out)), nil
}
