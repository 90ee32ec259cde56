package workflow

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// How a step differs between two definitions.
const (
	Added   = "added"
	Removed = "removed"
	Changed = "changed"
)

// A Diff is how a definition differs from an older one of the same workflow. The
// order of the steps has no meaning and is not compared, that of the hooks is.
type Diff struct {
	Keys  []string     `json:"keys"`  // of the workflow itself that differ, by name
	Steps []StepChange `json:"steps"` // in the order of the new definition, then the removed ones
}

// A StepChange is the change of one step or hook.
type StepChange struct {
	Change string   `json:"change"` // added, removed or changed
	Step   string   `json:"step"`
	Hook   Hook     `json:"hook,omitempty"`
	Keys   []string `json:"keys,omitempty"` // of a changed one: what differs, by name
}

// Empty reports whether nothing differs.
func (d *Diff) Empty() bool { return len(d.Keys)+len(d.Steps) == 0 }

// Lines writes the diff for people:
//
//	~ timeout
//	~ step load: command, needs
//	+ hook tell
//	- step old
func (d *Diff) Lines() []string {
	var lines []string
	for _, key := range d.Keys {
		lines = append(lines, "~ "+key)
	}
	signs := map[string]string{Added: "+ ", Removed: "- ", Changed: "~ "}
	for _, c := range d.Steps {
		line := signs[c.Change] + c.noun() + " " + c.Step
		if len(c.Keys) > 0 {
			line += ": " + strings.Join(c.Keys, ", ")
		}
		lines = append(lines, line)
	}
	return lines
}

func (c *StepChange) noun() string {
	if c.Hook != NoHook {
		return "hook"
	}
	return "step"
}

// DiffTo returns how newer differs from d. A vacancy of d, a step that is there only to
// keep its number, counts as missing.
func (d *Definition) DiffTo(newer *Definition) Diff {
	was, is := d.outline(), newer.outline()
	diff := Diff{Keys: differing(was.keys, is.keys), Steps: []StepChange{}}
	if !slices.Equal(was.hooksAlsoIn(is), is.hooksAlsoIn(was)) {
		diff.Keys = append(diff.Keys, "hooks")
		slices.Sort(diff.Keys)
	}
	for _, id := range is.ids {
		before, known := was.steps[id]
		after := is.steps[id]
		if !known || was.vacant(id) {
			diff.Steps = append(diff.Steps, StepChange{Change: Added, Step: id, Hook: after.hook})
		} else if keys := before.differs(after); len(keys) > 0 {
			diff.Steps = append(diff.Steps, StepChange{Change: Changed, Step: id, Hook: after.hook, Keys: keys})
		}
	}
	for _, id := range was.ids {
		if _, kept := is.steps[id]; !kept && !was.vacant(id) {
			diff.Steps = append(diff.Steps, StepChange{Change: Removed, Step: id, Hook: was.steps[id].hook})
		}
	}
	return diff
}

// An outline is a canonical form split into its parts.
type outline struct {
	keys    keyed // of the root, but for the steps, the hooks and their order
	ids     []string
	steps   map[string]written
	ordered bool
}

// keyed is JSON by its keys.
type keyed map[string]json.RawMessage

// A written is a step as its canonical form has it.
type written struct {
	keys keyed
	hook Hook
}

// outline splits the canonical form, which cannot fail: it has been read before.
func (d *Definition) outline() *outline {
	var list struct {
		Steps []keyed
		Hooks map[Hook][]keyed
		Order []string
	}
	o := &outline{keys: keyed{}, steps: make(map[string]written)}
	if json.Unmarshal(d.canonical, &o.keys) != nil || json.Unmarshal(d.canonical, &list) != nil {
		return o
	}
	o.ordered = len(list.Order) > 0
	for _, key := range []string{"steps", "hooks", "order"} {
		delete(o.keys, key)
	}
	o.add(list.Steps, NoHook)
	for _, kind := range hookKinds {
		o.add(list.Hooks[kind], kind)
	}
	return o
}

func (o *outline) add(steps []keyed, hook Hook) {
	for _, keys := range steps {
		var id string
		if json.Unmarshal(keys["id"], &id) == nil {
			o.ids = append(o.ids, id)
			o.steps[id] = written{keys, hook}
		}
	}
}

// hooksAlsoIn returns the ids of the hooks that both have, in order.
func (o *outline) hooksAlsoIn(other *outline) []string {
	var ids []string
	for _, id := range o.ids {
		if hook := o.steps[id].hook; hook != NoHook && other.steps[id].hook == hook {
			ids = append(ids, id)
		}
	}
	return ids
}

// differs returns the keys that differ. The order of needs does not count.
func (w written) differs(other written) []string {
	keys := differing(w.keys, other.keys)
	if i := slices.Index(keys, "needs"); i >= 0 && slices.Equal(w.needs(), other.needs()) {
		keys = slices.Delete(keys, i, i+1)
	}
	if w.hook != other.hook {
		keys = append(keys, "hooks")
		slices.Sort(keys)
	}
	return keys
}

func (w written) needs() []string {
	var ids []string
	if json.Unmarshal(w.keys["needs"], &ids) != nil {
		return nil
	}
	slices.Sort(ids)
	return ids
}

// differing returns the keys, by name, whose values are not the same.
func differing(a, b keyed) []string {
	keys := []string{}
	for _, key := range sortedKeys(a) {
		if !bytes.Equal(a[key], b[key]) {
			keys = append(keys, key)
		}
	}
	for _, key := range sortedKeys(b) {
		if _, both := a[key]; !both {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
