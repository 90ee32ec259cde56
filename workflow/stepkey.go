package workflow

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl"
)

// IsID reports whether s can be the id of a step, an input or a queue.
func IsID(s string) bool { return len(s) <= MaxID && idPattern.MatchString(s) }

// Key returns the name of a step for people: load, load[3] for an instance (counted
// from 0), or test[linux,arm64] for an instance of a matrix.
func (d *Definition) Key(ord pawl.Ord) string {
	n, i := ord.Node(), ord.Instance()
	id := d.Nodes[n-1].ID
	switch {
	case i == 0:
		return id
	case len(d.Nodes[n-1].Matrix) > 0:
		return id + "[" + d.matrixKey(n, i) + "]"
	}
	return fmt.Sprintf("%s[%d]", id, i-1)
}

// OrdOf returns the place of the step with that key: load, load[3] or
// test[linux,arm64].
func (d *Definition) OrdOf(key string) (pawl.Ord, error) {
	id, rest, instance := strings.Cut(key, "[")
	n := d.NodeByID(id)
	if n == 0 {
		return 0, pawl.Errorf(pawl.NotFound, "workflow %s has no step %q", d.Name, id)
	}
	if !instance {
		return pawl.MakeOrd(n, 0), nil
	}
	if len(d.Nodes[n-1].Matrix) > 0 {
		i, ok := d.matrixInstance(n, strings.TrimSuffix(rest, "]"))
		if !ok {
			return 0, pawl.Errorf(pawl.NotFound, "step %q: the matrix of %s has no such combination; want one such as %s", key, id, d.Key(pawl.MakeOrd(n, 1)))
		}
		return pawl.MakeOrd(n, i), nil
	}
	i, err := strconv.Atoi(strings.TrimSuffix(rest, "]"))
	if err != nil || i < 0 || i >= pawl.MaxInstances {
		return 0, pawl.Errorf(pawl.Invalid, "step %q: want an index such as %s[3]", key, id)
	}
	return pawl.MakeOrd(n, i+1), nil
}
