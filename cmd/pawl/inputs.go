package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/workflow"
)

// An inputFlags holds the command line's inputs of a job.
type inputFlags struct {
	pairs []string // key=value; the input determines the type
	whole string   // JSON, or @ and the name of a file with JSON
}

func (in *inputFlags) bind(c *cobra.Command) {
	c.Flags().StringArrayVarP(&in.pairs, "input", "i", nil, "an input, as key=value; may be repeated")
	c.Flags().StringVar(&in.whole, "inputs", "", "all inputs as a JSON object, or @FILE; -i overrides single ones")
}

func (in *inputFlags) given() bool { return len(in.pairs) > 0 || in.whole != "" }

// of returns the inputs as the definition binds them.
func (in *inputFlags) of(def *workflow.Definition) (json.RawMessage, error) {
	given, err := in.values(def)
	if err != nil {
		return nil, err
	}
	return def.BindInputs(given)
}

// values returns the inputs on the command line, those of -i by their types. A job may need
// more.
func (in *inputFlags) values(def *workflow.Definition) (map[string]any, error) {
	given, err := in.object()
	if err != nil {
		return nil, err
	}
	pairs, err := valuesOf("--input", "write -i day=2026-01-31", in.pairs, def.ParseInput)
	maps.Copy(given, pairs)
	return given, err
}

// known returns the values, or an error if the workflow lacks an input that is named.
func (in *inputFlags) known(def *workflow.Definition) (map[string]any, error) {
	given, err := in.values(def)
	if err != nil {
		return nil, err
	}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if !slices.ContainsFunc(def.Inputs, func(i workflow.Input) bool { return i.Name == key }) {
			_, err := def.ParseInput(key, "")
			return nil, err
		}
	}
	return given, nil
}

func (in *inputFlags) object() (map[string]any, error) {
	if in.whole == "" {
		return map[string]any{}, nil
	}
	text, err := textOf("--inputs", in.whole)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(text) {
		return nil, usage("", "--inputs: want text in UTF-8")
	}
	given, ok := objectOf(text)
	if !ok {
		return nil, usage(`write --inputs '{"day": "2026-01-31"}' or --inputs @FILE`, "--inputs: want one JSON object")
	}
	return given, nil
}

// objectOf decodes one JSON object. Its numbers keep their spelling.
func objectOf(text []byte) (object map[string]any, ok bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err := d.Decode(&object)
	return object, err == nil && object != nil && !d.More()
}
