package spec

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/document"
)

// SchemaID is where the JSON Schema of the file is published.
const SchemaID = "https://raw.githubusercontent.com/pawl-dev/pawl/main/docs/supervise.schema.json"

// Schema returns the JSON Schema (2020-12) of the file, made from the table of
// keys that Parse uses. It knows keys, types, words and ranges, not what services
// mean together.
func Schema() []byte { return document.Schema(fileShape, SchemaID, "Pawl services") }

// Reference returns the tables of keys in Markdown, for docs/supervise.md.
func Reference() string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		shape *document.Shape
	}{
		{"The file", fileShape}, {"A service", serviceShape}, {"ready", readyShape}, {"alive", aliveShape}, {"start", startShape},
		{"restart", restartShape}, {"stop", stopShape}, {"log", logShape}, {"limits", limitsShape},
	} {
		b.WriteString(document.Table(part.title, part.shape))
	}
	return b.String()
}
