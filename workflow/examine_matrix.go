package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// axisShape is an axis as it stands in canonical forms; a file writes its name
// as the key of its values.
var axisShape = &shape{kind: shapeObject, fields: []field{
	{name: "name", required: true, shape: idShape, doc: "The name of the axis."},
	{name: "values", required: true, shape: axisValues, doc: "Its values."},
}}

var axisValues = &shape{kind: shapeList, min: 1, max: MaxAxisValues, elem: &shape{kind: shapeAtom, max: MaxAxisText}}

// judgeAtom takes a scalar as the value that it is.
func judgeAtom(v *value, s *shape) (any, *judgement) {
	switch v.kind {
	case textValue:
		if hasExpression(v.text) {
			return nil, &judgement{"a matrix is known before the job starts: expressions are not allowed inside it", "use foreach for a list that is worked out"}
		}
		return checkText(v.text, s)
	case booleanValue:
		return strings.EqualFold(v.text, "true"), nil
	case numberValue:
		n, err := parseNumber(v.text)
		if err != nil {
			return nil, &judgement{fmt.Sprintf("%s %v", shorten(v.text), err), "put it in quotes if it is text"}
		}
		return n, nil
	}
	return nil, wrongKind("text, a number or a boolean", v)
}

// judgePause takes text with expressions as it is, and anything else for a
// duration.
func judgePause(v *value, s *shape) (any, *judgement) {
	pieces, fault := splitTemplate(v.text)
	open := fault != nil || slices.ContainsFunc(pieces, func(p piece) bool { return p.expression })
	if v.kind == textValue && open {
		return checkText(v.text, s)
	}
	return judgeDuration(v, s)
}

// matrix answers the axes as a list, whichever way they are written.
func (e *examiner) matrix(path string, v *value, s *shape) (any, *judgement) {
	n := len(v.entries) + len(v.items)
	switch {
	case v.kind != objectValue && v.kind != listValue:
		return nil, wrongKind("a mapping of names to lists", v)
	case n < s.min:
		return nil, refused("the matrix has no values")
	case n > s.max:
		return nil, refused("the matrix has %d axes; at most %d are allowed", n, s.max)
	}
	before := len(e.problems)
	axes := make([]any, 0, n)
	for _, entry := range v.entries {
		axes = append(axes, e.axis(joinPath(path, entry.key), entry))
	}
	for i, item := range v.items {
		at := fmt.Sprintf("%s[%d]", path, i)
		axis, _ := e.examine(at, item, axisShape)
		e.distinct(at+".values", axis.(map[string]any))
		axes = append(axes, axis)
	}
	if len(e.problems) > before {
		return nil, &judgement{}
	}
	return axes, e.combinations(path, axes)
}

// axis examines an axis that is written as an entry of a mapping.
func (e *examiner) axis(path string, entry entry) map[string]any {
	e.keys[path] = entry.place
	if _, fault := checkText(entry.key, idShape); fault != nil {
		e.report(entry.place, path, fault.message, fault.hint)
	}
	values, _ := e.examine(path, entry.value, axisValues)
	axis := map[string]any{"name": entry.key, "values": values}
	e.distinct(path, axis)
	return axis
}

// distinct reports values of an axis that are written alike: the keys of
// instances are made of them.
func (e *examiner) distinct(path string, axis map[string]any) {
	values, _ := axis["values"].([]any)
	seen := map[string]bool{}
	for i, v := range values {
		text, err := asText(v)
		if err == nil && seen[text] && v != nil {
			e.reportAt(fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("the value %q stands twice", shorten(text)), "")
		}
		seen[text] = true
	}
}

// combinations refuses a matrix whose product is too large, holds a name twice,
// or has combinations that are written alike.
func (e *examiner) combinations(path string, axes []any) *judgement {
	keys, names, count := []string{""}, map[string]bool{}, 1
	for i, a := range axes {
		axis := a.(map[string]any)
		name, values := axis["name"].(string), axis["values"].([]any)
		if names[name] {
			return refused("the name %q stands twice", name)
		}
		names[name] = true
		if count *= len(values); count > MaxCombinations {
			continue
		}
		var next []string
		for _, key := range keys {
			for _, v := range values {
				text, _ := asText(v)
				if i > 0 {
					text = key + "," + text
				}
				next = append(next, text)
			}
		}
		keys = next
	}
	if count > MaxCombinations {
		return refused("the matrix has %d combinations; at most %d are allowed", count, MaxCombinations)
	}
	seen := map[string]bool{}
	for _, key := range keys {
		if seen[key] {
			return refused("two combinations are both written %q", shorten(key))
		}
		seen[key] = true
	}
	return nil
}

// MatrixItem answers the values of an instance of node n, counted from 1, as a
// JSON object by the names of the axes. Without such an instance it is nil.
func (d *Definition) MatrixItem(n, instance int) json.RawMessage {
	values := d.Nodes[n-1].combination(instance)
	if values == nil {
		return nil
	}
	item := make(map[string]any, len(values))
	for i, a := range d.Nodes[n-1].Matrix {
		item[a.Name] = values[i]
	}
	raw, err := encodeJSON(item)
	if err != nil {
		return nil
	}
	return raw
}

// combination answers the values of an instance, counted from 1: the last axis
// varies fastest.
func (n *Node) combination(instance int) []any {
	if instance < 1 || instance > n.Combinations() {
		return nil
	}
	values, rest := make([]any, len(n.Matrix)), instance-1
	for i := len(n.Matrix) - 1; i >= 0; i-- {
		of := n.Matrix[i].Values
		values[i] = of[rest%len(of)]
		rest /= len(of)
	}
	return values
}

// matrixKey answers the values of an instance as people write them:
// linux,arm64. Without such an instance it is empty.
func (d *Definition) matrixKey(n, instance int) string {
	var texts []string
	for _, v := range d.Nodes[n-1].combination(instance) {
		text, _ := asText(v)
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

// matrixInstance answers the instance that people write as key.
func (d *Definition) matrixInstance(n int, key string) (int, bool) {
	for i := 1; i <= d.Nodes[n-1].Combinations(); i++ {
		if d.matrixKey(n, i) == key {
			return i, true
		}
	}
	return 0, false
}

// pause reads the duration that a sleep comes to.
func pause(text string) (time.Duration, error) {
	normal, fault := judgeDuration(&value{kind: textValue, text: strings.TrimSpace(text)}, &shape{least: 0, most: MaxTimeout})
	if fault != nil {
		return 0, fault.err()
	}
	return time.ParseDuration(normal.(string))
}
