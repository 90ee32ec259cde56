package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/pawl-dev/pawl"
)

// A cursor is the place at which the next page of a list begins.
type cursor struct {
	Version int    `json:"v"`
	After   string `json:"k"` // the key of the last item
	Filter  string `json:"f"` // a hash of what the list was restricted to
}

const cursorVersion = 1

// nextOf returns the cursor of the page after a key, for a list with a filter; empty if
// there is none.
func nextOf(after string, filter ...any) string {
	if after == "" {
		return ""
	}
	b, err := json.Marshal(cursor{cursorVersion, after, filterHash(filter)})
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// after returns the key after which a page begins; empty: the first page.
func (w *Window) after(filter ...any) (string, error) {
	if w.Cursor == "" {
		return "", nil
	}
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(w.Cursor)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil || c.Version != cursorVersion || c.After == "" {
		return "", pawl.Errorf(pawl.Invalid, "cursor %q: want the next of a page", w.Cursor)
	}
	if c.Filter != filterHash(filter) {
		return "", pawl.Errorf(pawl.Invalid, "cursor: it is of a list with other parameters: give the same, or no cursor")
	}
	return c.After, nil
}

func filterHash(filter []any) string {
	var text []byte
	for _, part := range filter {
		text = fmt.Appendf(text, "%q ", fmt.Sprint(part))
	}
	h := sha256.Sum256(text)
	return hex.EncodeToString(h[:8])
}
