// Workflowschema writes the files generated from the tables of keys: the JSON Schemas, and the
// tables in the documents between their two marks. Run it at the root of the repository:
//
//	go run ./internal/lab/workflowschema
package main

import (
	"fmt"
	"os"
	"strings"

	loadspec "github.com/pawl-dev/pawl/internal/load/spec"
	"github.com/pawl-dev/pawl/internal/programs/spec"
	"github.com/pawl-dev/pawl/workflow"
)

// The marks between which a document is generated.
const (
	begin = "<!-- begin generated tables -->\n"
	end   = "<!-- end generated tables -->\n"
)

func main() {
	for name, tables := range map[string]struct {
		schema    []byte
		reference string
	}{
		"workflow":  {workflow.Schema(), workflow.Reference()},
		"supervise": {spec.Schema(), spec.Reference()},
		"load":      {loadspec.Schema(), loadspec.Reference()},
	} {
		if err := write("docs/"+name, tables.schema, tables.reference); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
	}
}

// write writes path.schema.json, and the tables in path.md.
func write(path string, schema []byte, reference string) error {
	if err := os.WriteFile(path+".schema.json", schema, 0o644); err != nil {
		return err
	}
	doc, err := os.ReadFile(path + ".md")
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(doc), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s.md lacks the marks of its generated part", path)
	}
	return os.WriteFile(path+".md", []byte(before+begin+"\n"+reference+end+after), 0o644)
}
