package crew

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The guard keeps git, as the program of a member runs it, to the member's own branch: it may not stash, since
// all worktrees share the stash, nor move another branch, be it in the main worktree. It is set by variables
// of the environment, and changes no configuration. It is a guard and no sandbox: who unsets the variables is
// not held back.

const (
	guardDir = "guard" // in the folder of the crew
	guardEnv = "PAWL_GUARD"
	hooksEnv = "PAWL_HOOKS" // the folder of the hooks that the guard replaces
)

// guardHook is the hook of git by which references move.
const guardHook = `#!/bin/sh
# Written by pawl: keeps the program of a member of a crew to its own branch.
moves=$(cat)
if [ "$1" = prepared ]; then
	echo "$moves" | while read -r old new ref; do
		case $ref in
		"refs/heads/$PAWL_BRANCH") ;;
		refs/heads/* | refs/stash | refs/pawl/*)
			echo "pawl: member $PAWL_WORKER works on the branch $PAWL_BRANCH, and may not move $ref" >&2
			exit 1
			;;
		esac
	done || exit 1
fi
test ! -x "$PAWL_HOOKS/reference-transaction" || echo "$moves" | "$PAWL_HOOKS/reference-transaction" "$@"
`

// passHook is any other hook: it runs the one that it stands for.
const passHook = `#!/bin/sh
# Written by pawl: runs the hook of the repository.
hook=$PAWL_HOOKS/${0##*/}
test ! -x "$hook" || exec "$hook" "$@"
`

// passed are the hooks that git may run in a worktree, beside reference-transaction.
var passed = []string{"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg", "post-commit",
	"pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-auto-gc", "post-rewrite", "sendemail-validate", "fsmonitor-watchman", "post-index-change"}

// guard writes the hooks of the guard, and returns the variables that set it.
func (c *Crew) guard(ctx context.Context, worktree string) ([]string, error) {
	dir := filepath.Join(c.Dir, guardDir)
	if err := c.Disk.MakeDir(dir); err != nil {
		return nil, err
	}
	if err := c.writeHook(filepath.Join(dir, "reference-transaction"), guardHook); err != nil {
		return nil, err
	}
	for _, name := range passed {
		if err := c.writeHook(filepath.Join(dir, name), passHook); err != nil {
			return nil, err
		}
	}
	hooks, err := git(ctx, worktree, nil, "rev-parse", "--path-format=absolute", "--git-path", "hooks")
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(os.Getenv(configCount)) // none are set if it is none
	at := strconv.Itoa(n)
	return []string{configCount + "=" + strconv.Itoa(n+1), configKey + at + "=core.hooksPath", configValue + at + "=" + dir, guardEnv + "=" + at, hooksEnv + "=" + hooks}, nil
}

// The variables by which git is configured.
const (
	configCount = "GIT_CONFIG_COUNT"
	configKey   = "GIT_CONFIG_KEY_"
	configValue = "GIT_CONFIG_VALUE_"
)

func (c *Crew) writeHook(path, text string) error {
	there, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil || string(there) != text {
		if err := c.Disk.Publish(path, []byte(text)); err != nil {
			return err
		}
	}
	return os.Chmod(path, 0o755) // also where somebody was killed before
}

// unguarded returns an environment without the guard: what Pawl does itself, though a member has asked for it,
// moves other references.
func unguarded(env []string) []string {
	at := os.Getenv(guardEnv)
	if at == "" {
		return env
	}
	env = slices.DeleteFunc(env, func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == configCount || name == configKey+at || name == configValue+at
	})
	return append(env, configCount+"="+at)
}
