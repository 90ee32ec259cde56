package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/document"
)

// axisShape is an axis in canonical forms; in a file its name is the key of its values.
var axisShape = &document.Shape{Kind: document.ShapeObject, Fields: []document.Field{
	{Name: "name", Required: true, Shape: idShape, Doc: "The name of the axis."},
	{Name: "values", Required: true, Shape: axisValues, Doc: "Its values."},
}}

var axisValues = &document.Shape{Kind: document.ShapeList, Min: 1, Max: MaxAxisValues, Elem: &document.Shape{Kind: document.ShapeOwn, Own: atomOwn, Max: MaxAxisText}}

// judgeAtom accepts a scalar and keeps its type.
func judgeAtom(v *document.Value, s *document.Shape) (any, *document.Judgement) {
	switch v.Kind {
	case document.Text:
		if hasExpression(v.Text) {
			return nil, &document.Judgement{Message: "a matrix is known before the job starts: expressions are not allowed inside it", Hint: "use foreach for a list that is computed"}
		}
		return document.CheckText(v.Text, s)
	case document.Boolean:
		return strings.EqualFold(v.Text, "true"), nil
	case document.Number:
		n, err := document.ParseNumber(v.Text)
		if err != nil {
			return nil, &document.Judgement{Message: fmt.Sprintf("%s %v", document.Shorten(v.Text), err), Hint: "put it in quotes if it is text"}
		}
		return n, nil
	}
	return nil, document.WrongKind("text, a number or a boolean", v)
}

// judgePause accepts text with expressions as it is, and reads anything else as a
// duration.
func judgePause(v *document.Value, s *document.Shape) (any, *document.Judgement) {
	pieces, fault := splitTemplate(v.Text)
	open := fault != nil || slices.ContainsFunc(pieces, func(p piece) bool { return p.expression })
	if v.Kind == document.Text && open {
		return document.CheckText(v.Text, s)
	}
	return document.JudgeDuration(v, s)
}

// matrix returns the axes as a list, however they are written.
func (e *examiner) matrix(path string, v *document.Value, s *document.Shape) (any, *document.Judgement) {
	n := len(v.Entries) + len(v.Items)
	switch {
	case v.Kind != document.Object && v.Kind != document.List:
		return nil, document.WrongKind("a mapping of names to lists", v)
	case n < s.Min:
		return nil, document.Refused("the matrix has no values")
	case n > s.Max:
		return nil, document.Refused("the matrix has %d axes; at most %d are allowed", n, s.Max)
	}
	before := len(e.Problems)
	axes := make([]any, 0, n)
	for _, entry := range v.Entries {
		axes = append(axes, e.axis(document.JoinPath(path, entry.Key), entry))
	}
	for i, item := range v.Items {
		at := fmt.Sprintf("%s[%d]", path, i)
		axis, _ := e.Examine(at, item, axisShape)
		e.distinct(at+".values", axis.(map[string]any))
		axes = append(axes, axis)
	}
	if len(e.Problems) > before {
		return nil, &document.Judgement{}
	}
	return axes, e.combinations(path, axes)
}

// axis examines an axis that is written as an entry of a mapping.
func (e *examiner) axis(path string, entry document.Entry) map[string]any {
	e.Keys[path] = entry.Place
	if _, fault := document.CheckText(entry.Key, idShape); fault != nil {
		e.Report(entry.Place, path, fault.Message, fault.Hint)
	}
	values, _ := e.Examine(path, entry.Value, axisValues)
	axis := map[string]any{"name": entry.Key, "values": values}
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
			e.ReportAt(fmt.Sprintf("%s[%d]", path, i), fmt.Sprintf("the value %q appears twice", document.Shorten(text)), "")
		}
		seen[text] = true
	}
}

// combinations refuses a matrix whose product is too large, holds a name twice,
// or has combinations that are written alike.
func (e *examiner) combinations(path string, axes []any) *document.Judgement {
	keys, names, count := []string{""}, map[string]bool{}, 1
	for i, a := range axes {
		axis := a.(map[string]any)
		name, values := axis["name"].(string), axis["values"].([]any)
		if names[name] {
			return document.Refused("the name %q appears twice", name)
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
		return document.Refused("the matrix has %d combinations; at most %d are allowed", count, MaxCombinations)
	}
	seen := map[string]bool{}
	for _, key := range keys {
		if seen[key] {
			return document.Refused("two combinations are both written %q", document.Shorten(key))
		}
		seen[key] = true
	}
	return nil
}

// MatrixItem returns the values of an instance of node n, counted from 1, as a
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

// combination returns the values of an instance, counted from 1: the last axis
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

// matrixKey returns the values of an instance as people write them:
// linux,arm64. Without such an instance it is empty.
func (d *Definition) matrixKey(n, instance int) string {
	var texts []string
	for _, v := range d.Nodes[n-1].combination(instance) {
		text, _ := asText(v)
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

// matrixInstance returns the instance that people write as key.
func (d *Definition) matrixInstance(n int, key string) (int, bool) {
	for i := 1; i <= d.Nodes[n-1].Combinations(); i++ {
		if d.matrixKey(n, i) == key {
			return i, true
		}
	}
	return 0, false
}

// pause reads the duration of a sleep.
func pause(text string) (time.Duration, error) {
	normal, fault := document.JudgeDuration(&document.Value{Kind: document.Text, Text: strings.TrimSpace(text)}, &document.Shape{Least: 0, Most: MaxTimeout})
	if fault != nil {
		return 0, fault.Err()
	}
	return time.ParseDuration(normal.(string))
}
