package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/workflow"
)

// An inputFlags holds what the command line says of a job's inputs.
type inputFlags struct {
	pairs []string // key=value, by the type of the input
	whole string   // JSON, or @ and the name of a file of it
}

func (in *inputFlags) bind(c *cobra.Command) {
	c.Flags().StringArrayVarP(&in.pairs, "input", "i", nil, "an input, as key=value; may be repeated")
	c.Flags().StringVar(&in.whole, "inputs", "", "all inputs as a JSON object, or @FILE of one; -i wins over it")
}

func (in *inputFlags) given() bool { return len(in.pairs) > 0 || in.whole != "" }

// of returns the inputs as the definition binds them.
func (in *inputFlags) of(def *workflow.Definition) (json.RawMessage, error) {
	given, err := in.object()
	if err != nil {
		return nil, err
	}
	pairs, err := in.values(def)
	if err != nil {
		return nil, err
	}
	maps.Copy(given, pairs)
	return def.BindInputs(given)
}

// values reads the values of -i, each by the type of its input.
func (in *inputFlags) values(def *workflow.Definition) (map[string]any, error) {
	return valuesOf("--input", "write -i day=2026-01-31", in.pairs, def.ParseInput)
}

func (in *inputFlags) object() (map[string]any, error) {
	given := map[string]any{}
	if in.whole == "" {
		return given, nil
	}
	text, err := textOf("--inputs", in.whole)
	if err != nil {
		return nil, err
	}
	if !utf8.Valid(text) {
		return nil, usage("", "--inputs: want text in UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&given); err != nil || given == nil || d.More() {
		return nil, usage(`write --inputs '{"day": "2026-01-31"}' or --inputs @FILE`, "--inputs: want one JSON object")
	}
	return given, nil
}
