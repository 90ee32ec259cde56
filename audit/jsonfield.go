package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// The functions that read the fields of a line. Each accepts only one spelling of a value,
// apart from escapes in strings.

func text[S ~string](key string, raw json.RawMessage, to *S) error {
	if raw[0] != '"' {
		return fmt.Errorf("%s %.40s: want a string", key, raw)
	}
	return json.Unmarshal(raw, to)
}

func sequence(raw json.RawMessage, to *int64) error {
	if err := json.Unmarshal(raw, to); err != nil || raw[0] == 'n' {
		return fmt.Errorf("sequence %.40s: want a whole number", raw)
	}
	return nil
}

func source(raw json.RawMessage, to *machine.State) error {
	if err := text("from", raw, to); err != nil {
		return err
	}
	if *to == "" {
		return errors.New(`from "": want a state, or null for the creation`)
	}
	return nil
}

func metadata(raw json.RawMessage, to *[]byte) error {
	if string(raw) == "null" {
		return nil
	}
	compact, err := compactObject(raw)
	*to = compact
	return err
}

func timestamp(raw json.RawMessage, to *int64) error {
	var s string
	if err := text("at", raw, &s); err != nil {
		return err
	}
	t, err := time.Parse(timeLayout, s)
	if err != nil || t.Format(timeLayout) != s {
		return fmt.Errorf("at %.40q: want RFC 3339 in UTC with microseconds, as in 2006-01-02T15:04:05.000000Z", s)
	}
	*to = t.UnixMicro()
	return nil
}

func digest(raw json.RawMessage, to *Hash) error {
	var s string
	if err := text("hash", raw, &s); err != nil {
		return err
	}
	return to.UnmarshalText([]byte(s))
}

func version(raw json.RawMessage, to *int) error {
	if string(raw) != "2" {
		return fmt.Errorf("version %.40s: want 2; an entry of version 1 has none", raw)
	}
	*to = Version2
	return nil
}

func positive(key string, raw json.RawMessage, to *int64) error {
	if err := json.Unmarshal(raw, to); err != nil || *to < 1 {
		return fmt.Errorf("%s %.40s: want a whole number from 1 on", key, raw)
	}
	return nil
}

func tree(raw json.RawMessage, to **Tree) error {
	var l treeLine
	if err := strictly(raw, &l); err != nil || l.N < 0 {
		return fmt.Errorf("tree %.80s: want {n, acc}", raw)
	}
	*to = &Tree{N: l.N, Acc: l.Acc}
	return nil
}

func seals(raw json.RawMessage, to *[]Seal) error {
	var lines []sealLine
	if err := strictly(raw, &lines); err != nil || len(lines) == 0 {
		return fmt.Errorf("seals %.80s: want a list of {field, sum}", raw)
	}
	for _, l := range lines {
		if !slices.Contains(Fields, l.Field) {
			return fmt.Errorf("seals: field %.40q: want one of %q", l.Field, Fields)
		}
		*to = append(*to, Seal{Field: l.Field, Sum: l.Sum})
	}
	return nil
}

func strictly(raw json.RawMessage, to any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(to)
}
