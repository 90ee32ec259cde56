package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

// The readers of the fields of a line. Each takes one spelling of a value only,
// escapes in strings aside.

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
