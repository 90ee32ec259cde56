package workflow

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/internal/document"
)

// An examiner checks a value against the table of keys of the workflow file, and
// compiles the result.
type examiner struct {
	*document.Examiner
	source string // for places inside of strings; may be empty
	lines  []string

	family   *family
	chain    []string               // the files around this one, and this one
	children map[string]*Definition // by the path of their canonical form
	programs int                    // different expressions of the children
	height   int                    // levels of children below
	below    Problems               // of the children
	refused  bool                   // a child was refused, which has been reported
}

func newExaminer(file, source string, open Open) *examiner {
	return makeExaminer(file, source, &family{workflowShape, open, map[string]*Definition{}}, nil)
}

func makeExaminer(file, source string, f *family, around []string) *examiner {
	e := &examiner{
		Examiner: document.NewExaminer(file), source: source,
		family: f, chain: append(slices.Clone(around), file), children: map[string]*Definition{},
	}
	e.Owner = e
	return e
}

// hints are about the YAML of a workflow file.
var hints = document.Hints{
	Empty:   "a workflow has at least a name and steps",
	Several: "one file is one workflow: split it at ---",
	Tag:     "quote the text if it begins with !, or write it as ${{ }}",
}

// with adapts a check of the table to an examiner of workflows.
func with(also func(e *examiner, path string, v *document.Value, m map[string]any)) func(*document.Examiner, string, *document.Value, map[string]any) {
	return func(e *document.Examiner, path string, v *document.Value, m map[string]any) {
		also(e.Owner.(*examiner), path, v, m)
	}
}

// Shapes that only workflows have.
var (
	// conditionOwn is an expression, or true or false.
	conditionOwn = &document.Own{
		Judge: func(_ *document.Examiner, _ string, v *document.Value, _ *document.Shape) (any, *document.Judgement) {
			return judgeCondition(v)
		},
		Schema:  func(m map[string]any, _ *document.Shape) { m["type"] = []string{"string", "boolean"} },
		Summary: func(*document.Shape) string { return "expression" },
		StandIn: func() any { return "" },
	}

	// foreachOwn is a list, or an expression.
	foreachOwn = &document.Own{
		Judge:   judgeForeach,
		Schema:  func(m map[string]any, _ *document.Shape) { m["type"] = []string{"string", "array"} },
		Summary: func(*document.Shape) string { return "list, or expression" },
	}

	// pauseOwn is a duration, or text with expressions.
	pauseOwn = &document.Own{
		Judge: func(_ *document.Examiner, _ string, v *document.Value, s *document.Shape) (any, *document.Judgement) {
			return judgePause(v, s)
		},
		Schema: func(m map[string]any, _ *document.Shape) { m["type"] = "string" },
		Summary: func(s *document.Shape) string {
			return fmt.Sprintf("duration, %s to %s, or text with expressions", s.Least, s.Most)
		},
		StandIn: func() any { return "" },
	}

	// atomOwn is text, a number or a boolean, that keeps its type.
	atomOwn = &document.Own{
		Judge: func(_ *document.Examiner, _ string, v *document.Value, s *document.Shape) (any, *document.Judgement) {
			return judgeAtom(v, s)
		},
		Schema: func(m map[string]any, s *document.Shape) {
			m["type"], m["maxLength"] = []string{"string", "number", "boolean"}, s.Max
		},
		Summary: func(*document.Shape) string { return "text, number or boolean" },
	}

	// matrixOwn is axes: a mapping of names to lists, or a list of objects.
	matrixOwn = &document.Own{
		Judge: func(e *document.Examiner, path string, v *document.Value, s *document.Shape) (any, *document.Judgement) {
			return e.Owner.(*examiner).matrix(path, v, s)
		},
		Schema:  matrixSchema,
		Summary: func(*document.Shape) string { return "name: list of text, numbers or booleans" },
		StandIn: func() any { return []any{} },
		Empty:   "write {}, or leave the key out",
	}

	// childOwn is a reference to a workflow: text, or an object.
	childOwn = &document.Own{
		Judge: func(e *document.Examiner, path string, v *document.Value, s *document.Shape) (any, *document.Judgement) {
			return e.Owner.(*examiner).child(path, v, s)
		},
		Schema: childSchema,
		Summary: func(*document.Shape) string {
			return "`NAME`, `NAME@VERSION`, or a path that ends in `.yaml` or `.yml`"
		},
		StandIn: func() any { return map[string]any{} },
	}

	// definitionOwn is a whole workflow, canonical.
	definitionOwn = &document.Own{
		Judge: func(e *document.Examiner, path string, v *document.Value, _ *document.Shape) (any, *document.Judgement) {
			return e.Owner.(*examiner).embedded(path, v)
		},
	}
)

func judgeForeach(e *document.Examiner, path string, v *document.Value, _ *document.Shape) (any, *document.Judgement) {
	if v.Kind != document.List && v.Kind != document.Text {
		return nil, document.Refused("want a list, or an expression ${{ }} whose value is one, got %s", v.Kind)
	}
	return e.Any(path, v)
}

func judgeCondition(v *document.Value) (any, *document.Judgement) {
	switch v.Kind {
	case document.Boolean:
		return strings.ToLower(v.Text), nil
	case document.Text:
		if strings.TrimSpace(v.Text) == "" {
			return nil, document.Refused("the expression is empty")
		}
		return v.Text, nil
	}
	return nil, document.WrongKind("an expression", v)
}
