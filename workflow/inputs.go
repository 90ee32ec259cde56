package workflow

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/document"
)

// A matcher is a compiled pattern; nil matches everything.
type matcher struct{ *regexp.Regexp }

func newMatcher(pattern string) matcher {
	if pattern == "" {
		return matcher{}
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return matcher{}
	}
	return matcher{re}
}

// inputOf reads an input out of a normalised object.
func inputOf(name string, m map[string]any) Input {
	in := Input{Name: name, Type: TypeString}
	if t, ok := m["type"].(string); ok && t != "" {
		in.Type = InputType(t)
	}
	in.Pattern, _ = m["pattern"].(string)
	in.pattern = newMatcher(in.Pattern)
	choices, _ := m["enum"].([]any)
	for _, v := range choices {
		in.Enum = append(in.Enum, canonicalNumber(v))
	}
	return in
}

// check returns why a value, in the form of decodeJSON, is not allowed.
func (in *Input) check(v any) error {
	if !in.Type.has(v) {
		return fmt.Errorf("want %s, got %s", in.Type.noun(), describe(v))
	}
	if s, ok := v.(string); ok && in.pattern.Regexp != nil && !in.pattern.MatchString(s) {
		return fmt.Errorf("%q does not match the pattern %s", document.Shorten(s), in.Pattern)
	}
	if len(in.Enum) == 0 {
		return nil
	}
	raw, err := encodeJSON(v)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(in.Enum, func(choice json.RawMessage) bool { return bytes.Equal(choice, raw) }) {
		return fmt.Errorf("%s is not one of %s", document.Shorten(string(raw)), bytes.Join(rawList(in.Enum), []byte(", ")))
	}
	return nil
}

func rawList(raws []json.RawMessage) [][]byte {
	out := make([][]byte, len(raws))
	for i, r := range raws {
		out[i] = r
	}
	return out
}

// has reports whether v is of the type. A number without a fraction is an
// integer.
func (t InputType) has(v any) bool {
	switch name := typeName(v); t {
	case TypeNumber:
		_, large := v.(largeInteger)
		return name == "number" || name == "integer" || large
	case TypeInteger:
		f, ok := v.(float64)
		return name == "integer" || ok && f == float64(int(f)) && f > -1<<63 && f < 1<<63
	default:
		return name == string(t)
	}
}

func (t InputType) noun() string {
	switch t {
	case TypeInteger, TypeObject, TypeArray:
		return "an " + string(t)
	}
	return "a " + string(t)
}

// describe names a value in an error.
func describe(v any) string {
	raw, err := encodeJSON(v)
	if v == nil || err != nil {
		return typeName(v)
	}
	return typeName(v) + " " + document.Shorten(string(raw))
}

// BindInputs checks the inputs of a job and applies the defaults. It returns a JSON
// object with sorted keys. Inputs that were not given and have no default are not in
// it, and are null in expressions. The error is of kind Invalid and names every fault.
func (d *Definition) BindInputs(given map[string]any) (json.RawMessage, error) {
	return d.declaredInputs().bindAll(given, anyValue)
}

// BindJSON is BindInputs for a JSON object, or nothing.
func (d *Definition) BindJSON(inputs json.RawMessage) (json.RawMessage, error) {
	if len(d.Inputs) == 0 && (len(inputs) == 0 || string(inputs) == "{}") {
		return json.RawMessage("{}"), nil
	}
	var given map[string]any
	if len(inputs) > 0 {
		v, err := decodeNumbers(inputs)
		if err != nil {
			return nil, pawl.Errorf(pawl.Invalid, "inputs: %v", err)
		}
		object, ok := v.(map[string]any)
		if !ok {
			return nil, pawl.Errorf(pawl.Invalid, "inputs: want a JSON object, got %s", document.Shorten(string(inputs)))
		}
		given = object
	}
	return d.declaredInputs().bindAll(given, decodedValue)
}

func (d *Definition) declaredInputs() declared {
	return declared{"input", "this workflow has no inputs", d.Inputs}
}

// declared are the values that may be given, and the words for them in errors.
type declared struct {
	noun string // input, field
	none string // the error text if nothing is declared
	list []Input
}

// InputFaults returns what is wrong with given inputs, by name: what is not declared or not of
// its type, and what is required and missing. None means that BindInputs accepts them.
func (d *Definition) InputFaults(given map[string]any) map[string]string {
	faults := map[string]string{}
	s := d.declaredInputs()
	for name, v := range given {
		if _, err := s.bind(name, v, anyValue); err != nil {
			faults[name] = err.Error()
		}
	}
	for i := range s.list {
		in := &s.list[i]
		if _, ok := given[in.Name]; !ok && in.Required {
			faults[in.Name] = fmt.Sprintf("%s %q is required: want %s", s.noun, in.Name, in.Type.noun())
		}
	}
	return faults
}

