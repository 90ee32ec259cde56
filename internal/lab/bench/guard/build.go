package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// build builds the program of a revision in a temporary work tree, which it removes, and that of
// the current folder.
func build(ctx context.Context, revision, dir string, progress func(string, ...any)) (base, head program, err error) {
	base, head = program{"base", filepath.Join(dir, "base")}, program{"head", filepath.Join(dir, "head")}
	tree := filepath.Join(dir, "tree")
	if _, err := output(ctx, ".", "git", "worktree", "add", "--detach", tree, revision); err != nil {
		return base, head, err
	}
	defer func() {
		_, e := output(context.WithoutCancel(ctx), ".", "git", "worktree", "remove", "--force", tree)
		err = errors.Join(err, e)
	}()
	for _, b := range []struct{ from, to string }{{tree, base.path}, {".", head.path}} {
		progress("build %s", filepath.Base(b.to))
		if _, err := output(ctx, b.from, "go", "build", "-buildvcs=false", "-trimpath", "-o", b.to, "./cmd/pawl"); err != nil {
			return base, head, err
		}
	}
	return base, head, nil
}

// revision returns the commit to compare with, and what it is called: the one named; otherwise
// where this branch left main, the last tag, or the last commit.
func revision(ctx context.Context, named string) (commit, name string, err error) {
	resolve := func(name string) (string, error) {
		return output(ctx, ".", "git", "rev-parse", "--verify", "--quiet", name+"^{commit}")
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
	if fork, err := output(ctx, ".", "git", "merge-base", "main", "HEAD"); err == nil && fork != last {
		return fork, "merge base with main", nil
	}
	if tag, err := output(ctx, ".", "git", "describe", "--tags", "--abbrev=0"); err == nil {
		commit, err = resolve(tag)
		return commit, tag, err
	}
	return last, "HEAD", nil
}

// output runs a command in a folder and returns what it writes.
func output(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
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
