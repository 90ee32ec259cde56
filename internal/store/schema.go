package store

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
)

// RollingMark begins both files of a migration that needs no downtime: programs of the version
// before it and of its own version work side by side, on a database before the migration and
// after it. DESIGN.md says how such a change is made.
const RollingMark = "-- rolling\n"

// A SchemaChange is one migration.
type SchemaChange struct{ Up, Down string }

// Rolling reports whether programs keep working during the change, and after it.
func (c *SchemaChange) Rolling() bool {
	return strings.HasPrefix(c.Up, RollingMark) && strings.HasPrefix(c.Down, RollingMark)
}

// A SchemaVersion is what a database records about its schema: the current version, and the
// oldest version whose programs it supports: its own, or the one before.
type SchemaVersion struct{ Current, Oldest int }

// SchemaAfter returns the SchemaVersion of a database at a version, given the changes up to
// there.
func SchemaAfter(changes []SchemaChange, version int) SchemaVersion {
	v := SchemaVersion{version, version}
	if version > 1 && changes[version-1].Rolling() {
		v.Oldest--
	}
	return v
}

// Check returns nil if a program that knows these changes works on the database. Otherwise it
// returns an error of kind Conflict that says which of the two is too old. Programs and
// databases of adjacent versions work together if the change between them is rolling; a gap of
// two versions is never allowed.
func (v SchemaVersion) Check(changes []SchemaChange) error {
	own := SchemaAfter(changes, len(changes))
	switch {
	case v.Current > own.Current && v.Oldest > own.Current:
		return &pawl.Error{Kind: pawl.Conflict, Hint: "use the newer pawl",
			Message: fmt.Sprintf("the database has schema version %d, made by a newer pawl, and serves programs from version %d on; this program is of version %d", v.Current, v.Oldest, own.Current)}
	case v.Current < own.Oldest:
		return &pawl.Error{Kind: pawl.Conflict, Hint: "run pawl migrate up",
			Message: fmt.Sprintf("the database has schema version %d, and this program needs %d", v.Current, own.Current)}
	}
	return nil
}

// Serves reports whether a program of one version keeps working while a database moves from
// one version to another by known changes.
func Serves(changes []SchemaChange, program, from, to int) bool {
	if program < 1 || program > len(changes) {
		return false
	}
	for v := min(from, to) + 1; v <= max(from, to); v++ {
		if v > len(changes) || !changes[v-1].Rolling() {
			return false
		}
	}
	return min(from, to) >= program-1 && max(from, to) <= program+1
}
