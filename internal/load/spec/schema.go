package spec

import (
	"strings"

	"github.com/pawl-dev/pawl/internal/document"
)

// SchemaID is where the JSON Schema of the file is published.
const SchemaID = "https://raw.githubusercontent.com/pawl-dev/pawl/main/docs/load.schema.json"

// Schema returns the JSON Schema (2020-12) of the file, made from the table of keys that Parse
// uses. It knows keys, types, words and ranges, not what they mean together.
func Schema() []byte { return document.Schema(fileShape, SchemaID, "Pawl load test") }

// Reference returns the tables of keys in Markdown, for docs/load.md.
func Reference() string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		shape *document.Shape
	}{
		{"The file", fileShape}, {"s3", storeShape}, {"An entry of files", setShape}, {"tree", treeShape}, {"size and block", sizeShape}, {"uniform", uniformShape},
		{"lognormal", lognormalShape}, {"An entry of list", weightedShape}, {"An entry of mix", mixShape}, {"access", zipfShape},
		{"rate", &document.Shape{Fields: rateFields}}, {"errors", budgetShape}, {"cleanup", cleanupShape}, {"timeouts", timeoutsShape},
		{"start", startShape}, {"An entry of thresholds", thresholdShape},
	} {
		b.WriteString(document.Table(part.title, part.shape))
	}
	return b.String()
}
