package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/machine"
)

// timeLayout is RFC 3339 in UTC with microseconds.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// line is the exported form of an entry.
type line struct {
	Entity    string          `json:"entity"`
	Sequence  int64           `json:"sequence"`
	From      *machine.State  `json:"from"`
	To        machine.State   `json:"to"`
	Event     machine.Event   `json:"event"`
	Reason    string          `json:"reason"`
	Actor     string          `json:"actor"`
	RequestID string          `json:"request_id"`
	Metadata  json.RawMessage `json:"metadata"`
	At        string          `json:"at"`
	Hash      Hash            `json:"hash"`

	// Of version 2.
	Version int        `json:"version,omitempty"`
	Seals   []sealLine `json:"seals,omitempty"`
	Tree    *treeLine  `json:"tree,omitempty"`
	Again   int64      `json:"again,omitempty"`
	Folded  int64      `json:"folded,omitempty"`
}

type sealLine struct {
	Field string `json:"field"`
	Sum   Hash   `json:"sum"`
}

type treeLine struct {
	N   int64 `json:"n"`
	Acc Hash  `json:"acc"`
}

// MarshalJSON returns the entry as an exported line (see the package documentation), without
// the line's end. It refuses an entry that could not be read back exactly: a text that is not
// UTF-8, metadata that is not a compact JSON object, a time outside of the years 0 to 9999.
//
// json.Marshal escapes <, >, &, U+2028 and U+2029 in what MarshalJSON returns. If metadata has
// them unescaped, this changes what was hashed; [WriteLines] never escapes them, and
// [CanonicalMetadata] returns none.
func (e Entry) MarshalJSON() ([]byte, error) {
	l, err := e.line()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := lineEncoder(&b).Encode(l); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// line returns the exported form, if the entry can be read back from it.
func (e *Entry) line() (*line, error) {
	if err := e.exportable(); err != nil {
		return nil, fmt.Errorf("entry %d of %q cannot be exported: %w", e.Sequence, e.Entity, err)
	}
	l := &line{
		Entity: e.Entity, Sequence: e.Sequence, To: e.To, Event: e.Event, Reason: e.Reason, Actor: e.Actor,
		RequestID: e.RequestID, At: time.UnixMicro(e.At).UTC().Format(timeLayout), Hash: e.Hash,
	}
	if e.From != "" {
		l.From = &e.From
	}
	if len(e.Metadata) > 0 {
		l.Metadata = e.Metadata
	}
	l.Version, l.Again, l.Folded = e.Version, e.Again, e.Folded
	for i := range e.Seals {
		l.Seals = append(l.Seals, sealLine{e.Seals[i].Field, e.Seals[i].Sum})
	}
	if e.Tree != nil {
		l.Tree = &treeLine{e.Tree.N, e.Tree.Acc}
	}
	return l, nil
}

func (e *Entry) exportable() error {
	for _, t := range []struct{ name, text string }{
		{"entity", e.Entity}, {"from", string(e.From)}, {"to", string(e.To)}, {"event", string(e.Event)},
		{"reason", e.Reason}, {"actor", e.Actor}, {"request_id", e.RequestID},
	} {
		if !utf8.ValidString(t.text) {
			return fmt.Errorf("%s %.40q: want valid UTF-8", t.name, t.text)
		}
	}
	if y := time.UnixMicro(e.At).UTC().Year(); y < 0 || y > 9999 {
		return fmt.Errorf("at %d µs: want a time in the years 0 to 9999", e.At)
	}
	if len(e.Metadata) == 0 {
		return nil
	}
	if compact, err := compactObject(e.Metadata); err != nil {
		return err
	} else if !bytes.Equal(compact, e.Metadata) {
		return fmt.Errorf("metadata %.40q: want compact JSON, without white space outside of strings", e.Metadata)
	}
	return nil
}

// compactObject returns a JSON object without white space outside of its strings, otherwise
// unchanged.
func compactObject(b []byte) ([]byte, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, b); err != nil || compact.Len() == 0 || compact.Bytes()[0] != '{' || !utf8.Valid(b) {
		return nil, fmt.Errorf("metadata %.40q: want a JSON object in valid UTF-8", b)
	}
	return compact.Bytes(), nil
}

