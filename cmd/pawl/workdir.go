package main

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/store/postgres"
)

// A workdir says where submitted jobs have their folders, and for how long.
type workdir struct {
	root string // empty: in the folder of what this user's programs keep
	keep bool
}

func (w *workdir) bind(c *cobra.Command) {
	c.Flags().StringVar(&w.root, "workdir", "",
		"where submitted jobs get their folders; default ~/.local/state/pawl/work")
	c.Flags().BoolVar(&w.keep, "keep-workdir", false, "keep the folders of jobs that have ended")
}

// of returns the folder in which the jobs of a database have theirs: no two databases
// share one.
func (w *workdir) of(a *app, db database) (string, error) {
	root := w.root
	if root == "" {
		state := a.stateHome()
		if !filepath.IsAbs(state) {
			return "", usage("name a folder with --workdir", "neither XDG_STATE_HOME nor HOME says where jobs get their folders")
		}
		root = filepath.Join(state, "pawl", "work")
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("find --workdir: %w", err)
	}
	label, err := db.label()
	return filepath.Join(root, label), err
}

// label names the database as a folder, and tells it from others.
func (d database) label() (string, error) {
	kind, place, err := "sqlite", d.Path, error(nil)
	switch {
	case d.Postgres != "":
		kind = "postgres"
		place, err = postgres.Place(d.Postgres)
	case !d.Memory():
		place, err = filepath.EvalSymlinks(d.Path)
		if err == nil {
			place, err = filepath.Abs(place)
		}
	}
	sum := sha256.Sum256([]byte(place))
	return fmt.Sprintf("%s-%x", kind, sum[:8]), err
}
