package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A place is a position in a source: line and column from 1, 0 for none.
type place struct{ line, column int }

// A value is one value of a workflow before it has been examined, wherever it
// came from: YAML, canonical JSON or a Go literal.
type value struct {
	place
	kind    valueKind
	text    string // of a scalar, as it was written; of a string, what it says
	items   []*value
	entries []entry
	fault   string // why the value cannot be used at all; it has been reported
}

type entry struct {
	place
	key   string
	value *value
}

type valueKind string

const (
	nullValue    valueKind = "nothing"
	booleanValue valueKind = "a boolean"
	numberValue  valueKind = "a number"
	textValue    valueKind = "text"
	listValue    valueKind = "a list"
	objectValue  valueKind = "a mapping"
	brokenValue  valueKind = "broken" // has been reported
)

// find answers the value of a key, or nil.
func (v *value) find(key string) *value {
	for _, e := range v.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

// valueOf makes a value of what a JSON decoder with UseNumber answers.
func valueOf(v any) *value {
	switch v := v.(type) {
	case nil:
		return &value{kind: nullValue}
	case bool:
		return &value{kind: booleanValue, text: fmt.Sprint(v)}
	case json.Number:
		return &value{kind: numberValue, text: floatText(string(v))}
	case string:
		return &value{kind: textValue, text: v}
	case []any:
		out := &value{kind: listValue}
		for _, e := range v {
			out.items = append(out.items, valueOf(e))
		}
		return out
	case map[string]any:
		out := &value{kind: objectValue}
		for _, k := range sortedKeys(v) {
			out.entries = append(out.entries, entry{key: k, value: valueOf(v[k])})
		}
		return out
	}
	panic(fmt.Sprintf("workflow: %T does not come out of a JSON decoder", v))
}

// floatText marks an integer of JSON that does not fit 64 bits as the float that
// Go wrote it for.
func floatText(text string) string {
	if _, err := strconv.ParseInt(text, 10, 64); err != nil && integerText.MatchString(text) {
		return text + "e0"
	}
	return text
}

var (
	integerText = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)$`)
	numberText  = regexp.MustCompile(`^[-+]?(0|[1-9][0-9]*)?(\.[0-9]*)?([eE][-+]?[0-9]+)?$`)
)

var (
	errNumberForm = errors.New("is not written as a plain decimal number")
	errNumberSize = errors.New("does not fit 64 bits")
)

// parseNumber reads a number as a file may write it: decimal, without leading
// zeros, underscores or other bases, which YAML parsers do not agree on.
func parseNumber(text string) (any, error) {
	plain := strings.TrimPrefix(text, "+")
	if integerText.MatchString(text) {
		n, err := number(plain)
		if _, exact := n.(int); err != nil || !exact {
			return nil, errNumberSize
		}
		return n, nil
	}
	if !numberText.MatchString(text) || !strings.ContainsAny(text, "0123456789") {
		return nil, errNumberForm
	}
	f, err := number(plain)
	if err != nil {
		return nil, errNumberSize
	}
	return f, nil
}
