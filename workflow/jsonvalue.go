package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/document"
)

// Limits of values.
const (
	MaxValue = 1 << 20 // bytes of JSON of the value of an expression or a template
)

var (
	errTooLarge = fmt.Errorf("the value is larger than %d bytes of JSON", MaxValue)
	errTooDeep  = fmt.Errorf("the value is nested deeper than %d", MaxDepth)
)

// A largeInteger is an integer that does not fit 64 bits, as it was written.
// Expressions pass it on and compare it with its like; they cannot compute with it.
type largeInteger struct{ digits string }

// decodeJSON reads one JSON value as expressions see it: integers that fit 64 bits as
// int, larger ones as largeInteger, other numbers as float64. An empty input is nil.
func decodeJSON(raw []byte) (any, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	v, err := decodeNumbers(raw)
	if err != nil {
		return nil, err
	}
	return plainNumbers(v, 0)
}

// decodeNumbers reads one JSON value and leaves numbers as json.Number.
func decodeNumbers(raw []byte) (any, error) {
	if v, ok := document.ReadJSON(raw); ok {
		return v, nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: text after the value")
	}
	return v, nil
}

// plainNumbers turns json.Number into int, largeInteger or float64, in place.
func plainNumbers(v any, depth int) (any, error) {
	if depth > MaxDepth {
		return nil, errTooDeep
	}
	var err error
	switch v := v.(type) {
	case json.Number:
		n, err := document.NumberOf(string(v))
		if _, rounded := n.(float64); rounded && !strings.ContainsAny(string(v), ".eE") {
			return largeInteger{string(v)}, nil
		}
		return n, err
	case []any:
		for i := range v {
			if v[i], err = plainNumbers(v[i], depth+1); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for k := range v {
			if v[k], err = plainNumbers(v[k], depth+1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// encodeJSON writes v as compact JSON with sorted keys. Integers, and floats
// from 1e-6 to 2^63, have no exponent; one that is written like an integer fits 64
// bits, or is a largeInteger.
func encodeJSON(v any) ([]byte, error) {
	e := jsonWriter{limit: MaxValue}
	if err := e.write(v, 0); err != nil {
		return nil, err
	}
	return e.out, nil
}

type jsonWriter struct {
	out   []byte
	limit int
}

func (e *jsonWriter) write(v any, depth int) error {
	if depth > MaxDepth {
		return errTooDeep
	}
	if len(e.out) > e.limit {
		return errTooLarge
	}
	var err error
	switch v := v.(type) {
	case nil:
		e.out = append(e.out, "null"...)
	case bool:
		e.out = strconv.AppendBool(e.out, v)
	case string:
		e.out = appendString(e.out, v)
	case int:
		e.out = strconv.AppendInt(e.out, int64(v), 10)
	case float64:
		e.out, err = appendFloat(e.out, v)
	case largeInteger:
		e.out = append(e.out, v.digits...)
	case json.RawMessage:
		e.out = append(e.out, v...)
	case []any:
		err = e.list(len(v), func(i int) any { return v[i] }, depth)
	case map[string]any:
		err = e.object(v, depth)
	default:
		err = e.other(v, depth)
	}
	if err == nil && len(e.out) > e.limit {
		return errTooLarge
	}
	return err
}

// other writes what builtins of the expression language make: typed lists,
// groups, and numbers of other sizes.
func (e *jsonWriter) other(v any, depth int) error {
	r := reflect.ValueOf(v)
	switch r.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.out = strconv.AppendInt(e.out, r.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.out = strconv.AppendUint(e.out, r.Uint(), 10)
	case reflect.Float32:
		return e.write(r.Float(), depth)
	case reflect.Slice, reflect.Array:
		return e.list(r.Len(), func(i int) any { return r.Index(i).Interface() }, depth)
	case reflect.Map:
		m := make(map[string]any, r.Len())
		for it := r.MapRange(); it.Next(); {
			k, err := asText(it.Key().Interface())
			if err != nil {
				return err
			}
			m[k] = it.Value().Interface()
		}
		return e.object(m, depth)
	default:
		return fmt.Errorf("a %T is not a value of JSON", v)
	}
	return nil
}

func (e *jsonWriter) list(n int, at func(int) any, depth int) error {
	e.out = append(e.out, '[')
	for i := range n {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		if err := e.write(at(i), depth+1); err != nil {
			return err
		}
	}
	e.out = append(e.out, ']')
	return nil
}

func (e *jsonWriter) object(m map[string]any, depth int) error {
	e.out = append(e.out, '{')
	for i, k := range sortedKeys(m) {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.out = append(appendString(e.out, k), ':')
		if err := e.write(m[k], depth+1); err != nil {
			return err
		}
	}
	e.out = append(e.out, '}')
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// appendString writes s as a JSON string; < > & stay as they are.
func appendString(out []byte, s string) []byte {
	const hex = "0123456789abcdef"
	out = append(out, '"')
	for s != "" {
		n := asciiLength(s)
		if out, s = append(out, s[:n]...), s[n:]; s == "" {
			break
		}
		r, size := utf8.DecodeRuneInString(s)
		s = s[size:]
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r == '\n':
			out = append(out, '\\', 'n')
		case r == '\t':
			out = append(out, '\\', 't')
		case r == '\r':
			out = append(out, '\\', 'r')
		case r < 0x20 || r == 0x7f:
			out = append(out, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			out = utf8.AppendRune(out, r)
		}
	}
	return append(out, '"')
}

// asciiLength returns how many characters of ASCII s begins with that need no escape.
func asciiLength(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}

func appendFloat(out []byte, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return out, errors.New("the number is not finite: was something divided by zero?")
	}
	if f == 0 {
		return append(out, '0'), nil
	}
	if a := math.Abs(f); a < 1<<63 && a >= 1e-6 {
		return strconv.AppendFloat(out, f, 'f', -1, 64), nil
	}
	return strconv.AppendFloat(out, f, 'e', -1, 64), nil
}

// asText writes a value inside other text: strings as they are, null as empty text,
// lists and objects as compact JSON.
func asText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	case float64:
		if a := math.Abs(v); a == math.Trunc(a) && a < 1e21 {
			return strconv.FormatFloat(v, 'f', -1, 64), nil
		}
	}
	b, err := encodeJSON(v)
	return string(b), err
}

// CheckJSON returns why expressions could not read a value that came from outside, for
// example a number that is too large.
func CheckJSON(raw []byte) error {
	if _, err := decodeJSON(raw); err != nil {
		return errors.New(document.Shorten(err.Error()))
	}
	return nil
}
