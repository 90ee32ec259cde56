package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// strictJSON reads one value of JSON that is UTF-8 and names no key of an object twice.
var strictJSON = huma.Format{
	Marshal: huma.DefaultJSONFormat.Marshal,
	Unmarshal: func(data []byte, v any) error {
		if err := checkJSON(data); err != nil {
			return err
		}
		return json.Unmarshal(data, v)
	},
}

var errNotJSON = errors.New("want one value of JSON, in UTF-8")

// checkJSON returns an error for what is not JSON, or could be read in two ways.
func checkJSON(data []byte) error {
	if !utf8.Valid(data) || !json.Valid(data) {
		return errNotJSON
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	type level struct {
		keys map[string]bool // of an object; nil: an array
		key  bool            // the next string is a key
	}
	var open []level
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
			in.keys[name], in.key = true, false
			continue
		}
		switch token {
		case json.Delim('{'):
			open = append(open, level{keys: map[string]bool{}, key: true})
			continue
		case json.Delim('['):
			open = append(open, level{})
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
