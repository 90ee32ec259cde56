package workflow

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl"
)

// A Passage takes jobs from one definition to another version of their workflow. The
// numbers of nodes are keys of what is stored and never change: the steps of the old
// definition keep theirs, and the new ones come after them.
type Passage struct {
	Diff Diff

	// To is the definition that a moved job is pinned to: the new version, with a
	// vacancy for each step that it lacks. It is the new version itself if there are
	// none and the numbers are the same.
	To *Definition

	Gone      []int           // nodes that are not in the new version, ascending
	Changed   map[string]bool // ids
	Wanted    map[string]bool // ids of steps whose output the new version uses, and the old one does not keep
	Returning []string        // ids that the job had left behind before
}

// Misses returns the ids of the steps whose output the new version uses, and the old one
// does not keep.
func (p *Passage) Misses() []string {
	var ids []string
	for _, id := range sortedKeys(p.Wanted) {
		if p.Wanted[id] {
			ids = append(ids, id)
		}
	}
	return ids
}

// Passage returns the passage from d to another version. The error is of kind Conflict:
// the two together do not fit into one definition.
func (d *Definition) Passage(to *Definition) (*Passage, error) {
	p := &Passage{Diff: d.DiffTo(to), Changed: make(map[string]bool), Wanted: make(map[string]bool)}
	for _, c := range p.Diff.Steps {
		p.Changed[c.Step] = c.Change == Changed
	}
	was := d.outline()
	order := make([]string, 0, len(d.Nodes))
	for i := range d.Nodes {
		id := d.Nodes[i].ID
		order = append(order, id)
		switch n := to.NodeByID(id); {
		case n == 0:
			p.Gone = append(p.Gone, i+1)
		case was.vacant(id):
			p.Returning = append(p.Returning, id)
		default:
			p.Wanted[id] = to.Nodes[n-1].misses(&d.Nodes[i])
		}
	}
	for i := range to.Nodes {
		if id := to.Nodes[i].ID; d.NodeByID(id) == 0 {
			order = append(order, id)
		}
	}
	var err error
	p.To, err = to.holding(order)
	return p, err
}

// holding returns the definition with its nodes numbered in the order of ids, and with
// a vacancy for each id that it lacks.
func (d *Definition) holding(ids []string) (*Definition, error) {
	if slices.EqualFunc(ids, d.Nodes, func(id string, n Node) bool { return id == n.ID }) {
		return d, nil
	}
	form, err := d.withVacancies(ids)
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Internal, Message: "workflow", Err: err}
	}
	held, err := (&Definition{canonical: form}).Ordered(ids)
	if err != nil {
		return nil, &pawl.Error{Kind: pawl.Conflict, Message: "the new version and what a job keeps of its old one do not fit into one definition", Err: err}
	}
	return held, nil
}

// withVacancies returns the canonical form with a vacancy for each id that it lacks.
func (d *Definition) withVacancies(ids []string) ([]byte, error) {
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(d.canonical, &parts); err != nil {
		return nil, err
	}
	var steps []json.RawMessage
	if err := json.Unmarshal(parts["steps"], &steps); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if d.NodeByID(id) == 0 {
			steps = append(steps, fmt.Appendf(nil, `{"id":%q,"if":%q,"sleep":%q}`, id, vacantIf, vacantSleep))
		}
	}
	var err error
	if parts["steps"], err = json.Marshal(steps); err != nil {
		return nil, err
	}
	return json.Marshal(parts)
}

// A vacancy keeps the number of a step that the job has left behind. It has ended as
// skipped, needs nothing, takes no worker and would do nothing.
const (
	vacantIf    = "false"
	vacantSleep = "0s"
)

// vacant reports whether a step is a vacancy.
func (o *outline) vacant(id string) bool {
	keys := o.steps[id].keys
	return o.ordered && len(keys) == 3 && string(keys["if"]) == `"`+vacantIf+`"` && string(keys["sleep"]) == `"`+vacantSleep+`"`
}
