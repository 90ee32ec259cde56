package expressions

import (
	"encoding/json"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

// InputSets bounds the sets of inputs that are tried.
const InputSets = 16

// candidates are texts that match many patterns of real files.
var candidates = []string{"made up", "x", "a", "1", "10", "1s", "2026-01-31", "2026-01-31T12:00:00Z", "12:00", "main", "v1.2.3", "https://example.org/", "http://example.org/", "someone@example.org", "example.org", "abc123", "ABC", "00000000"}

// values returns possible values of a declared value, the simplest first: its default,
// those of its enum, and those that expressions compare it with.
func values(in *workflow.Input, s *shape) []any {
	var list []any
	add := func(raw json.RawMessage) {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			list = append(list, v)
		}
	}
	if in.Default != nil {
		add(in.Default)
	}
	for _, raw := range in.Enum {
		add(raw)
	}
	if s == nil {
		s = &shape{}
	}
	list = append(list, ofType(in.Type, s)...)
	if !in.Required && in.Default == nil {
		list = append(list, nil)
	}
	return list
}

func ofType(t workflow.InputType, s *shape) []any {
	switch t {
	case workflow.TypeBoolean:
		return []any{true, false}
	case workflow.TypeInteger, workflow.TypeNumber:
		return append(slices.Clone(s.around()), 1, 0)
	case workflow.TypeArray:
		as := *s
		as.list = true
		return as.variants(true)
	case workflow.TypeObject:
		if len(s.fields) == 0 {
			return []any{map[string]any{}}
		}
		return s.variants(true)
	}
	return s.around()
}

// fitting returns the allowed values of a declared value: those that make a difference
// or, if none of them is allowed, one of the candidates.
func fitting(in *workflow.Input, s *shape) []any {
	good := bindable(in, values(in, s))
	if len(good) > 0 && good[0] != nil || in.Type != workflow.TypeString {
		return good
	}
	for _, c := range candidates {
		if allows(in, c) {
			return append([]any{c}, good...)
		}
	}
	return good
}

// Inputs returns the sets of inputs that are worth trying, the simplest first, at most
// limit. Inputs that conditions depend on vary. It is an error if a value that is
// required cannot be made up.
func (r *Reading) Inputs(given map[string]any, limit int) ([]json.RawMessage, error) {
	sets := []map[string]any{{}}
	for i := range r.Definition.Inputs {
		in := &r.Definition.Inputs[i]
		if v, ok := given[in.Name]; ok {
			each(sets, in.Name, v)
			continue
		}
		s := r.shapes.inputs[in.Name]
		good := fitting(in, s)
		switch {
		case len(good) == 0 && in.Required:
			return nil, &pawl.Error{Kind: pawl.Invalid, Message: "input " + in.Name + ": no value could be made up that it allows", Hint: "give one with: -i " + in.Name + "=VALUE"}
		case len(good) == 0:
			continue
		case !s.decides || limit == 1:
			good = good[:1]
		}
		sets = times(sets, in.Name, good, limit)
	}
	var bound []json.RawMessage
	for _, set := range sets {
		for name, v := range set {
			if v == nil {
				delete(set, name)
			}
		}
		raw, err := r.Definition.BindInputs(set)
		if err != nil {
			return nil, err
		}
		bound = append(bound, raw)
	}
	return bound, nil
}

func each(sets []map[string]any, name string, v any) {
	for _, set := range sets {
		set[name] = v
	}
}

// times returns each set with each value, as far as the limit allows; beyond it each
// value still occurs once.
func times(sets []map[string]any, name string, list []any, limit int) []map[string]any {
	var next []map[string]any
	for i, v := range list {
		for j, set := range sets {
			if j > 0 && i > 0 && len(next) >= limit {
				break
			}
			c := map[string]any{name: v}
			for k, old := range set {
				c[k] = old
			}
			next = append(next, c)
		}
	}
	return next
}

// bindable returns the values that an input allows, each once. For an optional input
// nil, which means not given, is one of them.
func bindable(in *workflow.Input, list []any) []any {
	var good []any
	var seen []string
	for _, v := range list {
		text := textOfJSON(v)
		if slices.Contains(seen, text) {
			continue
		}
		seen = append(seen, text)
		if v == nil || allows(in, v) {
			good = append(good, v)
		}
	}
	return good
}

func textOfJSON(v any) string {
	raw, _ := json.Marshal(v)
	return string(raw)
}

// allows reports whether a declared value may be v. It checks with a workflow that
// declares nothing else.
func allows(in *workflow.Input, v any) bool {
	file := workflow.File{Name: "one", Inputs: map[string]workflow.InputSchema{in.Name: schemaOf(in)}, Steps: []workflow.Step{}}
	def, err := file.Build()
	if err != nil {
		return false
	}
	_, err = def.BindInputs(map[string]any{in.Name: v})
	return err == nil
}

func schemaOf(in *workflow.Input) workflow.InputSchema {
	s := workflow.InputSchema{Type: in.Type, Required: true, Pattern: in.Pattern}
	for _, raw := range in.Enum {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			s.Enum = append(s.Enum, v)
		}
	}
	return s
}

// forms returns the values that a person may give for an approval, the simplest first.
func (r *Reading) forms(n int, all bool) []json.RawMessage {
	approval := r.Definition.Node(n).Approval
	s := r.shapes.outputs[n]
	if r.Definition.Node(n).Fans() && s.element != nil {
		s = s.element
	}
	sets := []map[string]any{{}}
	for i := range approval.Form {
		in := &approval.Form[i]
		field := s.fields[in.Name]
		good := fitting(in, field)
		if len(good) == 0 {
			continue
		}
		if field == nil || !field.decides || !all {
			good = good[:1]
		}
		sets = times(sets, in.Name, good, maxVariants)
	}
	var forms []json.RawMessage
	for _, set := range sets {
		for name, v := range set {
			if v == nil {
				delete(set, name)
			}
		}
		if raw, err := r.Definition.BindForm(n, set); err == nil {
			forms = append(forms, raw)
		}
	}
	if len(forms) == 0 {
		forms = append(forms, json.RawMessage("{}"))
	}
	return forms
}

// Results returns possible outputs of a step, the simplest first: all that make a
// difference, or one.
func (r *Reading) Results(n int, instance, all bool) []json.RawMessage {
	key := resultKey{n, instance, all}
	if r.known[key] == nil {
		r.known[key] = r.makeUp(n, instance, all)
	}
	return r.known[key]
}

type resultKey struct {
	node          int
	instance, all bool
}

func (r *Reading) makeUp(n int, instance, all bool) []json.RawMessage {
	node := r.Definition.Node(n)
	if node.Kind == workflow.KindApproval {
		return r.forms(n, all)
	}
	if node.Child != nil && node.Child.Definition != nil && !node.Child.Definition.HasOutput() {
		return []json.RawMessage{json.RawMessage("null")}
	}
	var list []json.RawMessage
	for _, v := range r.shapes.variants(n, instance, all) {
		list = append(list, json.RawMessage(textOfJSON(v)))
	}
	return list
}
