// Command apidoc writes what docs/api.md, docs/access.md and docs/openapi.json say of the
// operations of the API (J4). Run it from the root of the module.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/pawl-dev/pawl/internal/api"
)

// The documents, relative to the root of the module: pages with a generated part, and what that
// is.
const document = "docs/openapi.json"

var pages = map[string]func() string{"docs/api.md": api.Reference, "docs/access.md": api.Roles}

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func write() error {
	for name, part := range pages {
		old, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		page, err := generated(name, old, part())
		if err != nil {
			return err
		}
		if err := os.WriteFile(name, page, 0o644); err != nil {
			return err
		}
	}
	doc, err := api.Document()
	if err != nil {
		return err
	}
	return os.WriteFile(document, append(doc, '\n'), 0o644)
}

// mark is the line of the page after which everything is generated.
var mark = []byte("<!-- generated from here on: make generate -->\n")

// generated returns the page with its generated part anew.
func generated(name string, page []byte, part string) ([]byte, error) {
	written, _, found := bytes.Cut(page, mark)
	if !found {
		return nil, fmt.Errorf("%s: want the line %q", name, bytes.TrimSpace(mark))
	}
	return append(append(bytes.Clone(written), mark...), part...), nil
}