// InputSchema returns the inputs as a JSON Schema of the draft 2020-12. A pattern is one of RE2,
// and matches anywhere in the text.
func (d *Definition) InputSchema() json.RawMessage {
	properties, required := map[string]any{}, []string{}
	for i := range d.Inputs {
		in := &d.Inputs[i]
		p := map[string]any{"type": in.Type}
		if in.Description != "" {
			p["description"] = in.Description
		}
		if in.Default != nil {
			p["default"] = in.Default
		}
		if in.Pattern != "" {
			p["pattern"] = in.Pattern
		}
		if len(in.Enum) > 0 {
			p["enum"] = in.Enum
		}
		if properties[in.Name] = p; in.Required {
			required = append(required, in.Name)
		}
	}
	raw, err := json.Marshal(map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"properties": properties, "required": required, "additionalProperties": false})
	if err != nil {
		panic(err) // it has only what was decoded
	}
	return raw
}

// bindAll checks the values that were given, each of which read turns into one that expressions
// see, and applies the defaults.
func (s declared) bindAll(given map[string]any, read func(any) (any, error)) (json.RawMessage, error) {
	bound := map[string]any{}
	var faults []string
	for _, name := range sortedKeys(given) {
		v, err := s.bind(name, given[name], read)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		bound[name] = v
	}
	for i := range s.list {
		in := &s.list[i]
		if _, ok := given[in.Name]; ok {
			continue
		}
		if in.Required {
			faults = append(faults, fmt.Sprintf("%s %q is required: want %s", s.noun, in.Name, in.Type.noun()))
		} else if in.Default != nil {
			bound[in.Name], _ = decodeJSON(in.Default)
		}
	}
	if len(faults) > 0 {
		return nil, pawl.Errorf(pawl.Invalid, "%s", strings.Join(faults, "; "))
	}
	raw, err := encodeJSON(bound)
	if err != nil {
		return nil, pawl.Errorf(pawl.Invalid, "%ss: %v", s.noun, err)
	}
	return raw, nil
}

// find returns the declaration of that name, or an error that names the nearest.
func (s declared) find(name string) (*Input, error) {
	var known []string
	for i := range s.list {
		if s.list[i].Name == name {
			return &s.list[i], nil
		}
		known = append(known, s.list[i].Name)
	}
	hint := s.none
	if len(known) > 0 {
		hint = cmp.Or(document.DidYouMean(name, known), "known: "+strings.Join(known, ", "))
	}
	return nil, fmt.Errorf("there is no %s %q (%s)", s.noun, document.Shorten(name), hint)
}

// anyValue turns what a program has given into a value that expressions see.
func anyValue(given any) (any, error) {
	raw, err := json.Marshal(given)
	if err != nil {
		return nil, fmt.Errorf("not a JSON value: %w", err)
	}
	return decodeJSON(raw)
}

// decodedValue does so with a value that decodeNumbers has returned.
func decodedValue(given any) (any, error) { return plainNumbers(given, 0) }

func (s declared) bind(name string, given any, read func(any) (any, error)) (any, error) {
	in, err := s.find(name)
	if err != nil {
		return nil, err
	}
	v, err := read(given)
	if err != nil {
		return nil, fmt.Errorf("%s %q: %w", s.noun, name, err)
	}
	if err := in.check(v); err != nil {
		return nil, fmt.Errorf("%s %q: %w", s.noun, name, err)
	}
	if f, ok := v.(float64); ok && in.Type == TypeInteger {
		v = int(f)
	}
	return v, nil
}

// parse reads text by the declared type of a name.
func (s declared) parse(name, text string) (any, error) {
	in, err := s.find(name)
	if err != nil {
		return nil, pawl.Errorf(pawl.Invalid, "%v", err)
	}
	v, err := ParseInput(in.Type, text)
	if err != nil {
		return nil, pawl.Errorf(pawl.Invalid, "%s %q: %v", s.noun, name, err)
	}
	return v, nil
}

// ParseInput reads the text of a command line as a value of the type: a string as it
// is, everything else as JSON. The value can be passed to BindInputs. The error is of
// kind Invalid.
func ParseInput(t InputType, text string) (any, error) {
	if t == TypeString {
		return text, nil
	}
	v, err := decodeJSON([]byte(text))
	if err != nil || v == nil || !t.has(v) {
		return nil, pawl.Errorf(pawl.Invalid, "%q is not %s%s", document.Shorten(text), t.noun(), map[InputType]string{
			TypeBoolean: ": want true or false",
			TypeObject:  `: want JSON such as {"key": "value"}`,
			TypeArray:   `: want JSON such as ["a", "b"]`,
		}[t])
	}
	return v, nil
}

// ParseInput reads the text of a command line, `-i name=text`, by the type of the
// input. The error is of kind Invalid; for an unknown input it names the nearest one.
func (d *Definition) ParseInput(name, text string) (any, error) {
	return d.declaredInputs().parse(name, text)
}
