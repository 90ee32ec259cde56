// Workflowschema writes what is generated from the table of keys of the
// workflow file: docs/workflow.schema.json, and the tables in docs/workflow.md
// between their two marks. Run it at the root of the repository:
//
//	go run ./internal/workflowschema
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/pawl-dev/pawl/workflow"
)

// The marks between which docs/workflow.md is generated.
const (
	begin = "<!-- begin generated tables -->\n"
	end   = "<!-- end generated tables -->\n"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func write() error {
	if err := os.WriteFile("docs/workflow.schema.json", workflow.Schema(), 0o644); err != nil {
		return err
	}
	const path = "docs/workflow.md"
	doc, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(doc), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s lacks the marks of its generated part", path)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+workflow.Reference()+end+after), 0o644)
}
