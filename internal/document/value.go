package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Place is a position in a source: line and column from 1, 0 for none.
type Place struct{ Line, Column int }

// A Value is one value of a document before it is examined, from YAML, canonical JSON
// or a Go literal.
type Value struct {
	Place
	Kind    Kind
	Text    string // of a scalar, as it was written; of a string, its content
	Items   []*Value
	Entries []Entry
}

// An Entry is one key of a mapping.
type Entry struct {
	Place
	Key   string
	Value *Value
}

// A Kind is the kind of a value, in the words of errors.
type Kind string

// The kinds of values.
const (
	Null    Kind = "nothing"
	Boolean Kind = "a boolean"
	Number  Kind = "a number"
	Text    Kind = "text"
	List    Kind = "a list"
	Object  Kind = "a mapping"
	Broken  Kind = "broken" // has been reported
)

// Find returns the value of a key, or nil.
func (v *Value) Find(key string) *Value {
	for _, e := range v.Entries {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

// ValueOf converts the result of a JSON decoder with UseNumber.
func ValueOf(v any) *Value {
	switch v := v.(type) {
	case nil:
		return &Value{Kind: Null}
	case bool:
		return &Value{Kind: Boolean, Text: fmt.Sprint(v)}
	case json.Number:
		return &Value{Kind: Number, Text: floatText(string(v))}
	case string:
		return &Value{Kind: Text, Text: v}
	case []any:
		out := &Value{Kind: List}
		for _, e := range v {
			out.Items = append(out.Items, ValueOf(e))
		}
		return out
	case map[string]any:
		out := &Value{Kind: Object}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			out.Entries = append(out.Entries, Entry{Key: k, Value: ValueOf(v[k])})
		}
		return out
	}
	panic(fmt.Sprintf("document: %T does not come out of a JSON decoder", v))
}

// floatText writes an integer of JSON that does not fit 64 bits as the float that it
// was in Go.
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

// ParseNumber reads a number as a file may write it: decimal, without leading
// zeros, underscores or other bases, which YAML parsers do not agree on.
func ParseNumber(text string) (any, error) {
	plain := strings.TrimPrefix(text, "+")
	if integerText.MatchString(text) {
		n, err := NumberOf(plain)
		if _, exact := n.(int); err != nil || !exact {
			return nil, errNumberSize
		}
		return n, nil
	}
	if !numberText.MatchString(text) || !strings.ContainsAny(text, "0123456789") {
		return nil, errNumberForm
	}
	f, err := NumberOf(plain)
	if err != nil {
		return nil, errNumberSize
	}
	return f, nil
}

// NumberOf reads a JSON number: an integer that fits 64 bits as int, any other as
// float64.
func NumberOf(text string) (any, error) {
	if !strings.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(text, 10, 64); err == nil {
			return int(i), nil
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, fmt.Errorf("number %s is out of range", text)
	}
	return f, nil
}