// CanonicalMetadata returns a JSON object as Entry.Metadata should hold it: as json.Marshal
// writes it, compact and with <, >, &, U+2028 and U+2029 escaped; keys stay in their order.
// For an empty text, and for null, it returns nil: no metadata. Anything else is an error. The
// output of json.Marshal for a map or struct needs no call.
func CanonicalMetadata(raw []byte) ([]byte, error) {
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		return nil, nil
	}
	compact, err := compactObject(trimmed)
	if err != nil {
		return nil, err
	}
	var escaped bytes.Buffer
	json.HTMLEscape(&escaped, compact)
	return escaped.Bytes(), nil
}

// UnmarshalJSON reads the entry from an exported line. Every key has to be there exactly once,
// spelled exactly, and no other; white space does not matter. The keys of version 2 are there
// unless they are empty. The hash is read, not checked. On error the entry stays unchanged.
func (e *Entry) UnmarshalJSON(b []byte) error {
	if !utf8.Valid(b) {
		return errors.New("entry: want valid UTF-8")
	}
	var f fields
	if err := f.read(b); err != nil {
		return fmt.Errorf("entry: %w", err)
	}
	*e = f.entry
	return nil
}

// fields reads an entry key by key. encoding/json accepts unknown keys, keys in the wrong case
// and duplicate keys, which a verifier must not.
type fields struct {
	entry Entry
	seen  []string
}

// keys are the keys of every line, in their order; laterKeys those of version 2: version is
// first, and the others are there unless empty.
var laterKeys = []string{"version", "seals", "tree", "again", "folded"}

var keys = []string{"entity", "sequence", "from", "to", "event", "reason", "actor", "request_id", "metadata", "at", "hash"}

func (f *fields) read(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("want a JSON object")
	}
	for d.More() {
		if err := f.next(d); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("the object does not end: %w", err)
	}
	if len(bytes.TrimSpace(b[d.InputOffset():])) > 0 {
		return errors.New("something follows the object")
	}
	return f.complete()
}

// complete names the first missing key.
func (f *fields) complete() error {
	for _, k := range keys {
		if !f.has(k) {
			return fmt.Errorf("key %q is missing", k)
		}
	}
	for _, k := range laterKeys {
		if f.has(k) && f.entry.Version != Version2 {
			return fmt.Errorf("key %q: want it in an entry of version 2 only", k)
		}
	}
	return nil
}

func (f *fields) has(key string) bool {
	for _, s := range f.seen {
		if s == key {
			return true
		}
	}
	return false
}

// next reads a key and its value.
func (f *fields) next(d *json.Decoder) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	key, _ := t.(string) // the decoder allows nothing else here
	if f.has(key) {
		return fmt.Errorf("key %q comes twice", key)
	}
	f.seen = append(f.seen, key)
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return f.set(key, raw)
}

func (f *fields) set(key string, raw json.RawMessage) error {
	e := &f.entry
	switch key {
	case "entity":
		return text(key, raw, &e.Entity)
	case "sequence":
		return sequence(raw, &e.Sequence)
	case "from":
		if string(raw) == "null" {
			return nil
		}
		return source(raw, &e.From)
	case "to":
		return text(key, raw, &e.To)
	case "event":
		return text(key, raw, &e.Event)
	case "reason":
		return text(key, raw, &e.Reason)
	case "actor":
		return text(key, raw, &e.Actor)
	case "request_id":
		return text(key, raw, &e.RequestID)
	case "metadata":
		return metadata(raw, &e.Metadata)
	case "at":
		return timestamp(raw, &e.At)
	case "hash":
		return digest(raw, &e.Hash)
	case "version":
		return version(raw, &e.Version)
	case "seals":
		return seals(raw, &e.Seals)
	case "tree":
		return tree(raw, &e.Tree)
	case "again":
		return positive(key, raw, &e.Again)
	case "folded":
		return positive(key, raw, &e.Folded)
	}
	return fmt.Errorf("key %q: want only %q", key, slices.Concat(keys, laterKeys))
}
