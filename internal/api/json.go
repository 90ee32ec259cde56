package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/internal/exchange"
)

// strictJSON reads one value of JSON that is UTF-8 and names no key of an object twice.
var strictJSON = huma.Format{
	Marshal: func(w io.Writer, v any) error {
		if a, is := v.(exchange.Answer); is {
			v = &a
		}
		a, is := v.(appends)
		if !is {
			return huma.DefaultJSONFormat.Marshal(w, v)
		}
		var err error
		withText(a, func(text []byte) { _, err = w.Write(text) })
		return err
	},
	Unmarshal: func(data []byte, v any) error {
		if _, first := v.(*any); !first { // the checks have passed
			d := json.NewDecoder(bytes.NewReader(data))
			d.UseNumber() // a number in a value of any type is exact
			return d.Decode(v)
		}
		if err := checkJSON(data); err != nil {
			return err
		}
		return json.Unmarshal(data, v)
	},
}

// maxValues is how many values a body may have outside of the members whose value is any
// JSON: each of them may be a fault.
const maxValues = 100_000

// anyMembers are these members, of objects at any depth.
var anyMembers = map[string]bool{"inputs": true, "definition": true, "data": true, "output": true, "form": true, "results": true}

var errNotJSON = errors.New("want one value of JSON, in UTF-8")

// checkJSON returns an error for what is not JSON, could be read in two ways, or has too many
// values.
func checkJSON(data []byte) error {
	if !utf8.Valid(data) || !json.Valid(data) {
		return errNotJSON
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type level struct {
		keys map[string]bool // of an object; nil: an array
		key  bool            // the next string is a key
		free bool            // it is within a member whose value is any JSON
		next bool            // so is its next value
	}
	var open []level
	values := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errNotJSON
		}
		var in *level
		if len(open) > 0 {
			in = &open[len(open)-1]
		}
		if name, is := token.(string); is && in != nil && in.key {
			if in.keys[name] {
				return fmt.Errorf("the key %q stands twice in one object", name)
			}
			in.keys[name], in.key, in.next = true, false, in.free || anyMembers[name]
			continue
		}
		free := in != nil && (in.free || in.next)
		if !free {
			if values++; values > maxValues {
				return fmt.Errorf("want at most %d values", maxValues)
			}
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{keys: map[string]bool{}, key: true, free: free})
			continue
		case json.Delim('['):
			open = append(open, level{free: free})
			continue
		case json.Delim('}'), json.Delim(']'):
			if open = open[:len(open)-1]; len(open) == 0 {
				continue
			}
			in = &open[len(open)-1]
		}
		if in != nil {
			in.key = in.keys != nil
		}
	}
}
